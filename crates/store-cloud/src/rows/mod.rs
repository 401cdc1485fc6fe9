//! The tables that hold the truth, and the few things that are done with a row.
//!
//! Whatever engine is behind it writes one row at a time, whole, and on a condition: that is all the rest of this crate
//! builds on, so anything that speaks DynamoDB's API will do. Reads see every write that was confirmed before
//! (DynamoDB's "consistent reads").

pub mod dynamo;
mod item;
pub mod memory;
mod table;

use async_trait::async_trait;
use thiserror::Error;

pub use item::{Damaged, Item, Value};
pub use table::{Key, Sort, SortKind, Table};

#[async_trait]
pub trait Rows: Send + Sync + 'static {
    async fn get(&self, table: Table, key: &Key) -> Result<Option<Item>, RowsError>;

    /// Of several tables at once, in the order asked for. However many: an adapter splits what is too much for one
    /// request and asks for the parts side by side.
    async fn get_many(&self, wanted: Vec<(Table, Key)>) -> Result<Vec<Option<Item>>, RowsError>;

    /// Writes the whole row, where the condition holds.
    ///
    /// When the engine's answer is lost, an adapter tries again; finding its own row there is [`Written::Done`].
    async fn put(&self, table: Table, key: &Key, item: &Item, only: Only) -> Result<Written, RowsError>;

    async fn delete(&self, table: Table, key: &Key, only: Only) -> Result<Written, RowsError>;

    /// Writes many rows whatever was there, in no order, and not together: some may be written when it fails.
    async fn put_all(&self, rows: Vec<(Table, Key, Item)>) -> Result<(), RowsError>;

    /// Deletes many rows, in the same way.
    async fn delete_all(&self, rows: Vec<(Table, Key)>) -> Result<(), RowsError>;

    /// Rows of one partition in the order of their sort keys.
    async fn query(&self, query: Query) -> Result<Slice, RowsError>;

    /// Some rows of a whole table, in an order of the engine's own, which stays the same: from the beginning, or behind a
    /// row that came last.
    async fn scan(&self, table: Table, after: Option<&Key>, limit: usize) -> Result<Scanned, RowsError>;

    /// For metrics.
    fn counts(&self) -> RowsCounts {
        RowsCounts::default()
    }
}

/// Since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowsCounts {
    /// By operation, all attempts included.
    pub requests: Vec<(&'static str, u64)>,
    pub retries: u64,
    pub throttles: u64,
}

/// The condition of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Only {
    Always,
    /// There is no such row.
    IfAbsent,
    /// The row is there and its [`Item::version`] is this.
    IfVersion(u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    Done,
    /// The condition does not hold; what is there instead.
    Refused(Option<Item>),
}

#[derive(Clone, Debug)]
pub struct Query {
    pub table: Table,
    pub partition: String,
    pub range: SortRange,
    pub descending: bool,
    /// At most so many rows.
    pub limit: usize,
    /// These attributes alone; the sort key always comes with them. Empty: the whole row.
    pub fields: &'static [&'static str],
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SortRange {
    All,
    /// Both ends included. Empty when the first is above the second.
    Numbers(u64, u64),
    /// Text keys that begin so.
    Prefix(String),
    /// Text keys above this one.
    After(String),
}

/// Part of what a query asked for.
#[derive(Clone, Debug, Default)]
pub struct Slice {
    pub rows: Vec<(Sort, Item)>,
    /// There may be more beyond the last row: the limit was reached, or as much as the engine gives at a time.
    pub more: bool,
}

/// Part of a table.
#[derive(Clone, Debug, Default)]
pub struct Scanned {
    pub rows: Vec<(Key, Item)>,
    /// Behind which row to go on; `None` when that was all. There may be one though no row came.
    pub next: Option<Key>,
}

#[derive(Clone, Debug, Error)]
pub enum RowsError {
    /// The engine is overloaded, away or silent, and trying again inside the deadline did not help. A write may have
    /// been done.
    #[error("{0}")]
    NoAnswer(String),
    /// It refuses for a reason that trying again does not mend: a table is missing, the key may not do this, a row is too
    /// large.
    #[error("{0}")]
    Refused(String),
}
