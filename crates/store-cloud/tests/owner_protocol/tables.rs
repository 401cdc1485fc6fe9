//! Tables that answer late, in any order, or not at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bluetick_store_cloud::rows::memory::MemoryRows;
use bluetick_store_cloud::rows::{Item, Key, Only, Query, Rows, RowsError, Scanned, Slice, Table, Written};
use bluetick_testkit::dice::Dice;
use parking_lot::Mutex;

/// Random numbers of one run, shared by all of its tasks.
#[derive(Clone)]
pub struct Chance(Arc<Mutex<Dice>>);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance(Arc::new(Mutex::new(Dice::new(seed))))
    }

    pub fn below(&self, bound: u64) -> u64 {
        self.0.lock().below(bound)
    }

    pub fn between(&self, low: u64, high: u64) -> u64 {
        self.0.lock().between(low, high)
    }

    pub fn one_in(&self, bound: u64) -> bool {
        self.0.lock().one_in(bound)
    }

    /// Waits in simulated time, now and then for long.
    pub async fn pause(&self) {
        let millis = if self.one_in(25) { self.below(600) } else { self.below(8) };
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }
}

/// The tables of one run, and the faults of its network.
pub struct FaultyTables {
    pub inner: MemoryRows,
    pub chance: Chance,
    /// One put in so many has a fault.
    pub fault_rate: u64,
    /// The longest time until a late put arrives.
    pub longest_delay_ms: u64,
    /// Whether the network works: at the end of a run.
    pub is_calm: AtomicBool,
    /// Whether each put of a message arrives late.
    pub delays_messages: AtomicBool,
    pub late_puts: AtomicU64,
}

/// The tables as the nodes see them.
#[derive(Clone)]
pub struct Network(pub Arc<FaultyTables>);

impl Network {
    /// Puts the row at some later time, also after the node that sent it has died.
    fn put_late(&self, table: Table, key: &Key, item: &Item, only: Only) {
        self.0.late_puts.fetch_add(1, Ordering::Relaxed);
        let (tables, key, item) = (Arc::clone(&self.0), key.clone(), item.clone());
        tokio::spawn(async move {
            let millis = tables.chance.between(1, tables.longest_delay_ms);
            tokio::time::sleep(Duration::from_millis(millis)).await;
            tables.inner.put(table, &key, &item, only).await
        });
    }

    async fn delay(&self) {
        if !self.0.is_calm.load(Ordering::Relaxed) {
            self.0.chance.pause().await;
        }
    }
}

#[async_trait]
impl Rows for Network {
    async fn get(&self, table: Table, key: &Key) -> Result<Option<Item>, RowsError> {
        self.delay().await;
        let row = self.0.inner.get(table, key).await;
        self.delay().await;
        row
    }

    async fn get_many(&self, wanted: Vec<(Table, Key)>) -> Result<Vec<Option<Item>>, RowsError> {
        self.delay().await;
        self.0.inner.get_many(wanted).await
    }

    async fn put(&self, table: Table, key: &Key, item: &Item, only: Only) -> Result<Written, RowsError> {
        self.delay().await;
        let FaultyTables { inner, chance, fault_rate, is_calm, .. } = &*self.0;
        if self.0.delays_messages.load(Ordering::Relaxed) && item.find_text("control").is_none() {
            self.put_late(table, key, item, only);
            return Err(RowsError::NoAnswer("the answer is lost".into()));
        }
        let has_fault = !is_calm.load(Ordering::Relaxed) && chance.one_in(*fault_rate);
        if has_fault {
            match chance.below(4) {
                0 => {}
                1 => drop(inner.put(table, key, item, only).await?),
                _ => self.put_late(table, key, item, only),
            }
            self.delay().await;
            return Err(RowsError::NoAnswer("the answer is lost".into()));
        }
        let written = inner.put(table, key, item, only).await?;
        self.delay().await;
        match written {
            // Some engines do not say which row is there.
            Written::Refused(Some(_)) if chance.one_in(4) => Ok(Written::Refused(None)),
            written => Ok(written),
        }
    }

    async fn delete(&self, _table: Table, _key: &Key, _only: Only) -> Result<Written, RowsError> {
        unreachable!("the protocol deletes no row")
    }

    async fn put_all(&self, _rows: Vec<(Table, Key, Item)>) -> Result<(), RowsError> {
        unreachable!("every put has a condition")
    }

    async fn delete_all(&self, _rows: Vec<(Table, Key)>) -> Result<(), RowsError> {
        unreachable!("the protocol deletes no row")
    }

    async fn query(&self, query: Query) -> Result<Slice, RowsError> {
        self.delay().await;
        let slice = self.0.inner.query(query).await;
        self.delay().await;
        slice
    }

    async fn scan(&self, table: Table, after: Option<&Key>, limit: usize) -> Result<Scanned, RowsError> {
        self.0.inner.scan(table, after, limit).await
    }
}
