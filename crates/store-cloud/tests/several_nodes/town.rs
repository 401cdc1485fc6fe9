//! Several nodes in one process, on tables that can be made to fail.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bluetick_archive::ArchiveSettings;
use bluetick_conformance::Recorder;
use bluetick_core::ports::{Append, Appended, Creation, Fleet, NewConversation, Receipt, Store};
use bluetick_core::time::{Clock, SystemClock};
use bluetick_core::{
    ContentType, ConversationId, Epoch, Message, MessageId, PageFrom, PageLimit, PageRequest, ReceiptKind,
    Seq, StoreError, UserId,
};
use bluetick_store_cloud::hints::memory::MemoryHints;
use bluetick_store_cloud::hot::Layout;
use bluetick_store_cloud::neighbours::memory::Street;
use bluetick_store_cloud::rows::memory::MemoryRows;
use bluetick_store_cloud::rows::{Item, Key, Only, Query, Rows, RowsError, Scanned, Slice, Table, Written};
use bluetick_store_cloud::{CloudParts, CloudStore, EngineSettings, NodeId};
use tokio::sync::Notify;

/// Small enough that every border is met all the time.
const HOT: Layout =
    Layout { block: 2, plain_through: Seq::new(4), ahead: 8, most_partitions: 4, restless: true };

/// Tables, hints and streets that all nodes share.
#[derive(Clone, Default)]
pub struct Town {
    pub rows: Arc<MemoryRows>,
    pub hints: MemoryHints,
    pub street: Street,
    nodes: Arc<AtomicU32>,
    /// Every conversation is spread anew all the time, over any number of partitions.
    pub is_hot: bool,
}

pub struct Node {
    pub store: Arc<CloudStore>,
    pub recorder: Arc<Recorder>,
    pub way: Arc<Way>,
}

/// One node's way to the tables.
pub struct Way {
    rows: Arc<MemoryRows>,
    /// Messages are not written until they are let through.
    pub holds_messages: AtomicBool,
    released: Notify,
    /// One in so many writes is done and its answer lost.
    pub loses_answers: AtomicU32,
    /// One in so many requests gets no answer and is not done.
    pub refuses: AtomicU32,
    dice: Mutex<Dice>,
    pub held: AtomicU64,
    /// What happens to the next write to a table, once.
    next: Mutex<Vec<(Table, Fate)>>,
    /// Writes that were stopped until they are let through.
    pub stopped: AtomicU64,
    may_go_on: tokio::sync::Semaphore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Not done, and no answer.
    Refused,
    /// Done, and the answer lost.
    Unanswered,
    /// Not done before [`Way::go_on`].
    Stopped,
}

#[derive(Clone)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

pub fn user(name: &str) -> UserId {
    name.parse().unwrap()
}

impl Way {
    pub fn release(&self) {
        self.holds_messages.store(false, Ordering::SeqCst);
        self.released.notify_waiters();
    }

    fn happens(&self, one_in: &AtomicU32) -> bool {
        let one_in = u64::from(one_in.load(Ordering::SeqCst));
        one_in > 0 && self.dice.lock().unwrap().below(one_in) == 0
    }

    /// The next write to this table, or the one after those announced before.
    pub fn next_write(&self, table: Table, fate: Fate) {
        self.next.lock().unwrap().push((table, fate));
    }

    /// What was stopped is done now.
    pub fn go_on(&self) {
        self.may_go_on.add_permits(1);
    }

    /// Whether the answer gets lost.
    async fn fate_of(&self, table: Table) -> Result<bool, RowsError> {
        let fate = {
            let mut next = self.next.lock().unwrap();
            let index = next.iter().position(|(of, _)| *of == table);
            index.map(|index| next.remove(index).1)
        };
        match fate {
            None => Ok(false),
            Some(Fate::Refused) => Err(RowsError::NoAnswer("as the test wants it".into())),
            Some(Fate::Unanswered) => Ok(true),
            Some(Fate::Stopped) => {
                self.stopped.fetch_add(1, Ordering::SeqCst);
                self.may_go_on.acquire().await.unwrap().forget();
                Ok(false)
            }
        }
    }

    fn may_refuse(&self) -> Result<(), RowsError> {
        if self.happens(&self.refuses) {
            Err(RowsError::NoAnswer("as the test wants it".into()))
        } else {
            Ok(())
        }
    }
}

#[async_trait]
impl Rows for Way {
    async fn get(&self, table: Table, key: &Key) -> Result<Option<Item>, RowsError> {
        tokio::task::yield_now().await;
        self.may_refuse()?;
        self.rows.get(table, key).await
    }

    async fn get_many(&self, wanted: Vec<(Table, Key)>) -> Result<Vec<Option<Item>>, RowsError> {
        tokio::task::yield_now().await;
        self.may_refuse()?;
        self.rows.get_many(wanted).await
    }

    async fn put(&self, table: Table, key: &Key, item: &Item, only: Only) -> Result<Written, RowsError> {
        tokio::task::yield_now().await;
        self.may_refuse()?;
        let is_unanswered = self.fate_of(table).await?;
        if table == Table::Messages && item.find_text("content_type").is_some_and(|kind| **kind == *"text") {
            self.held.fetch_add(1, Ordering::SeqCst);
            loop {
                let released = self.released.notified();
                if !self.holds_messages.load(Ordering::SeqCst) {
                    break;
                }
                released.await;
            }
        }
        let written = self.rows.put(table, key, item, only).await?;
        if is_unanswered || self.happens(&self.loses_answers) {
            return Err(RowsError::NoAnswer("the answer was lost".into()));
        }
        Ok(written)
    }

    async fn delete(&self, table: Table, key: &Key, only: Only) -> Result<Written, RowsError> {
        self.fate_of(table).await?;
        self.rows.delete(table, key, only).await
    }

    async fn put_all(&self, rows: Vec<(Table, Key, Item)>) -> Result<(), RowsError> {
        self.may_refuse()?;
        self.rows.put_all(rows).await
    }

    async fn delete_all(&self, rows: Vec<(Table, Key)>) -> Result<(), RowsError> {
        self.rows.delete_all(rows).await
    }

    async fn query(&self, query: Query) -> Result<Slice, RowsError> {
        tokio::task::yield_now().await;
        self.may_refuse()?;
        self.rows.query(query).await
    }

    async fn scan(&self, table: Table, after: Option<&Key>, limit: usize) -> Result<Scanned, RowsError> {
        self.may_refuse()?;
        self.rows.scan(table, after, limit).await
    }
}

impl Town {
    pub fn hot() -> Town {
        Town { is_hot: true, ..Town::default() }
    }

    fn settings(&self) -> EngineSettings {
        let (layout, most_partitions) = match self.is_hot {
            true => (HOT, HOT.most_partitions),
            false => (Layout::default(), EngineSettings::default().most_partitions),
        };
        EngineSettings {
            layout,
            most_partitions,
            void_after_ms: 60,
            flush_interval_ms: 50,
            return_grace_ms: 400,
            patience_ms: 150,
            outage_look_ms: 50,
            ..EngineSettings::default()
        }
    }

    /// Of all conversations together.
    pub async fn partitions(&self) -> usize {
        let cells = self.rows.scan(Table::Messages, None, usize::MAX).await.unwrap().rows;
        cells.into_iter().map(|(key, _)| key.partition).collect::<HashSet<_>>().len()
    }

    /// A new node, which knows the others and is known to them.
    pub async fn node(&self) -> Node {
        let number = self.nodes.fetch_add(1, Ordering::SeqCst);
        let node = NodeId::new(format!("node-{number}"));
        let way = Arc::new(Way {
            rows: self.rows.clone(),
            holds_messages: AtomicBool::new(false),
            released: Notify::new(),
            loses_answers: AtomicU32::new(0),
            refuses: AtomicU32::new(0),
            dice: Mutex::new(Dice::new(u64::from(number) + 7)),
            held: AtomicU64::new(0),
            next: Mutex::default(),
            stopped: AtomicU64::new(0),
            may_go_on: tokio::sync::Semaphore::new(0),
        });
        let recorder = Arc::new(Recorder::default());
        let store = CloudStore::open(CloudParts {
            rows: way.clone(),
            hints: Arc::new(self.hints.clone()),
            neighbours: Arc::new(self.street.move_in(node.clone())),
            node,
            listener: recorder.clone(),
            clock: Arc::new(SystemClock),
            epoch: Epoch::FIRST,
            settings: self.settings(),
            object_archive: None,
            archive: ArchiveSettings::default(),
        });
        Node { store: Arc::new(store), recorder, way }
    }

    /// Everybody has heard of everybody.
    pub async fn settle(nodes: &[&Node]) {
        until(async || nodes.iter().all(|node| node.store.counters_now().nodes as usize >= nodes.len()))
            .await;
    }
}

impl Node {
    pub async fn direct(&self, one: &str, other: &str) -> ConversationId {
        let id = ConversationId::direct(&user(one), &user(other));
        self.open(id, one, Creation::Direct { peer: user(other) }).await
    }

    pub async fn group(&self, bits: u8, creator: &str, others: &[&str]) -> ConversationId {
        let members = others.iter().map(|name| user(name)).collect();
        let creation = Creation::Group { title: "Tea".parse().unwrap(), members };
        self.open(ConversationId::group([bits; 15]), creator, creation).await
    }

    async fn open(&self, id: ConversationId, by: &str, creation: Creation) -> ConversationId {
        let new = NewConversation { id, creation, created_by: user(by), created_at: SystemClock.now() };
        self.store.open_conversation(new).await.unwrap();
        id
    }

    pub async fn send(&self, id: ConversationId, sender: &str, text: &str) -> Result<Appended, StoreError> {
        let append = Append {
            conversation: id,
            sender: user(sender),
            message_id: text.replace(' ', "-").parse::<MessageId>().unwrap(),
            content_type: ContentType::Text,
            content: text.into(),
            timestamp: SystemClock.now(),
            received_at: SystemClock.now(),
            retry_after: None,
            origin: None,
        };
        self.store.append(append).await?.await
    }

    /// As a client does: the same message again until there is an answer.
    pub async fn surely_send(&self, id: ConversationId, sender: &str, text: &str) -> Appended {
        loop {
            match self.send(id, sender, text).await {
                Ok(appended) => return appended,
                Err(StoreError::NoAnswer(_)) => tokio::time::sleep(Duration::from_millis(2)).await,
                Err(error) => panic!("{error}"),
            }
        }
    }

    pub async fn history(&self, id: ConversationId, reader: &str) -> Vec<Message> {
        let (mut all, mut after) = (Vec::new(), Some(Seq::ZERO));
        while let Some(seq) = after {
            let (from, limit) = (PageFrom::After(seq), PageLimit::MAX);
            let request = PageRequest { conversation: id, reader: user(reader), from, limit };
            let page = self.store.page(request).await.unwrap();
            all.extend(page.messages);
            after = page.next_after;
        }
        all
    }

    pub async fn apply_receipt(&self, id: ConversationId, name: &str, kind: ReceiptKind, seq: u64) {
        let mark = Receipt { conversation: id, user: user(name), kind, seq: Seq::new(seq), origin: None };
        self.store.apply_receipt(mark).await.unwrap();
    }

    pub async fn user_connected(&self, name: &str) {
        self.store.user_connected(&user(name)).await;
    }

    pub fn heard(&self, id: ConversationId) -> Vec<u64> {
        self.recorder.heard_seqs(id).iter().map(|seq| seq.get()).collect()
    }

    /// For another task.
    pub fn again(&self) -> Node {
        Node { store: self.store.clone(), recorder: self.recorder.clone(), way: self.way.clone() }
    }

    /// As `kill -9` does.
    pub fn die(self) -> (Arc<Recorder>, Arc<Way>) {
        (self.recorder, self.way)
    }
}

pub async fn until(condition: impl AsyncFn() -> bool) {
    for _ in 0..2_000 {
        if condition().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it did not come to that");
}
