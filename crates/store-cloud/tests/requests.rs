//! How many requests a message costs, counted on DynamoDB Local and a real Redis: before the ack, behind it, and when it is
//! read.
//!
//! Two nodes; the one who writes is connected to the first, the one who reads to the second. Everything is at hand that
//! is at hand in the middle of a conversation. The tables in docs/explanation/fleet.md are what this prints.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod rows_common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bluetick_archive::ArchiveSettings;
use bluetick_core::ports::{
    Append, CommitListener, Committed, Creation, Fleet, NewConversation, Receipt, Store,
};
use bluetick_core::time::{Clock, SystemClock};
use bluetick_core::{
    ContentType, ConversationId, Epoch, InboxFilter, InboxRequest, MessageId, PageFrom, PageLimit,
    PageRequest, ReceiptKind, Seq, UserId,
};
use bluetick_store_cloud::hints::redis::RedisHints;
use bluetick_store_cloud::neighbours::redis::RedisNeighbours;
use bluetick_store_cloud::redis::{Redis, RedisCounters, RedisSettings};
use bluetick_store_cloud::rows::dynamo::{DynamoRows, Operation, RequestCounts};
use bluetick_store_cloud::{CloudParts, CloudStore, EngineSettings, NodeId};
use bluetick_testkit::dynamo::DynamoServer;
use bluetick_testkit::redis::RedisServer;
use tokio::time::{Instant, sleep};

const MESSAGES: u64 = 1_000;
const CONVERSATIONS: u64 = 20;
/// Longer than between the two looks of a node that has just started.
const AFTER_START: Duration = Duration::from_secs(5);
/// What is asked behind an answer is asked by then.
const MOMENT: Duration = Duration::from_millis(500);

/// So far ahead of the end of what needs no row it is decided where the next messages lie.
const FIRST_DECISION: Seq = Seq::new(640);

/// When rows are written that follow from others.
const AT_THE_END: u64 = 3_600_000;
const AT_ONCE: u64 = 100;

/// Hears how many messages were told at a node.
#[derive(Default)]
struct Ear(AtomicU64);

impl CommitListener for Ear {
    fn committed(&self, batch: Vec<Committed>) {
        self.0.fetch_add(batch.len() as u64, Ordering::SeqCst);
    }
}

struct Node {
    store: CloudStore,
    rows: DynamoRows,
    /// What is asked besides the heartbeat and the news, which have a connection of their own.
    redis: Arc<Redis>,
    post: Arc<Redis>,
    ear: Arc<Ear>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Counts {
    rows: RequestCounts,
    redis: RedisCounters,
}

impl Node {
    async fn start(name: &str, redis: &RedisServer, flush_interval_ms: u64) -> Node {
        let server = DynamoServer::shared().await;
        let rows = rows_common::rows_through(&rows_common::settings(server.endpoint())).await;
        let settings =
            RedisSettings { urls: vec![redis.url()], timeout_ms: 10_000, ..RedisSettings::default() };
        let [redis, post] = [Redis::open(settings.clone()).await, Redis::open(settings).await];
        let (redis, post) = (Arc::new(redis.unwrap()), Arc::new(post.unwrap()));
        redis.up().await;
        post.up().await;
        let (ear, node) = (Arc::new(Ear::default()), NodeId::new(name));
        let store = CloudStore::open(CloudParts {
            rows: Arc::new(rows.clone()),
            hints: Arc::new(RedisHints::new(Arc::clone(&redis))),
            neighbours: Arc::new(RedisNeighbours::new(Arc::clone(&post), node.clone())),
            node,
            listener: ear.clone(),
            clock: Arc::new(SystemClock),
            epoch: Epoch::FIRST,
            object_archive: None,
            archive: ArchiveSettings::default(),
            settings: EngineSettings {
                flush_interval_ms,
                health_interval_ms: 3_600_000,
                outage_look_ms: 3_600_000,
                ..EngineSettings::default()
            },
        });
        Node { store, rows, redis, post, ear }
    }

    fn counts(&self) -> Counts {
        Counts { rows: self.rows.counters(), redis: self.redis.counters() }
    }

    async fn hears(&self, messages: u64) {
        let start = Instant::now();
        while self.ear.0.load(Ordering::SeqCst) < messages {
            assert!(start.elapsed() < Duration::from_secs(60), "the news did not come");
            sleep(Duration::from_millis(1)).await;
        }
    }

    async fn counts_nodes(&self, nodes: u64) {
        let start = Instant::now();
        while self.store_counters() != nodes {
            assert!(start.elapsed() < Duration::from_secs(60), "the nodes do not know each other");
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Until nothing was asked for a while. A node that has just started looks twice whether somebody missed something.
    async fn is_quiet(&self, time: Duration) {
        let mut since = (Instant::now(), self.counts());
        while since.0.elapsed() < time {
            sleep(Duration::from_millis(50)).await;
            let now = self.counts();
            if now != since.1 {
                since = (Instant::now(), now);
            }
        }
    }

    fn store_counters(&self) -> u64 {
        Fleet::counters(&self.store).map_or(0, |counters| counters.nodes)
    }
}

/// One line of the table: what was asked between two moments, by how many nodes so ever.
fn line(what: &str, before: &[Counts], after: &[Counts]) -> String {
    let rows = |operation: Operation| {
        let of = |counts: &[Counts]| counts.iter().map(|counts| counts.rows.of(operation)).sum::<u64>();
        of(after) - of(before)
    };
    let redis = |of: fn(&RedisCounters) -> u64| {
        let sum = |counts: &[Counts]| counts.iter().map(|counts| of(&counts.redis)).sum::<u64>();
        sum(after) - sum(before)
    };
    format!(
        "| {what} | {} | {} | {} | {} | {} | {} |",
        redis(|redis| redis.round_trips),
        redis(|redis| redis.calls),
        rows(Operation::PutItem),
        rows(Operation::DeleteItem),
        rows(Operation::GetItem) + rows(Operation::BatchGetItem),
        rows(Operation::Query),
    )
}

fn table_of(what: &str) -> Vec<String> {
    let columns =
        "Redis round trips | scripts and commands | PutItem | DeleteItem | GetItem, BatchGetItem | Query";
    vec![format!("| {what} | {columns} |"), "|---|---|---|---|---|---|---|".to_owned()]
}

/// Nobody of another run.
fn name(name: &str) -> UserId {
    format!("{name}{}", std::process::id()).parse().unwrap()
}

async fn open(node: &Node, one: &UserId, other: &UserId) -> ConversationId {
    let id = ConversationId::direct(one, other);
    let new = NewConversation {
        id,
        creation: Creation::Direct { peer: other.clone() },
        created_by: one.clone(),
        created_at: SystemClock.now(),
    };
    node.store.open_conversation(new).await.unwrap();
    id
}

async fn say(node: &Node, conversation: ConversationId, sender: &UserId, number: u64) -> Seq {
    let now = SystemClock.now();
    let append = Append {
        conversation,
        sender: sender.clone(),
        message_id: MessageId::from_stored(&format!("m{number}")),
        content_type: ContentType::Text,
        content: "as long as most messages are".into(),
        timestamp: now,
        received_at: now,
        retry_after: None,
        origin: None,
    };
    node.store.append(append).await.unwrap().await.unwrap().seq
}

async fn apply_receipt(
    node: &Node,
    conversation: ConversationId,
    user: &UserId,
    kind: ReceiptKind,
    seq: Seq,
) {
    let mark = Receipt { conversation, user: user.clone(), kind, seq, origin: None };
    node.store.apply_receipt(mark).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_send_to_somebody_online_costs_one_reserve_and_one_conditional_put_before_its_ack() {
    let redis = RedisServer::start();
    let [here, there] =
        [Node::start("here", &redis, AT_THE_END).await, Node::start("there", &redis, AT_THE_END).await];
    here.counts_nodes(2).await;
    there.counts_nodes(2).await;
    let (alice, bob) = (name("alice"), name("bob"));
    here.store.user_connected(&alice).await;
    there.store.user_connected(&bob).await;
    let id = open(&here, &alice, &bob).await;
    // In the middle of a conversation: members, member state and room are at hand.
    for number in 0..10 {
        let seq = say(&here, id, &alice, number).await;
        apply_receipt(&there, id, &bob, ReceiptKind::Read, seq).await;
    }

    here.is_quiet(AFTER_START).await;
    there.is_quiet(AFTER_START).await;

    let mut table = table_of("per 1,000 messages");
    let (start, post) = ([here.counts(), there.counts()], here.post.counters());
    for number in 0..MESSAGES {
        let before = here.counts();
        let seq = say(&here, id, &alice, 10 + number).await;
        if seq == FIRST_DECISION {
            // Beside the put: nothing is in the registry, what is in the partition, two versions of a row, and Redis.
            here.is_quiet(MOMENT).await;
            let decided = line("", &[before], &[here.counts()]);
            assert_eq!(decided, "|  | 3 | 4 | 3 | 0 | 1 | 1 |");
            continue;
        }
        let after = here.counts();
        let expected = line("", &[before], &[after]);
        // The reserve, and beside the put a touch of both inboxes in one round trip.
        assert_eq!(expected, "|  | 2 | 3 | 1 | 0 | 0 | 0 |", "message {number}");
        assert_eq!(after.rows.all() - before.rows.all(), 1, "one request to the tables, the put");
    }
    there.hears(10 + MESSAGES).await;
    table.push(line("send, at the sender's node", &start[..1], &[here.counts()]));
    let news = |redis: RedisCounters| Counts { rows: RequestCounts::default(), redis };
    let (before, after) = (news(post), news(here.post.counters()));
    table.push(line("news to the receiver's node, and heartbeats meanwhile", &[before], &[after]));
    table.push(line("at the receiver's node", &start[1..], &[there.counts()]));

    for (what, kind) in
        [("`delivered`, one for each", ReceiptKind::Delivered), ("`read`, one for each", ReceiptKind::Read)]
    {
        let before = [here.counts(), there.counts()];
        for number in 0..MESSAGES {
            apply_receipt(&there, id, &bob, kind, Seq::new(11 + number)).await;
        }
        there.is_quiet(MOMENT).await;
        table.push(line(what, &before, &[here.counts(), there.counts()]));
    }

    let before = [here.counts(), there.counts()];
    here.store.close().await;
    there.store.close().await;
    table.push(line("rows written once in a while, in all", &before, &[here.counts(), there.counts()]));
    println!("{}", table.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_the_inbox_reads_its_rows_in_two_goes_and_each_newest_message() {
    let redis = RedisServer::start();
    let here = Node::start("reading", &redis, AT_ONCE).await;
    let reader = name("reader");
    let mut ids = Vec::new();
    for number in 0..CONVERSATIONS {
        let writer = name(&format!("writer{number}"));
        let id = open(&here, &writer, &reader).await;
        for number in 0..30 {
            say(&here, id, &writer, number).await;
        }
        ids.push(id);
    }
    here.is_quiet(AFTER_START).await;

    let inbox = || async {
        let request = InboxRequest {
            user: reader.clone(),
            after: None,
            limit: PageLimit::DEFAULT,
            filter: InboxFilter::NotArchived,
        };
        assert_eq!(here.store.inbox(request).await.unwrap().entries.len() as u64, CONVERSATIONS);
    };
    let mut table = table_of("reading");
    let before = here.counts();
    inbox().await;
    table.push(line("a page of 20 of the inbox, something unread in each", &[before], &[here.counts()]));
    let before = here.counts();
    inbox().await;
    let again = line("the same again", &[before], &[here.counts()]);
    assert!(again.ends_with("| 0 | 0 | 2 | 20 |"), "{again}");
    table.push(again);

    let before = here.counts();
    let request = PageRequest {
        conversation: ids[0],
        reader: reader.clone(),
        from: PageFrom::Newest,
        limit: PageLimit::DEFAULT,
    };
    assert_eq!(here.store.page(request).await.unwrap().messages.len(), 20);
    let page = line("the newest 20 of a history", &[before], &[here.counts()]);
    assert!(page.ends_with("| 0 | 0 | 1 | 1 |"), "one query: {page}");
    table.push(page);
    let before = here.counts();
    let from = PageFrom::Before(Seq::new(26));
    let request =
        PageRequest { conversation: ids[0], reader: reader.clone(), from, limit: PageLimit::DEFAULT };
    assert_eq!(here.store.page(request).await.unwrap().messages.len(), 20);
    let page = line("20 from somewhere else in it", &[before], &[here.counts()]);
    assert!(page.ends_with("| 0 | 0 | 1 | 2 |"), "the head and the page: {page}");
    table.push(page);

    let before = here.counts();
    here.store.behind(&reader, Vec::new()).await.unwrap();
    table.push(line(
        "a device that comes back, something for it in 20 conversations",
        &[before],
        &[here.counts()],
    ));
    for id in &ids {
        apply_receipt(&here, *id, &reader, ReceiptKind::Read, Seq::new(30)).await;
    }
    here.is_quiet(MOMENT).await;
    let before = here.counts();
    here.store.behind(&reader, Vec::new()).await.unwrap();
    table.push(line("a device that comes back, nothing for it", &[before], &[here.counts()]));
    println!("{}", table.join("\n"));
    here.store.close().await;
}
