//! Tables that answer late, in any order, or not at all; a Redis that forgets; and what everybody may do wrong.

use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use bluetick_core::{ConversationId, Seq};
use bluetick_store_cloud::hot::{Layout, Registry};
use bluetick_store_cloud::rows::memory::MemoryRows;
use bluetick_store_cloud::rows::{Item, Key, Only, Query, Rows, RowsError, Scanned, Slice, Table, Written};
use bluetick_testkit::dice::Dice;

/// Small enough that every border is met all the time.
pub const LAYOUT: Layout =
    Layout { block: 2, plain_through: Seq::new(4), ahead: 8, most_partitions: 4, restless: false };

pub fn conversation() -> ConversationId {
    ConversationId::group([7; 15])
}

/// A rule that somebody does not keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carelessness {
    None,
    /// A writer puts its message where the version at hand would have it, covered or not.
    WriterTrustsItsCache,
    /// An epoch begins a little above the counter in Redis instead of above the horizon, and there is no horizon.
    EpochAboveTheCounter,
    /// The signpost is put after the epoch is decided.
    SignpostComesLate,
    /// A reader closes a hole where the version at hand would have it.
    VoidByGuess,
    /// A reader takes a hole for a hole without asking whether its version covers it.
    ReaderBelievesHoles,
    /// Redis is told of a version before the tables have it.
    RedisIsToldFirst,
}

#[derive(Clone)]
pub struct Chance(Arc<Mutex<Dice>>);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance(Arc::new(Mutex::new(Dice::new(seed))))
    }

    pub fn dice(&self) -> MutexGuard<'_, Dice> {
        self.0.lock().unwrap()
    }

    /// Others get their turn meanwhile; now and then very many of them.
    pub async fn pass(&self) {
        let turns = {
            let mut dice = self.dice();
            if dice.one_in(25) { dice.below(400) } else { dice.below(6) }
        };
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
    }
}

/// Any call takes any time, before and after it acts. Writes may stay unanswered: not done, done, or done later.
pub struct ShakyRows {
    pub inner: Arc<MemoryRows>,
    pub chance: Chance,
    /// Every version of the registry that was ever there.
    pub history: Mutex<Vec<Registry>>,
}

impl ShakyRows {
    async fn act(
        inner: &MemoryRows,
        history: &Mutex<Vec<Registry>>,
        (table, key, item, only): (Table, &Key, &Item, Only),
    ) -> Result<Written, RowsError> {
        let written = inner.put(table, key, item, only).await?;
        if table == Table::HotRegistry && written == Written::Done {
            history.lock().unwrap().push(Registry::decode(item).unwrap());
        }
        Ok(written)
    }
}

#[async_trait]
impl Rows for Shared {
    async fn get(&self, table: Table, key: &Key) -> Result<Option<Item>, RowsError> {
        self.0.chance.pass().await;
        let row = self.0.inner.get(table, key).await;
        self.0.chance.pass().await;
        row
    }

    async fn get_many(&self, wanted: Vec<(Table, Key)>) -> Result<Vec<Option<Item>>, RowsError> {
        self.0.inner.get_many(wanted).await
    }

    async fn put(&self, table: Table, key: &Key, item: &Item, only: Only) -> Result<Written, RowsError> {
        let ShakyRows { inner, chance, history } = &*self.0;
        chance.pass().await;
        let fate = chance.dice().below(40);
        let silence = || Err(RowsError::NoAnswer("as the test wants it".into()));
        let write = (table, key, item, only);
        match fate {
            0 => return silence(),
            1 => {
                ShakyRows::act(inner, history, write).await?;
                return silence();
            }
            2 => {
                let (rows, key, item) = (Arc::clone(&self.0), key.clone(), item.clone());
                tokio::spawn(async move {
                    rows.chance.pass().await;
                    rows.chance.pass().await;
                    ShakyRows::act(&rows.inner, &rows.history, (table, &key, &item, only)).await
                });
                return silence();
            }
            _ => {}
        }
        let written = ShakyRows::act(inner, history, write).await?;
        chance.pass().await;
        match written {
            // Not every engine says what is there instead.
            Written::Refused(Some(_)) if chance.dice().one_in(4) => Ok(Written::Refused(None)),
            written => Ok(written),
        }
    }

    async fn delete(&self, _table: Table, _key: &Key, _only: Only) -> Result<Written, RowsError> {
        unreachable!("nothing is deleted")
    }

    async fn put_all(&self, _rows: Vec<(Table, Key, Item)>) -> Result<(), RowsError> {
        unreachable!("everything has its condition")
    }

    async fn delete_all(&self, _rows: Vec<(Table, Key)>) -> Result<(), RowsError> {
        unreachable!("nothing is deleted")
    }

    async fn scan(&self, table: Table, after: Option<&Key>, limit: usize) -> Result<Scanned, RowsError> {
        self.0.inner.scan(table, after, limit).await
    }

    async fn query(&self, query: Query) -> Result<Slice, RowsError> {
        self.0.chance.pass().await;
        let slice = self.0.inner.query(query).await;
        self.0.chance.pass().await;
        slice
    }
}

#[derive(Clone)]
pub struct Shared(pub Arc<ShakyRows>);

/// The counter, and a copy of the registry; both may be of any age.
#[derive(Default)]
pub struct Redis {
    pub counter: u64,
    pub copy: Option<Registry>,
}
