//! Tables as DynamoDB limits them: each partition key takes so many writes a second, and more are refused. Engines for tests
//! do not, so what salting is for would not show there.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use crate::rows::{Item, Key, Only, Query, Rows, RowsCounts, RowsError, Scanned, Slice, Table, Written};

/// What a partition takes at once after it was idle, as a part of a second's worth.
const BURST: f64 = 0.1;

/// As the adapter for DynamoDB does: a write that is throttled is tried again with jitter, for this long.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    pub writes_per_second: u32,
    pub patience: Duration,
}

impl Limit {
    pub const DYNAMODB: Limit = Limit { writes_per_second: 1_000, patience: Duration::from_secs(5) };
}

const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_millis(800);

pub struct LimitedRows<Inner> {
    inner: Inner,
    limit: Limit,
    buckets: Mutex<HashMap<(Table, String), Bucket>>,
    throttles: AtomicU64,
}

struct Bucket {
    left: f64,
    at: Instant,
}

impl<Inner: Rows> LimitedRows<Inner> {
    pub fn new(inner: Inner, limit: Limit) -> LimitedRows<Inner> {
        LimitedRows { inner, limit, buckets: Mutex::default(), throttles: AtomicU64::new(0) }
    }

    fn takes(&self, table: Table, partition: &str) -> bool {
        let rate = f64::from(self.limit.writes_per_second);
        let now = Instant::now();
        let mut buckets = self.buckets.lock().expect("nothing panics while it holds the lock");
        let bucket =
            buckets.entry((table, partition.to_owned())).or_insert(Bucket { left: rate * BURST, at: now });
        let refilled = rate * now.duration_since(bucket.at).as_secs_f64();
        *bucket = Bucket { left: (bucket.left + refilled).min(rate * BURST), at: now };
        let takes = bucket.left >= 1.0;
        if takes {
            bucket.left -= 1.0;
        } else {
            self.throttles.fetch_add(1, Ordering::Relaxed);
        }
        takes
    }

    async fn turn(&self, what: &str, table: Table, partition: &str) -> Result<(), RowsError> {
        let deadline = Instant::now() + self.limit.patience;
        let mut longest = FIRST_PAUSE;
        while !self.takes(table, partition) {
            let pause = longest.mul_f64(fastrand::f64());
            if Instant::now() + pause >= deadline {
                return Err(RowsError::NoAnswer(format!("{what} on {}: it throttles", table.name())));
            }
            tokio::time::sleep(pause).await;
            longest = (longest * 2).min(LONGEST_PAUSE);
        }
        Ok(())
    }
}

#[async_trait]
impl<Inner: Rows> Rows for LimitedRows<Inner> {
    async fn get(&self, table: Table, key: &Key) -> Result<Option<Item>, RowsError> {
        self.inner.get(table, key).await
    }

    async fn get_many(&self, wanted: Vec<(Table, Key)>) -> Result<Vec<Option<Item>>, RowsError> {
        self.inner.get_many(wanted).await
    }

    async fn put(&self, table: Table, key: &Key, item: &Item, only: Only) -> Result<Written, RowsError> {
        self.turn("PutItem", table, &key.partition).await?;
        self.inner.put(table, key, item, only).await
    }

    async fn delete(&self, table: Table, key: &Key, only: Only) -> Result<Written, RowsError> {
        self.turn("DeleteItem", table, &key.partition).await?;
        self.inner.delete(table, key, only).await
    }

    async fn put_all(&self, rows: Vec<(Table, Key, Item)>) -> Result<(), RowsError> {
        for (table, key, _) in &rows {
            self.turn("BatchWriteItem", *table, &key.partition).await?;
        }
        self.inner.put_all(rows).await
    }

    async fn delete_all(&self, rows: Vec<(Table, Key)>) -> Result<(), RowsError> {
        for (table, key) in &rows {
            self.turn("BatchWriteItem", *table, &key.partition).await?;
        }
        self.inner.delete_all(rows).await
    }

    async fn query(&self, query: Query) -> Result<Slice, RowsError> {
        self.inner.query(query).await
    }

    async fn scan(&self, table: Table, after: Option<&Key>, limit: usize) -> Result<Scanned, RowsError> {
        self.inner.scan(table, after, limit).await
    }

    fn counts(&self) -> RowsCounts {
        let counts = self.inner.counts();
        RowsCounts { throttles: counts.throttles + self.throttles.load(Ordering::Relaxed), ..counts }
    }
}
