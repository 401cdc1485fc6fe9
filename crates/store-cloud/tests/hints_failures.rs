//! What becomes of hints when a real Redis fails: they are away or unknown for a while, and never old.
#![expect(clippy::unwrap_used, reason = "a test stops where its own set-up fails")]

mod hints_common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bluetick_core::{ConversationId, InboxFilter, InboxKey, InboxSection, Seq};
use bluetick_store_cloud::hints::redis::RedisHints;
use bluetick_store_cloud::hints::{Hints, MessageKey, Reserved, Seed};
use bluetick_store_cloud::redis::{Redis, RedisMode, RedisSettings};
use bluetick_testkit::redis::{RedisCluster, RedisOptions, RedisSentinel, RedisServer, RedisWithTls};
use hints_common::*;

fn quick(settings: RedisSettings) -> RedisSettings {
    RedisSettings { timeout_ms: 500, ..settings }
}

/// A conversation with places, and somebody with an inbox and a pending row in it.
async fn something_known(hints: &RedisHints) -> ConversationId {
    let id = conversation();
    hints.seed(&seed(id, 10)).await.unwrap();
    for message in 1..=5 {
        seq(hints, &reserve(id, message)).await;
    }
    let place = InboxKey { shelf: InboxSection::Ordinary, last_at: NOW, id };
    hints.fill_inbox(&"alice".parse().unwrap(), &[place]).await.unwrap();
    hints.set_pending(&"alice".parse().unwrap(), id, true).await.unwrap();
    id
}

/// Once Redis can be used again nothing is known, and it can be told anew.
async fn is_forgotten(hints: &RedisHints, id: ConversationId) {
    eventually("redis is there", || async { hints.reserve(&reserve(id, 99)).await.is_ok() }).await;
    assert_eq!(hints.reserve(&reserve(id, 1)).await.unwrap(), Reserved::Unseeded);
    assert_eq!(hints.glance(id).await.unwrap(), None);
    assert_eq!(hints.sent(id, &["sender".parse().unwrap()]).await.unwrap(), None);
    let alice = "alice".parse().unwrap();
    assert_eq!(hints.inbox(&alice, InboxFilter::All, None, 10).await.unwrap(), None);
    assert!(!hints.whereabouts(id, &[alice]).await.unwrap()[0].pending);

    let ids = vec![(MessageKey(5), Seq::new(15), NOW)];
    hints.seed(&Seed { ids, ..seed(id, 20) }).await.unwrap();
    assert_eq!(seq(hints, &reserve(id, 5)).await, (15, true));
    assert_eq!(seq(hints, &reserve(id, 1)).await, (21, false));
}

#[tokio::test]
async fn after_flushall_everything_is_unknown() {
    let server = RedisServer::start();
    let hints = hints(to_single(server.url())).await;
    let id = something_known(&hints).await;
    server.command(&["FLUSHALL"]);
    is_forgotten(&hints, id).await;
}

#[tokio::test]
async fn after_a_restart_with_nothing_everything_is_unknown() {
    let mut server = RedisServer::start();
    let hints = hints(to_single(server.url())).await;
    let id = something_known(&hints).await;
    server.stop();
    hints.reserve(&reserve(id, 6)).await.expect_err("nobody is there");
    server.start_again_empty();
    is_forgotten(&hints, id).await;
}

#[tokio::test]
async fn after_a_restart_with_old_data_nothing_of_it_is_believed() {
    let mut server = RedisServer::start();
    let hints = hints(to_single(server.url())).await;
    let id = something_known(&hints).await;
    server.command(&["SAVE"]);
    assert_eq!(seq(&hints, &reserve(id, 6)).await, (16, false));
    server.start_again();
    assert_eq!(
        server.command(&["HGET", &hints.key_of(id), "reserved"]).text(),
        "15",
        "the old data is there"
    );
    is_forgotten(&hints, id).await;
}

#[tokio::test]
async fn after_a_restart_with_all_data_nothing_of_it_is_believed_either() {
    let mut server = RedisServer::start_with(RedisOptions { append_only: true, ..RedisOptions::default() });
    let hints = hints(to_single(server.url())).await;
    let id = something_known(&hints).await;
    server.start_again();
    assert_eq!(server.command(&["HGET", &hints.key_of(id), "reserved"]).text(), "15");
    is_forgotten(&hints, id).await;
}

#[tokio::test]
async fn a_stopped_redis_costs_everybody_one_timeout_and_then_nothing() {
    let server = RedisServer::start();
    let hints = hints(quick(to_single(server.url()))).await;
    let id = something_known(&hints).await;
    server.pause();
    let start = Instant::now();
    let calls = (0..500).map(|message| {
        let hints = &hints;
        async move { hints.reserve(&reserve(id, 1000 + message)).await.expect_err("it says nothing") }
    });
    futures_util::future::join_all(calls).await;
    // 500 timeouts one after the other would take minutes, and so would 1,000.
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    let start = Instant::now();
    for message in 0..1000 {
        hints.reserve(&reserve(id, 2000 + message)).await.expect_err("it is known to be away");
        assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    }
    server.resume();
    eventually("redis is there", || async { hints.glance(id).await.is_ok() }).await;
    assert_eq!(seq(&hints, &reserve(id, 5)).await, (15, true), "nothing was lost, so it is still known");
}

#[tokio::test]
async fn a_redis_that_is_not_there_at_the_start_is_used_when_it_comes() {
    let mut server = RedisServer::start();
    server.stop();
    let redis = Redis::open(quick(to_single(server.url()))).await.unwrap();
    let hints = RedisHints::new(redis.into());
    hints.glance(conversation()).await.expect_err("nobody is there");
    server.start_again();
    eventually("redis is there", || async { hints.glance(conversation()).await.is_ok() }).await;
}

#[tokio::test]
async fn scripts_that_the_server_forgot_are_sent_again() {
    let server = RedisServer::start();
    let hints = hints(to_single(server.url())).await;
    let id = something_known(&hints).await;
    server.command(&["SCRIPT", "FLUSH"]);
    assert_eq!(seq(&hints, &reserve(id, 6)).await, (16, false));
    let people: Vec<_> = (0..3).map(|_| user()).collect();
    server.command(&["SCRIPT", "FLUSH"]);
    assert_eq!(hints.touch(id, NOW, &people).await.unwrap().len(), 3);
}

/// One writer, who takes every place it was given for written and tells so when it is asked: no place may come again.
struct Writer<'a> {
    hints: &'a RedisHints,
    id: ConversationId,
    written: u64,
    messages: u64,
}

impl Writer<'_> {
    /// Whether a place was got.
    async fn write(&mut self) -> bool {
        self.messages += 1;
        match self.hints.reserve(&reserve(self.id, self.messages)).await {
            Ok(Reserved::Place(place)) => {
                assert!(place.seq.get() > self.written, "{} came again after {}", place.seq, self.written);
                assert!(!place.known);
                self.written = place.seq.get();
                true
            }
            Ok(Reserved::Unseeded) => {
                let _away = self.hints.seed(&seed(self.id, self.written)).await;
                false
            }
            Err(_) => false,
        }
    }

    async fn write_for(&mut self, time: Duration) {
        let start = Instant::now();
        while start.elapsed() < time {
            self.write().await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// How long it took.
    async fn write_until_it_works(&mut self) -> Duration {
        let start = Instant::now();
        while !self.write().await {
            assert!(start.elapsed() < Duration::from_secs(30), "it does not come back");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        start.elapsed()
    }
}

fn writer(hints: &RedisHints, id: ConversationId) -> Writer<'_> {
    Writer { hints, id, written: 0, messages: 0 }
}

#[tokio::test]
async fn after_a_failover_by_sentinels_the_new_primary_is_found_and_old_places_do_not_come_again() {
    let mut servers = RedisSentinel::start();
    let settings = RedisSettings {
        urls: servers.urls(),
        mode: RedisMode::Sentinel,
        sentinel_master: servers.master_name().to_owned(),
        ..RedisSettings::default()
    };
    let hints = hints(quick(settings)).await;
    let id = something_known(&hints).await;
    let mut writer = writer(&hints, conversation());
    writer.write_for(Duration::from_millis(300)).await;
    servers.kill_primary();
    let away = writer.write_until_it_works().await;
    println!("away for {} ms", away.as_millis());
    writer.write_for(Duration::from_millis(300)).await;
    is_forgotten(&hints, id).await;
}

#[tokio::test]
async fn after_a_failover_in_a_cluster_the_new_primary_is_found_and_old_places_do_not_come_again() {
    let mut cluster = RedisCluster::start();
    let hints = hints(quick(to_cluster(cluster.urls()))).await;
    let id = something_known(&hints).await;
    let primary = cluster.primary_of(&hints.key_of(id));
    let mut others = std::iter::repeat_with(conversation);
    let same = others.find(|other| cluster.primary_of(&hints.key_of(*other)) == primary).unwrap();
    let elsewhere = others.find(|other| cluster.primary_of(&hints.key_of(*other)) != primary).unwrap();
    let mut same = writer(&hints, same);
    let mut elsewhere = writer(&hints, elsewhere);
    same.write_for(Duration::from_millis(300)).await;
    elsewhere.write_until_it_works().await;

    cluster.kill_primary_of(&hints.key_of(id));
    assert!(elsewhere.write().await, "the others still serve");
    let away = same.write_until_it_works().await;
    println!("away for {} ms", away.as_millis());
    assert!(away < Duration::from_secs(15), "{away:?}");
    same.write_for(Duration::from_millis(300)).await;
    elsewhere.write_until_it_works().await;
    eventually("the conversation can be asked for", || async { hints.glance(id).await.is_ok() }).await;
    assert_eq!(hints.glance(id).await.unwrap(), None);

    // The old one comes back as a replica, and is asked nothing.
    cluster.server_mut(primary).start_again();
    cluster.wait_until_whole();
    same.write_for(Duration::from_millis(300)).await;
    assert!(same.write().await);
}

#[tokio::test]
async fn when_a_primary_hands_over_while_it_lives_the_calls_follow() {
    let cluster = RedisCluster::start();
    let hints = hints(to_cluster(cluster.urls())).await;
    let mut writer = writer(&hints, conversation());
    writer.write_until_it_works().await;
    let primary = cluster.primary_of(&hints.key_of(writer.id));
    let replica = (primary + 3) % 6;
    cluster.server(replica).command(&["CLUSTER", "FAILOVER"]);
    let start = Instant::now();
    while cluster.primary_of(&hints.key_of(writer.id)) != replica {
        writer.write().await;
        assert!(start.elapsed() < Duration::from_secs(20));
    }
    writer.write_until_it_works().await;
    writer.write_for(Duration::from_millis(200)).await;
    assert!(writer.write().await);
}

#[tokio::test]
async fn a_conversation_is_never_valid_without_all_ids_it_was_seeded_with() {
    let server = Arc::new(RedisServer::start());
    let hints = hints(to_single(server.url())).await;
    let id = conversation();
    let ids: Vec<_> = (1..=2500).map(|message| (MessageKey(message), Seq::new(message), NOW)).collect();
    let whole = Seed { ids, ..seed(id, 2500) };
    let mut valid = 0;
    for _ in 0..60 {
        let flushed = server.clone();
        let flushing = tokio::task::spawn_blocking(move || {
            for _ in 0..3 {
                flushed.command(&["FLUSHALL"]);
            }
        });
        // Both may be interrupted, or one go on with what the other has begun.
        let _results = tokio::join!(hints.seed(&whole), hints.seed(&whole));
        flushing.await.unwrap();
        for message in [1, 700, 2500] {
            if let Reserved::Place(place) = hints.reserve(&reserve(id, message)).await.unwrap() {
                assert_eq!((place.seq.get(), place.known), (message, true));
                valid += 1;
            }
        }
    }
    assert!(valid > 0, "it was never valid at all");
}

/// One part of a seed with one id, by the script itself.
fn seed_part(server: &RedisServer, key: &str, is_first: bool, is_last: bool, name: &str, id: &str) -> String {
    let script = concat!(include_str!("../src/scripts/life.lua"), include_str!("../src/scripts/seed.lua"));
    let flag = |is_so| if is_so { "1" } else { "0" };
    let now = NOW.millis().to_string();
    let sent = key.replace(":c:", ":s:");
    let words = ["EVAL", script, "2", key, &sent, flag(is_first), flag(is_last), name];
    let values = ["9", "0", &now, "1", "7", "691200", &now, "", "1", id, "5", &now];
    server.command(&[&words[..], &values].concat()).text()
}

#[tokio::test]
async fn who_seeds_on_after_the_beginning_was_lost_does_not_make_it_valid() {
    let server = RedisServer::start();
    let hints = hints(to_single(server.url())).await;
    let id = conversation();
    let key = hints.key_of(id);
    assert_eq!(seed_part(&server, &key, true, false, "one", "id-no--1"), "one");
    server.command(&["FLUSHALL"]);
    assert_eq!(seed_part(&server, &key, false, true, "one", "id-no--2"), "", "the beginning is gone");
    assert_eq!(seed_part(&server, &key, true, false, "other", "id-no--1"), "other");
    assert_eq!(seed_part(&server, &key, false, true, "one", "id-no--2"), "", "another one has begun anew");
    assert_eq!(hints.glance(id).await.unwrap(), None);
    assert_eq!(seed_part(&server, &key, true, false, "third", "id-no--1"), "other", "it joins in");
    assert_eq!(seed_part(&server, &key, false, true, "other", "id-no--2"), "other");
    assert_eq!(hints.glance(id).await.unwrap().unwrap().reserved, Seq::new(9));
    let known = MessageKey(u64::from_be_bytes(*b"id-no--1"));
    assert_eq!(seq(&hints, &reserve(id, known.0)).await, (5, true));
}

#[tokio::test]
async fn a_password_lets_in_and_is_told_to_nobody() {
    let options = RedisOptions { password: Some("hush-hush".to_owned()), ..RedisOptions::default() };
    let server = RedisServer::start_with(options);
    hints(to_single(server.url())).await.glance(conversation()).await.unwrap();
    let bare = format!("redis://127.0.0.1:{}", server.port());
    let with = |password: &str| RedisSettings {
        password: Some(password.to_owned()),
        ..quick(to_single(bare.clone()))
    };
    hints(with("hush-hush")).await.glance(conversation()).await.unwrap();
    for settings in [with("not-hush-hush"), quick(to_single(bare.clone()))] {
        let redis = Redis::open(settings).await.unwrap();
        let away = RedisHints::new(redis.into()).glance(conversation()).await.unwrap_err().to_string();
        assert!(!away.contains("hush") && !away.contains("not connected yet"), "{away}");
    }
}

#[tokio::test]
async fn a_redis_that_throws_keys_away_is_not_used_and_says_what_to_change() {
    let options = RedisOptions::default().with("maxmemory", "100mb").with("maxmemory-policy", "allkeys-lru");
    let server = RedisServer::start_with(options);
    let hints = RedisHints::new(Redis::open(quick(to_single(server.url()))).await.unwrap().into());
    let away = hints.glance(conversation()).await.unwrap_err().to_string();
    assert!(away.contains("maxmemory-policy") && away.contains("noeviction"), "{away}");
    server.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    eventually("it is used", || async { hints.glance(conversation()).await.is_ok() }).await;
}

#[tokio::test]
async fn tls_is_spoken_with_a_server_whose_certificate_is_trusted_and_with_no_other() {
    let server = RedisWithTls::start();
    let settings = RedisSettings { tls_ca_file: Some(server.authority()), ..quick(to_single(server.url())) };
    hints(settings).await.glance(conversation()).await.unwrap();
    let redis = Redis::open(quick(to_single(server.url()))).await.unwrap();
    let away = RedisHints::new(redis.into()).glance(conversation()).await.unwrap_err().to_string();
    assert!(away.contains("certificate"), "{away}");
}
