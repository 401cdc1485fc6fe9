//! What the tests of the archive share: a world of tables and objects, nodes that can die at any call, and their words.

#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use bluetick_archive::object_store::memory::InMemory;
use bluetick_archive::object_store::path::Path;
use bluetick_archive::object_store::{ObjectStore, ObjectStoreExt};
use bluetick_archive::{ArchiveSettings, ObjectArchive, segment};
use bluetick_core::ports::{
    AddMembers, Append, Appended, Archive, ArchiveError, ArchiveRun, Creation, NewConversation, NoListener,
    NoProgress, RunReport, Store,
};
use bluetick_core::time::{Clock, ManualClock};
use bluetick_core::{
    ContentType, ConversationId, Epoch, Message, PageFrom, PageLimit, PageRequest, Seq, StoreError,
    Timestamp, UserId,
};
use bluetick_store_cloud::hints::memory::MemoryHints;
use bluetick_store_cloud::neighbours::memory::Street;
use bluetick_store_cloud::rows::memory::MemoryRows;
use bluetick_store_cloud::rows::{Item, Key, Only, Query, Rows, RowsError, Scanned, Slice, Table, Written};
use bluetick_store_cloud::{CloudParts, CloudStore, EngineSettings, NodeId};
use futures_util::StreamExt;
use tokio::sync::watch;

pub const START: Timestamp = Timestamp::from_millis(1_750_000_000_000);
pub const HOUR: i64 = 3_600_000;
pub const DAY: i64 = 24 * HOUR;

/// All that outlives a node.
#[derive(Clone)]
pub struct World {
    pub rows: Arc<MemoryRows>,
    pub objects: Arc<InMemory>,
    pub clock: Arc<ManualClock>,
    hints: MemoryHints,
    street: Street,
    nodes: Arc<AtomicU64>,
}

impl Default for World {
    fn default() -> World {
        World {
            rows: Arc::default(),
            objects: Arc::new(InMemory::new()),
            clock: Arc::new(ManualClock::at(START)),
            hints: MemoryHints::default(),
            street: Street::default(),
            nodes: Arc::default(),
        }
    }
}

/// Between a node and the tables. After so many calls the node is as good as dead: none comes through any more.
pub struct Wire {
    rows: Arc<MemoryRows>,
    left: AtomicU64,
    /// The last call is carried out, and nobody hears of it.
    loses_answer: AtomicBool,
    pub calls: AtomicU64,
    /// While true, rows that come to refer to an object wait here.
    holds_flips: watch::Sender<bool>,
    pub held: AtomicU64,
    /// So many of them pass all the same.
    pub free_flips: AtomicU64,
    flips_left: AtomicU64,
    /// The room's row is written by a job of the archive right before the next change of members.
    pub interferes: AtomicBool,
}

impl Wire {
    pub fn cut_after(&self, calls: u64, loses_answer: bool) {
        self.loses_answer.store(loses_answer, Ordering::SeqCst);
        self.left.store(calls, Ordering::SeqCst);
    }

    /// After so many rows that come to refer to an object.
    pub fn cut_after_flips(&self, flips: u64) {
        self.flips_left.store(flips, Ordering::SeqCst);
    }

    pub fn hold_flips(&self, holds: bool) {
        self.holds_flips.send_replace(holds);
    }

    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    /// Whether the call is carried out, and whether its answer comes.
    fn pass(&self) -> (bool, bool) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        match left {
            Ok(1) => (true, !self.loses_answer.load(Ordering::SeqCst)),
            Ok(_) => (true, true),
            Err(_) => (false, false),
        }
    }

    async fn call<T>(&self, call: impl Future<Output = Result<T, RowsError>>) -> Result<T, RowsError> {
        let (is_done, is_heard) = self.pass();
        let answer = if is_done { Some(call.await) } else { None };
        match answer {
            Some(answer) if is_heard => answer,
            _ => Err(RowsError::NoAnswer("the node is cut off".into())),
        }
    }
}

#[async_trait]
impl Rows for Wire {
    async fn get(&self, table: Table, key: &Key) -> Result<Option<Item>, RowsError> {
        self.call(self.rows.get(table, key)).await
    }

    async fn get_many(&self, wanted: Vec<(Table, Key)>) -> Result<Vec<Option<Item>>, RowsError> {
        self.call(self.rows.get_many(wanted)).await
    }

    async fn put(&self, table: Table, key: &Key, item: &Item, only: Only) -> Result<Written, RowsError> {
        if table == Table::Messages && item.find_text("s3_ref").is_some() {
            self.held.fetch_add(1, Ordering::SeqCst);
            if self.flips_left.fetch_sub(1, Ordering::SeqCst) == 0 {
                self.cut_after(0, false);
            }
            let free = |free: u64| free.checked_sub(1);
            if self.free_flips.fetch_update(Ordering::SeqCst, Ordering::SeqCst, free).is_err() {
                self.holds_flips.subscribe().wait_for(|holds| !holds).await.unwrap();
            }
        }
        if item.find_text("intent").is_some() && self.interferes.swap(false, Ordering::SeqCst) {
            let there = self.rows.get(table, key).await?.unwrap();
            let version = there.version() + 1;
            self.rows.put_all(vec![(table, key.clone(), there.versioned(version))]).await?;
        }
        self.call(self.rows.put(table, key, item, only)).await
    }

    async fn delete(&self, table: Table, key: &Key, only: Only) -> Result<Written, RowsError> {
        self.call(self.rows.delete(table, key, only)).await
    }

    async fn put_all(&self, rows: Vec<(Table, Key, Item)>) -> Result<(), RowsError> {
        self.call(self.rows.put_all(rows)).await
    }

    async fn delete_all(&self, rows: Vec<(Table, Key)>) -> Result<(), RowsError> {
        self.call(self.rows.delete_all(rows)).await
    }

    async fn query(&self, query: Query) -> Result<Slice, RowsError> {
        self.call(self.rows.query(query)).await
    }

    async fn scan(&self, table: Table, after: Option<&Key>, limit: usize) -> Result<Scanned, RowsError> {
        self.call(self.rows.scan(table, after, limit)).await
    }
}

pub struct Node {
    pub store: CloudStore,
    pub wire: Arc<Wire>,
}

/// Old after 90 days, four messages a segment.
pub fn small() -> ArchiveSettings {
    ArchiveSettings { segment_messages: 4, messages_per_second: 0, ..ArchiveSettings::default() }
}

impl World {
    pub fn node(&self) -> Node {
        self.node_with(small(), Some(self.object_archive()))
    }

    pub fn object_archive(&self) -> ObjectArchive {
        ObjectArchive::over(self.objects.clone(), "test", 1 << 20)
    }

    pub fn node_with(&self, archive: ArchiveSettings, object_archive: Option<ObjectArchive>) -> Node {
        let number = self.nodes.fetch_add(1, Ordering::SeqCst);
        let node = NodeId::new(format!("node-{number}"));
        let wire = Arc::new(Wire {
            rows: self.rows.clone(),
            left: AtomicU64::new(u64::MAX),
            loses_answer: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            holds_flips: watch::Sender::new(false),
            held: AtomicU64::new(0),
            free_flips: AtomicU64::new(0),
            flips_left: AtomicU64::new(u64::MAX),
            interferes: AtomicBool::new(false),
        });
        let store = CloudStore::open(CloudParts {
            rows: wire.clone(),
            hints: Arc::new(self.hints.clone()),
            neighbours: Arc::new(self.street.move_in(node.clone())),
            node,
            listener: Arc::new(NoListener),
            clock: self.clock.clone(),
            epoch: Epoch::FIRST,
            // Nothing happens by itself while calls are counted.
            settings: EngineSettings {
                void_after_ms: 20,
                flush_interval_ms: 3_600_000,
                ..Default::default()
            },
            object_archive: object_archive.map(Arc::new),
            archive,
        });
        Node { store, wire }
    }

    /// Another place of the same rows, and of a copy of the objects.
    pub async fn copy(&self) -> World {
        let world = World::default();
        world.clock.set(self.clock.now());
        for table in Table::ALL {
            let all = self.rows.scan(table, None, usize::MAX).await.unwrap();
            let rows = all.rows.into_iter().map(|(key, item)| (table, key, item)).collect();
            world.rows.put_all(rows).await.unwrap();
        }
        for path in self.all_paths().await {
            let bytes = self.objects.get(&path).await.unwrap().bytes().await.unwrap();
            world.objects.put(&path, bytes.into()).await.unwrap();
        }
        world
    }

    async fn all_paths(&self) -> Vec<Path> {
        self.objects.list(None).map(|object| object.unwrap().location).collect().await
    }

    /// Of segments.
    pub async fn object_paths(&self) -> Vec<Path> {
        let mut paths = self.all_paths().await;
        paths.retain(|path| !path.as_ref().ends_with("ARCHIVE.txt"));
        paths.sort();
        paths
    }

    /// Whether a text lies anywhere: in a row or in an object.
    pub async fn holds(&self, text: &str) -> bool {
        for table in Table::ALL {
            let all = self.rows.scan(table, None, usize::MAX).await.unwrap();
            if all.rows.iter().any(|(_, item)| format!("{item:?}").contains(text)) {
                return true;
            }
        }
        for path in self.object_paths().await {
            let bytes = self.objects.get(&path).await.unwrap().bytes().await.unwrap();
            let opened = segment::open(&bytes).unwrap();
            if opened.records().any(|record| String::from_utf8_lossy(record).contains(text)) {
                return true;
            }
        }
        false
    }
}

pub fn user(name: &str) -> UserId {
    name.parse().unwrap()
}

pub fn everything() -> ArchiveRun {
    ArchiveRun { only: None, partial: true }
}

impl Node {
    pub async fn direct(&self, one: &str, other: &str) -> ConversationId {
        let id = ConversationId::direct(&user(one), &user(other));
        let creation = Creation::Direct { peer: user(other) };
        let new = NewConversation { id, creation, created_by: user(one), created_at: START };
        self.store.open_conversation(new).await.unwrap();
        id
    }

    pub async fn group(&self, creator: &str, others: &[&str]) -> ConversationId {
        let id = ConversationId::group([7; 15]);
        let members = others.iter().map(|name| user(name)).collect();
        let creation = Creation::Group { title: "Tea".parse().unwrap(), members };
        let new = NewConversation { id, creation, created_by: user(creator), created_at: START };
        self.store.open_conversation(new).await.unwrap();
        id
    }

    pub async fn add(&self, id: ConversationId, actor: &str, name: &str, at: Timestamp) {
        let add = AddMembers {
            conversation: id,
            actor: user(actor),
            users: vec![user(name)],
            at,
            member_limit: 100,
        };
        self.store.add_members(add).await.unwrap();
    }

    /// A message whose id follows from its content.
    pub async fn send(&self, id: ConversationId, sender: &str, text: &str, at: Timestamp) -> Appended {
        self.try_send(id, sender, &text.replace(' ', "-"), text, at, None).await.unwrap()
    }

    pub async fn try_send(
        &self,
        id: ConversationId,
        sender: &str,
        message_id: &str,
        text: &str,
        at: Timestamp,
        retry_after: Option<Seq>,
    ) -> Result<Appended, StoreError> {
        let append = Append {
            conversation: id,
            sender: user(sender),
            message_id: message_id.parse().unwrap(),
            content_type: ContentType::Text,
            content: text.into(),
            timestamp: at,
            received_at: at,
            retry_after,
            origin: None,
        };
        self.store.append(append).await?.await
    }

    pub async fn page(
        &self,
        id: ConversationId,
        reader: &str,
        from: PageFrom,
        limit: i64,
    ) -> Result<Vec<Message>, StoreError> {
        let limit = PageLimit::try_from(limit).unwrap();
        let request = PageRequest { conversation: id, reader: user(reader), from, limit };
        Ok(self.store.page(request).await?.messages)
    }

    /// Everything, as somebody reads it; each place once.
    pub async fn messages(&self, id: ConversationId, reader: &str) -> Vec<Message> {
        let mut all: Vec<Message> = Vec::new();
        loop {
            let after = all.last().map_or(Seq::ZERO, |message| message.seq);
            let page = self.page(id, reader, PageFrom::After(after), 100).await.unwrap();
            if page.is_empty() {
                return all;
            }
            for message in page {
                assert_eq!(message.seq.get() as usize, all.len() + 1, "dense");
                all.push(message);
            }
        }
    }

    pub async fn texts(&self, id: ConversationId, reader: &str) -> Vec<String> {
        self.messages(id, reader).await.iter().map(|message| message.content.to_string()).collect()
    }

    pub async fn run(&self) -> Result<RunReport, ArchiveError> {
        self.store.run(ArchiveRun::default(), Arc::new(NoProgress)).await
    }

    pub async fn run_everything(&self) -> Result<RunReport, ArchiveError> {
        self.store.run(everything(), Arc::new(NoProgress)).await
    }

    pub async fn problems(&self) -> Vec<String> {
        self.store.verify(Arc::new(NoProgress)).await.unwrap().problems
    }
}

/// A direct conversation of ten old messages, the texts of which say who wrote them, and one new message.
pub async fn with_ten(world: &World) -> ConversationId {
    let node = world.node();
    let id = node.direct("alice", "bob").await;
    for number in 1..=10 {
        let sender = if number % 3 == 0 { "bob" } else { "alice" };
        node.send(id, sender, &format!("{sender} says {number}"), START.plus_millis(number)).await;
    }
    world.clock.advance_millis(200 * DAY);
    node.send(id, "alice", "alice is back", world.clock.now()).await;
    node.store.close().await;
    id
}
