//! News from node to node through a real Redis: in order, and never lost in silence.
#![expect(clippy::unwrap_used, reason = "a test stops where its own set-up fails")]

mod hints_common;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bluetick_store_cloud::NodeId;
use bluetick_store_cloud::neighbours::memory::Street;
use bluetick_store_cloud::neighbours::redis::RedisNeighbours;
use bluetick_store_cloud::neighbours::{Neighbours, News};
use bluetick_store_cloud::redis::{Redis, RedisSettings};
use bluetick_testkit::redis::{RedisCluster, RedisServer};
use bytes::Bytes;
use hints_common::{conversation, eventually, to_cluster, to_single};

static SINGLE: LazyLock<RedisServer> = LazyLock::new(RedisServer::start);
static CLUSTER: LazyLock<RedisCluster> = LazyLock::new(RedisCluster::start);

type Any = Arc<dyn Neighbours>;

macro_rules! suite {
    ($($case:ident),* $(,)?) => {
        mod in_memory {
            $(#[tokio::test] async fn $case() {
                let street = super::Street::default();
                super::$case(|node| street.move_in(node)).await;
            })*
        }
        mod on_one_redis {
            $(#[tokio::test] async fn $case() {
                let redis = super::connect(super::to_single(super::SINGLE.url())).await;
                super::$case(|node| super::RedisNeighbours::new(redis.clone(), node)).await;
            })*
        }
        mod on_a_cluster {
            $(#[tokio::test] async fn $case() {
                let redis = super::connect(super::to_cluster(super::CLUSTER.urls())).await;
                super::$case(|node| super::RedisNeighbours::new(redis.clone(), node)).await;
            })*
        }
    };
}

suite! {
    what_one_node_sends_to_another_arrives_in_order,
    news_of_many_nodes_arrive_each_in_its_order,
    news_for_nobody_are_no_error,
    who_lives_is_known_to_all_and_who_left_is_not_among_them,
}

async fn connect(settings: RedisSettings) -> Arc<Redis> {
    let redis = Redis::open(settings).await.unwrap();
    redis.up().await;
    Arc::new(redis)
}

/// Cases share a server: no two nodes have one name.
fn node(name: &str) -> NodeId {
    NodeId::new(format!("{name}-{}", conversation()))
}

/// Moves in and opens its letter box. What was before is lost by its own account.
async fn settle<N: Neighbours>(neighbours: N) -> Any {
    let first = tokio::time::timeout(Duration::from_millis(500), neighbours.receive()).await;
    assert!(first.is_err() || first.unwrap().unwrap() == [News::Lost]);
    Arc::new(neighbours)
}

/// The next news, and whether any were lost before them.
async fn next(neighbours: &dyn Neighbours) -> Vec<News> {
    let wait = async {
        loop {
            if let Ok(news) = neighbours.receive().await {
                return news;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait).await.expect("news come")
}

async fn take(neighbours: &dyn Neighbours, count: usize) -> Vec<News> {
    let mut all = Vec::new();
    while all.len() < count {
        all.extend(next(neighbours).await);
    }
    all
}

async fn until_lost(neighbours: &dyn Neighbours) {
    while !next(neighbours).await.contains(&News::Lost) {}
}

fn letter(number: usize) -> Bytes {
    Bytes::from(format!("news {number}"))
}

async fn what_one_node_sends_to_another_arrives_in_order<N: Neighbours>(join: impl Fn(NodeId) -> N) {
    let (here, there) = (node("here"), node("there"));
    let sender: Any = Arc::new(join(here.clone()));
    let receiver = settle(join(there.clone())).await;
    let sends = (0..2000).map(|number| sender.send(&there, letter(number)));
    let (sent, received) = tokio::join!(futures_util::future::join_all(sends), take(&*receiver, 2000));
    assert!(sent.iter().all(Result::is_ok));
    let expected: Vec<_> = (0..2000).map(|number| News::From(here.clone(), letter(number))).collect();
    assert!(received == expected);
    sender.beat().await.unwrap();
    sender.send(&there, Bytes::new()).await.unwrap();
    assert_eq!(take(&*receiver, 1).await, [News::From(here, Bytes::new())]);
}

async fn news_of_many_nodes_arrive_each_in_its_order<N: Neighbours>(join: impl Fn(NodeId) -> N) {
    let there = node("there");
    let receiver = settle(join(there.clone())).await;
    let senders: Vec<(NodeId, N)> =
        (0..5).map(|_| node("sender")).map(|node| (node.clone(), join(node))).collect();
    for number in 0..20 {
        for (_, sender) in &senders {
            sender.send(&there, letter(number)).await.unwrap();
        }
    }
    let received = take(&*receiver, 100).await;
    for (sender, _) in &senders {
        let of_it: Vec<_> = received
            .iter()
            .filter_map(|news| match news {
                News::From(from, news) if from == sender => Some(news.clone()),
                _ => None,
            })
            .collect();
        assert_eq!(of_it, (0..20).map(letter).collect::<Vec<_>>());
    }
}

async fn news_for_nobody_are_no_error<N: Neighbours>(join: impl Fn(NodeId) -> N) {
    join(node("here")).send(&node("nobody"), letter(1)).await.unwrap();
}

async fn who_lives_is_known_to_all_and_who_left_is_not_among_them<N: Neighbours>(join: impl Fn(NodeId) -> N) {
    let (one, two) = (node("one"), node("two"));
    let (first, second) = (join(one.clone()), join(two.clone()));
    second.beat().await.unwrap();
    let living = first.beat().await.unwrap();
    assert!(living.contains(&one) && living.contains(&two));
    second.leave().await;
    eventually("who left is gone", || async { !first.beat().await.unwrap().contains(&two) }).await;
    assert!(first.beat().await.unwrap().contains(&one));
}

struct Pair {
    server: RedisServer,
    sender: Any,
    receiver: Any,
    there: NodeId,
}

/// Two nodes with a connection each, that have spoken.
async fn pair() -> Pair {
    let server = RedisServer::start();
    let quick = || RedisSettings { timeout_ms: 500, ..to_single(server.url()) };
    let there = node("there");
    let sender = Arc::new(RedisNeighbours::new(connect(quick()).await, node("here")));
    let receiver = settle(RedisNeighbours::new(connect(quick()).await, there.clone())).await;
    sender.send(&there, letter(1)).await.unwrap();
    assert_eq!(take(&*receiver, 1).await.len(), 1);
    Pair { server, sender, receiver, there }
}

impl Pair {
    /// Deletes the letters to the receiver. Redis numbers the entries of a new stream by its clock:
    /// within the same millisecond the next entry would have the id of a deleted one, which the
    /// receiver has read already.
    fn delete_letters(&self) {
        self.server.command(&["DEL", &format!("bt:{{n:{}}}:letters", self.there)]);
        let milliseconds = || self.server.command(&["EVAL", CLOCK, "0"]);
        let deleted_at = milliseconds();
        while milliseconds() == deleted_at {}
    }

    async fn talks_again(&self) {
        eventually("news can be sent", || async { self.sender.send(&self.there, letter(9)).await.is_ok() })
            .await;
        while !next(&*self.receiver).await.iter().any(|news| matches!(news, News::From(..))) {}
    }
}

#[tokio::test]
async fn when_everything_is_deleted_the_receiver_is_told() {
    let pair = pair().await;
    pair.sender.send(&pair.there, letter(2)).await.unwrap();
    pair.server.command(&["FLUSHALL"]);
    until_lost(&*pair.receiver).await;
    pair.talks_again().await;
}

#[tokio::test]
async fn when_the_last_letter_of_a_quiet_sender_is_gone_the_receiver_is_told() {
    let pair = pair().await;
    pair.sender.send(&pair.there, letter(2)).await.unwrap();
    pair.delete_letters();
    pair.sender.beat().await.unwrap();
    assert_eq!(next(&*pair.receiver).await, [News::Lost]);
    pair.talks_again().await;
}

#[tokio::test]
async fn when_letters_in_the_middle_are_gone_the_receiver_is_told() {
    let pair = pair().await;
    pair.sender.send(&pair.there, letter(2)).await.unwrap();
    pair.delete_letters();
    pair.sender.send(&pair.there, letter(3)).await.unwrap();
    assert!(next(&*pair.receiver).await.contains(&News::Lost));
}

/// Returns the clock of Redis in milliseconds.
const CLOCK: &str = "local now = redis.call('TIME') return now[1] * 1000 + math.floor(now[2] / 1000)";

#[tokio::test]
async fn nothing_is_said_to_be_lost_while_nothing_is() {
    let pair = pair().await;
    for number in 0..4 {
        pair.sender.send(&pair.there, letter(number)).await.unwrap();
        let quiet = tokio::time::timeout(Duration::from_millis(1200), async {
            pair.sender.beat().await.unwrap();
            let news = take(&*pair.receiver, 1).await;
            assert!(matches!(news[..], [News::From(..)]), "{news:?}");
            next(&*pair.receiver).await
        });
        quiet.await.expect_err("nothing more comes");
    }
}

#[tokio::test]
async fn when_redis_stops_for_a_while_the_receiver_is_told_afterwards() {
    let pair = pair().await;
    pair.server.pause();
    pair.sender.send(&pair.there, letter(2)).await.expect_err("it says nothing");
    pair.sender.send(&pair.there, letter(3)).await.expect_err("it is known to be away");
    pair.server.resume();
    eventually("the sender lives again", || async { pair.sender.beat().await.is_ok() }).await;
    until_lost(&*pair.receiver).await;
    pair.talks_again().await;
}

#[tokio::test]
async fn when_redis_is_killed_and_comes_back_empty_the_receiver_is_told() {
    let mut pair = pair().await;
    pair.server.stop();
    pair.sender.send(&pair.there, letter(2)).await.expect_err("nobody is there");
    pair.server.start_again_empty();
    until_lost(&*pair.receiver).await;
    pair.talks_again().await;
}

#[tokio::test]
async fn those_who_lived_before_redis_forgot_them_are_not_dead_at_once() {
    let server = RedisServer::start();
    let redis = connect(to_single(server.url())).await;
    let (one, two) = (node("one"), node("two"));
    let (first, second) =
        (RedisNeighbours::new(redis.clone(), one.clone()), RedisNeighbours::new(redis.clone(), two.clone()));
    second.beat().await.unwrap();
    first.beat().await.unwrap();
    server.command(&["FLUSHALL"]);
    assert!(first.beat().await.unwrap().contains(&two));
    let newcomer = RedisNeighbours::new(redis, node("newcomer"));
    assert!(newcomer.beat().await.unwrap().contains(&one));
}

#[tokio::test]
async fn who_says_nothing_for_ten_seconds_is_dead() {
    let server = RedisServer::start();
    let redis = connect(to_single(server.url())).await;
    let (one, two) = (node("one"), node("two"));
    let (first, second) =
        (RedisNeighbours::new(redis.clone(), one.clone()), RedisNeighbours::new(redis, two.clone()));
    second.beat().await.unwrap();
    let start = std::time::Instant::now();
    assert!(first.beat().await.unwrap().contains(&two));
    eventually("the silent one is dead", || async { !first.beat().await.unwrap().contains(&two) }).await;
    assert!(start.elapsed() > Duration::from_secs(9));
    assert!(first.beat().await.unwrap().contains(&one));
}

#[tokio::test]
async fn after_a_failover_in_a_cluster_the_receiver_is_told_and_news_come_again() {
    let mut cluster = RedisCluster::start();
    let quick = || RedisSettings { timeout_ms: 500, ..to_cluster(cluster.urls()) };
    let there = node("there");
    let sender = RedisNeighbours::new(connect(quick()).await, node("here"));
    let receiver = settle(RedisNeighbours::new(connect(quick()).await, there.clone())).await;
    sender.send(&there, letter(1)).await.unwrap();
    assert_eq!(take(&*receiver, 1).await.len(), 1);
    cluster.kill_primary_of(&format!("bt:{{n:{there}}}:letters"));
    until_lost(&*receiver).await;
    let talk = async {
        loop {
            eventually("news can be sent", || async { sender.send(&there, letter(2)).await.is_ok() }).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let hear = async { while !next(&*receiver).await.iter().any(|news| matches!(news, News::From(..))) {} };
    tokio::select! { () = hear => {}, () = talk => {} }
}
