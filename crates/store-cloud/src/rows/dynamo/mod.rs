//! Tables in DynamoDB, or in anything that speaks its API.
//!
//! One request for each thing of the port, tried again by us and not by the SDK: what an answer means depends on whether
//! an earlier attempt may have been done, which only whoever counts the attempts knows.

mod batch;
mod codec;
mod connection;
mod counters;
mod patience;
mod read;
mod scan;
pub mod tables;
mod trouble;
mod write;

use async_trait::async_trait;

use super::{Item, Key, Only, Query, Rows, RowsCounts, RowsError, Scanned, Slice, Table, Written};

pub use bluetick_fleet_settings::DynamoSettings;
pub use connection::Connection;
pub use counters::{Operation, RequestCounts};

#[derive(Clone)]
pub struct DynamoRows {
    connection: Connection,
}

impl DynamoRows {
    /// An error says in a sentence what is missing: keys, the engine, or which table is not as it must be.
    pub async fn open(settings: &DynamoSettings) -> Result<DynamoRows, RowsError> {
        DynamoRows::open_on(Connection::new(settings).await?).await
    }

    pub async fn open_on(connection: Connection) -> Result<DynamoRows, RowsError> {
        tables::must_be_right(&connection).await?;
        Ok(DynamoRows { connection })
    }

    pub fn counters(&self) -> RequestCounts {
        self.connection.counters().read()
    }

    /// Which table somebody has written to, by its whole name; what nodes share among themselves does not count.
    pub async fn in_use(&self) -> Result<Option<String>, RowsError> {
        scan::in_use(&self.connection).await
    }
}

#[async_trait]
impl Rows for DynamoRows {
    async fn get(&self, table: Table, key: &Key) -> Result<Option<Item>, RowsError> {
        read::get(&self.connection, table, key).await
    }

    fn counts(&self) -> RowsCounts {
        let counts = self.counters();
        let requests = Operation::ALL.iter().map(|operation| (operation.name(), counts.of(*operation)));
        RowsCounts { requests: requests.collect(), retries: counts.retries, throttles: counts.throttles }
    }

    async fn get_many(&self, wanted: Vec<(Table, Key)>) -> Result<Vec<Option<Item>>, RowsError> {
        batch::get_many(&self.connection, wanted).await
    }

    async fn put(&self, table: Table, key: &Key, item: &Item, only: Only) -> Result<Written, RowsError> {
        write::put(&self.connection, table, key, item, only).await
    }

    async fn delete(&self, table: Table, key: &Key, only: Only) -> Result<Written, RowsError> {
        write::delete(&self.connection, table, key, only).await
    }

    async fn put_all(&self, rows: Vec<(Table, Key, Item)>) -> Result<(), RowsError> {
        batch::put_all(&self.connection, rows).await
    }

    async fn delete_all(&self, rows: Vec<(Table, Key)>) -> Result<(), RowsError> {
        batch::delete_all(&self.connection, rows).await
    }

    async fn query(&self, query: Query) -> Result<Slice, RowsError> {
        read::query(&self.connection, query).await
    }

    async fn scan(&self, table: Table, after: Option<&Key>, limit: usize) -> Result<Scanned, RowsError> {
        read::scan(&self.connection, table, after, limit).await
    }
}
