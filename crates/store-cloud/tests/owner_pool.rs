//! The owners of a node: order, cost in requests, eviction, overload, and two nodes at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bluetick_core::ports::{AddMembers, Receipt, RemoveMember, SystemRandom};
use bluetick_core::time::SystemClock;
use bluetick_core::{
    ConversationId, MemberState, Members, MessageId, ReceiptKind, Refusal, Seq, StoreError, Timestamp, UserId,
};
use bluetick_store_cloud::log::{
    Appended, FingerprintKey, LogEntry, LogReader, LogRow, PartitionMap, RowKind,
};
use bluetick_store_cloud::owner::{
    MemberRows, MembershipPlan, OwnerParts, OwnerPool, OwnerSettings, StoredListener,
};
use bluetick_store_cloud::rows::memory::MemoryRows;
use bluetick_store_cloud::rows::{Item, Key, Only, Query, Rows, RowsError, Scanned, Slice, Table, Written};
use parking_lot::Mutex;
use tokio::task::JoinSet;

/// Tables that count requests. A put takes a moment, so that calls can queue up behind it.
#[derive(Default)]
struct CountingRows {
    inner: MemoryRows,
    reads: AtomicU64,
    writes: AtomicU64,
}

impl CountingRows {
    /// Returns the reads and writes since the last call.
    fn take(&self) -> (u64, u64) {
        (self.reads.swap(0, Ordering::Relaxed), self.writes.swap(0, Ordering::Relaxed))
    }
}

#[async_trait]
impl Rows for CountingRows {
    async fn get(&self, table: Table, key: &Key) -> Result<Option<Item>, RowsError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.inner.get(table, key).await
    }

    async fn get_many(&self, wanted: Vec<(Table, Key)>) -> Result<Vec<Option<Item>>, RowsError> {
        self.reads.fetch_add(wanted.len() as u64, Ordering::Relaxed);
        self.inner.get_many(wanted).await
    }

    async fn put(&self, table: Table, key: &Key, item: &Item, only: Only) -> Result<Written, RowsError> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(5)).await;
        self.inner.put(table, key, item, only).await
    }

    async fn delete(&self, table: Table, key: &Key, only: Only) -> Result<Written, RowsError> {
        self.inner.delete(table, key, only).await
    }

    async fn put_all(&self, rows: Vec<(Table, Key, Item)>) -> Result<(), RowsError> {
        self.inner.put_all(rows).await
    }

    async fn delete_all(&self, rows: Vec<(Table, Key)>) -> Result<(), RowsError> {
        self.inner.delete_all(rows).await
    }

    async fn query(&self, query: Query) -> Result<Slice, RowsError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.inner.query(query).await
    }

    async fn scan(&self, table: Table, after: Option<&Key>, limit: usize) -> Result<Scanned, RowsError> {
        self.inner.scan(table, after, limit).await
    }
}

/// Keeps what a pool reports.
#[derive(Default)]
struct Recorder(Mutex<BTreeMap<ConversationId, Vec<Seq>>>);

impl StoredListener for Recorder {
    fn stored(&self, conversation: ConversationId, appended: &Appended) {
        self.0.lock().entry(conversation).or_default().push(appended.seq);
    }
}

struct Node {
    pool: Arc<OwnerPool>,
    recorder: Arc<Recorder>,
}

fn node(rows: &Arc<CountingRows>, settings: OwnerSettings) -> Node {
    let recorder = Arc::new(Recorder::default());
    let parts = OwnerParts {
        rows: Arc::clone(rows) as Arc<_>,
        clock: Arc::new(SystemClock),
        random: Arc::new(SystemRandom),
        fingerprint_key: FingerprintKey::new([7; 32]),
        listener: Arc::clone(&recorder) as Arc<_>,
        settings,
        planted: None,
    };
    Node { pool: OwnerPool::new(parts), recorder }
}

fn conversation(number: u8) -> ConversationId {
    ConversationId::group([number; 15])
}

fn user(name: &str) -> UserId {
    name.parse().expect("a valid user id")
}

fn entry(id: &str) -> LogEntry {
    entry_of("alice", id)
}

fn entry_of(sender: &str, id: &str) -> LogEntry {
    let sender = user(sender);
    let message_id: MessageId = id.parse().expect("a valid message id");
    let item = Item::new()
        .text("message_id", message_id.to_string())
        .text("sender_id", sender.as_str())
        .text("content_type", "text")
        .text("content", id);
    LogEntry { sender, message_id, item }
}

impl Node {
    async fn with_members(rows: &Arc<CountingRows>, settings: OwnerSettings) -> Node {
        for number in 0..5 {
            let members = Members::founding(&user("alice"), &[user("bob")]);
            let member_rows = MemberRows::new(Arc::clone(rows) as Arc<_>, conversation(number));
            member_rows.found(&members).await.expect("tables in memory take every row");
        }
        rows.take();
        node(rows, settings)
    }

    async fn change(&self, plan: MembershipPlan) -> Result<(Arc<Members>, Seq), StoreError> {
        self.pool.change_members(plan)?.await.expect("the pool answers")
    }

    async fn send(&self, number: u8, id: &str) -> Result<Appended, StoreError> {
        self.pool.append(conversation(number), entry(id))?.await.expect("the pool answers")
    }
}

#[tokio::test(start_paused = true)]
async fn steady_send_costs_one_write_and_no_read() {
    let rows = Arc::new(CountingRows::default());
    let node = Node::with_members(&rows, OwnerSettings::default()).await;
    assert_eq!(node.send(1, "first").await.unwrap().seq, Seq::FIRST);
    let (reads, writes) = rows.take();
    assert!(reads <= 5 && writes == 1, "the first send loads the log: {reads} reads, {writes} writes");
    for number in 0..100 {
        node.send(1, &format!("m{number}")).await.unwrap();
        assert_eq!(rows.take(), (0, 1), "message {number}");
    }
    node.pool.close().await;
}

#[tokio::test(start_paused = true)]
async fn queued_sends_share_one_grant_and_keep_their_order() {
    let rows = Arc::new(CountingRows::default());
    let node = Node::with_members(&rows, OwnerSettings::default()).await;
    node.send(1, "first").await.unwrap();
    rows.take();
    let calls: Vec<_> = (0..64)
        .map(|number| node.pool.append(conversation(1), entry(&format!("m{number}"))).unwrap())
        .collect();
    for (call, expected) in calls.into_iter().zip(3..) {
        assert_eq!(call.await.unwrap().unwrap().seq, Seq::new(expected));
    }
    assert_eq!(rows.take(), (0, 65), "a grant and 64 messages");
    let stored: Vec<u64> = node.recorder.0.lock()[&conversation(1)].iter().map(|seq| seq.get()).collect();
    assert_eq!(stored, std::iter::once(1).chain(3..=66).collect::<Vec<_>>());
    node.pool.close().await;
}

#[tokio::test(start_paused = true)]
async fn resend_at_another_node_returns_the_first_seq() {
    let rows = Arc::new(CountingRows::default());
    let here = Node::with_members(&rows, OwnerSettings::default()).await;
    let there = node(&rows, OwnerSettings::default());
    for number in 0..20 {
        here.send(1, &format!("m{number}")).await.unwrap();
    }
    let again = there.send(1, "m7").await.unwrap();
    assert_eq!((again.seq, again.duplicate), (Seq::new(8), true));
    assert_eq!(there.send(1, "new").await.unwrap().seq, Seq::new(21));
    // The first node meets the row of the second one, and continues above it.
    assert_eq!(here.send(1, "newer").await.unwrap().seq, Seq::new(22));
    assert_eq!(here.send(1, "new").await.unwrap().seq, Seq::new(21));
}

#[tokio::test(start_paused = true)]
async fn evicted_log_is_loaded_again() {
    let rows = Arc::new(CountingRows::default());
    let node =
        Node::with_members(&rows, OwnerSettings { resident_conversations: 2, ..OwnerSettings::default() })
            .await;
    for number in 0..5 {
        node.send(number, "hello").await.unwrap();
    }
    // A task parks its log after it has answered.
    while node.pool.parked() != 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(
        node.send(0, "hello").await.unwrap(),
        Appended { seq: Seq::FIRST, item: entry("hello").item, duplicate: true }
    );
    assert_eq!(node.send(0, "world").await.unwrap().seq, Seq::new(2));
}

#[tokio::test(start_paused = true)]
async fn full_queue_refuses_further_calls_and_closing_finishes_accepted_ones() {
    let rows = Arc::new(CountingRows::default());
    let node =
        Node::with_members(&rows, OwnerSettings { queued_calls: 10, ..OwnerSettings::default() }).await;
    let mut accepted = Vec::new();
    let mut refused = 0;
    for number in 0..30 {
        match node.pool.append(conversation(1), entry(&format!("m{number}"))) {
            Ok(call) => accepted.push(call),
            Err(error) => {
                assert!(matches!(error, StoreError::Overloaded), "{error}");
                refused += 1;
            }
        }
    }
    assert_eq!((accepted.len(), refused), (10, 20));
    node.pool.close().await;
    for call in accepted {
        call.await.unwrap().unwrap();
    }
    assert!(matches!(node.pool.append(conversation(1), entry("late")), Err(StoreError::Closing)));
}

#[tokio::test(start_paused = true)]
async fn busy_conversation_is_spread_and_its_pages_stay_complete() {
    let rows = Arc::new(CountingRows::default());
    let settings =
        OwnerSettings { writes_per_partition: 100, partition_block: 8, ..OwnerSettings::default() };
    let node = Node::with_members(&rows, settings).await;
    let mut calls = JoinSet::new();
    for number in 0..3_000 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let call = node.pool.append(conversation(1), entry(&format!("m{number}"))).unwrap();
        calls.spawn(async move { call.await.unwrap().unwrap().seq });
    }
    let mut seqs: Vec<Seq> = calls.join_all().await;
    seqs.sort();
    seqs.dedup();
    assert_eq!(seqs.len(), 3_000);

    let reader = LogReader::new(Arc::clone(&rows) as Arc<_>, conversation(1));
    let mut map = PartitionMap::default();
    let (head, _) = reader.newest(&mut map).await.unwrap().unwrap();
    assert!(map.partitions() > 1, "{map:?}");
    let mut old = PartitionMap::default();
    let page = reader.page(&mut old, (Seq::FIRST, head)).await.unwrap();
    assert_eq!(page.len() as u64, head.get(), "every row up to the head");
    let messages = page
        .values()
        .filter(|item| LogRow::decode((*item).clone()).unwrap().kind == RowKind::Message)
        .count();
    assert_eq!(messages, 3_000);
    rows.take();
    reader.page(&mut map, (head.minus(19), head)).await.unwrap();
    let (reads, _) = rows.take();
    assert!(reads <= 4, "a page of 20 in blocks of 8 reads {reads} partitions");
    node.pool.close().await;
}

#[tokio::test]
async fn two_nodes_that_both_write_store_each_message_once() {
    let rows = Arc::new(CountingRows::default());
    let first = Node::with_members(&rows, OwnerSettings::default()).await;
    let nodes = [first, node(&rows, OwnerSettings::default())];
    let mut calls = JoinSet::new();
    for number in 0..400 {
        // Each message goes to both nodes.
        for node in &nodes {
            let call = node.pool.append(conversation(1), entry(&format!("m{number}"))).unwrap();
            calls.spawn(async move { (number, call.await.unwrap().unwrap().seq) });
        }
    }
    let mut seqs: BTreeMap<u64, Seq> = BTreeMap::new();
    for (number, seq) in calls.join_all().await {
        assert_eq!(*seqs.entry(number).or_insert(seq), seq, "message {number} has two seqs");
    }
    let reader = LogReader::new(Arc::clone(&rows) as Arc<_>, conversation(1));
    let mut map = PartitionMap::default();
    let (head, _) = reader.newest(&mut map).await.unwrap().unwrap();
    let page = reader.page(&mut map, (Seq::FIRST, head)).await.unwrap();
    let messages =
        page.values().filter(|item| item.find_text("content").is_some_and(|text| !text.is_empty()));
    assert_eq!(messages.count(), 400);
    for node in &nodes {
        node.pool.close().await;
    }
}

fn add(actor: &str, users: &[&str]) -> MembershipPlan {
    MembershipPlan::Add(AddMembers {
        conversation: conversation(1),
        actor: user(actor),
        users: users.iter().map(|name| user(name)).collect(),
        member_limit: 10,
        at: Timestamp::from_millis(7),
    })
}

fn remove(actor: &str, leaving: &str) -> MembershipPlan {
    let (actor, user) = (user(actor), user(leaving));
    MembershipPlan::Remove(RemoveMember {
        conversation: conversation(1),
        actor,
        user,
        at: Timestamp::from_millis(7),
    })
}

#[tokio::test(start_paused = true)]
async fn change_of_members_at_one_node_holds_at_another() {
    let rows = Arc::new(CountingRows::default());
    let here = Node::with_members(&rows, OwnerSettings::default()).await;
    let there = node(&rows, OwnerSettings::default());
    // Both have the conversation loaded.
    here.send(1, "one").await.unwrap();
    there.send(1, "two").await.unwrap();

    let send = async |node: &Node, sender: &str, id: &str| {
        node.pool.append(conversation(1), entry_of(sender, id)).unwrap().await.unwrap()
    };
    let stranger = send(&there, "carol", "early").await.unwrap_err();
    assert!(matches!(stranger, StoreError::Refused(Refusal::NotAMember)), "{stranger}");
    let (members, head) = here.change(add("alice", &["carol", "dave", "bob"])).await.unwrap();
    assert_eq!((members.len(), head), (4, Seq::new(4)), "two notices");
    assert_eq!(send(&there, "carol", "hello").await.unwrap().seq, Seq::new(5));

    let refused = there.change(remove("carol", "dave")).await.unwrap_err();
    assert!(matches!(refused, StoreError::Refused(Refusal::NotAnAdmin)), "{refused}");
    there.change(remove("alice", "carol")).await.unwrap();
    let late = send(&here, "carol", "late").await.unwrap_err();
    assert!(matches!(late, StoreError::Refused(Refusal::NotAMember)), "{late}");

    let rows_now = MemberRows::new(Arc::clone(&rows) as Arc<_>, conversation(1)).read().await.unwrap();
    let names: Vec<&str> = rows_now.iter().map(|member| member.user.as_str()).collect();
    assert_eq!(names, ["alice", "bob", "dave"]);
}

#[tokio::test(start_paused = true)]
async fn last_admin_who_leaves_hands_over_to_the_longest_member() {
    let rows = Arc::new(CountingRows::default());
    let node = Node::with_members(&rows, OwnerSettings::default()).await;
    node.change(add("alice", &["carol"])).await.unwrap();
    let (members, _) = node.change(remove("alice", "alice")).await.unwrap();
    let bob = members.get(&user("bob")).unwrap();
    assert_eq!(bob.role, bluetick_core::Role::Admin);
    let stored = MemberRows::new(Arc::clone(&rows) as Arc<_>, conversation(1)).read().await.unwrap();
    assert_eq!(stored, *members);
}

fn receipt(name: &str, kind: ReceiptKind, seq: u64) -> Receipt {
    Receipt { conversation: conversation(1), user: user(name), kind, seq: Seq::new(seq), origin: None }
}

impl Node {
    async fn apply(&self, receipt: Receipt) -> Result<(MemberState, MemberState), StoreError> {
        self.pool.apply_receipt(receipt)?.await.expect("the pool answers")
    }
}

#[tokio::test(start_paused = true)]
async fn steady_receipt_costs_one_write_and_no_read() {
    let rows = Arc::new(CountingRows::default());
    let node = Node::with_members(&rows, OwnerSettings::default()).await;
    for number in 0..10 {
        node.send(1, &format!("m{number}")).await.unwrap();
    }
    node.apply(receipt("bob", ReceiptKind::Delivered, 1)).await.unwrap();
    rows.take();
    for seq in 2..=10 {
        node.apply(receipt("bob", ReceiptKind::Delivered, seq)).await.unwrap();
        assert_eq!(rows.take(), (0, 1), "delivered {seq}");
    }
    let (_, after) = node.apply(receipt("bob", ReceiptKind::Read, 10)).await.unwrap();
    assert_eq!((rows.take(), after.read), ((0, 1), Seq::new(10)));
    node.apply(receipt("bob", ReceiptKind::Read, 4)).await.unwrap();
    assert_eq!(rows.take(), (0, 0), "an old receipt moves nothing");
    let stranger = node.apply(receipt("mallory", ReceiptKind::Read, 1)).await.unwrap_err();
    assert!(matches!(stranger, StoreError::Refused(Refusal::NotAMember)), "{stranger}");
}

#[tokio::test(start_paused = true)]
async fn replies_survive_the_death_of_their_owner() {
    let rows = Arc::new(CountingRows::default());
    let first = Node::with_members(&rows, OwnerSettings::default()).await;
    // More than one block of fingerprints, so that the first part is flushed.
    for number in 0..1_100 {
        let sender = if number % 2 == 0 { "alice" } else { "bob" };
        let call = first.pool.append(conversation(1), entry_of(sender, &format!("m{number}"))).unwrap();
        call.await.unwrap().unwrap();
    }
    first.pool.abort();
    let second = node(&rows, OwnerSettings::default());
    let (before, after) = second.apply(receipt("alice", ReceiptKind::Read, 1)).await.unwrap();
    assert_eq!((before.sent, before.read), (Seq::new(1_099), Seq::new(1_098)), "the last message of alice");
    assert_eq!(before, after);
    let (before, _) = second.apply(receipt("bob", ReceiptKind::Read, 1)).await.unwrap();
    assert_eq!((before.sent, before.read), (Seq::new(1_100), Seq::new(1_099)));
}

#[tokio::test(start_paused = true)]
async fn receipt_above_the_known_head_reads_on_first() {
    let rows = Arc::new(CountingRows::default());
    let here = Node::with_members(&rows, OwnerSettings::default()).await;
    let there = node(&rows, OwnerSettings::default());
    here.send(1, "one").await.unwrap();
    there.apply(receipt("bob", ReceiptKind::Read, 1)).await.unwrap();
    here.send(1, "two").await.unwrap();
    let (_, after) = there.apply(receipt("bob", ReceiptKind::Read, 2)).await.unwrap();
    assert_eq!(after.read, Seq::new(2));
    let (_, after) = there.apply(receipt("bob", ReceiptKind::Read, 9)).await.unwrap();
    assert_eq!(after.read, Seq::new(2), "clamped to the head");
}
