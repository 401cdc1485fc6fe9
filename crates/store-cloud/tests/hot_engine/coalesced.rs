//! Many readers of one page at the same moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bluetick_core::{PageFrom, Seq};
use bluetick_store_cloud::EngineSettings;
use bluetick_store_cloud::hints::memory::MemoryHints;
use bluetick_store_cloud::rows::memory::MemoryRows;
use bluetick_store_cloud::rows::{Item, Key, Only, Query, Rows, RowsError, Scanned, Slice, Table, Written};
use futures_util::future::join_all;

use crate::node::Node;

/// Counts queries, each of which takes a while.
#[derive(Default)]
struct SlowRows {
    inner: MemoryRows,
    queries: AtomicU64,
}

#[async_trait]
impl Rows for SlowRows {
    async fn get(&self, table: Table, key: &Key) -> Result<Option<Item>, RowsError> {
        self.inner.get(table, key).await
    }

    async fn get_many(&self, wanted: Vec<(Table, Key)>) -> Result<Vec<Option<Item>>, RowsError> {
        self.inner.get_many(wanted).await
    }

    async fn put(&self, table: Table, key: &Key, item: &Item, only: Only) -> Result<Written, RowsError> {
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

    async fn scan(&self, table: Table, after: Option<&Key>, limit: usize) -> Result<Scanned, RowsError> {
        self.inner.scan(table, after, limit).await
    }

    async fn query(&self, query: Query) -> Result<Slice, RowsError> {
        if query.table == Table::Messages {
            self.queries.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        self.inner.query(query).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_readers_of_one_page_are_answered_by_a_few_queries() {
    let rows = Arc::new(SlowRows::default());
    let node = Node::on(rows.clone(), &MemoryHints::default(), EngineSettings::default());
    let id = node.group("alice", &["bob".to_owned()]).await;
    for number in 0..50 {
        node.send(id, "alice", &format!("m{number}")).await.unwrap();
    }
    for (from, first, most_queries) in [(PageFrom::Newest, 51, 2), (PageFrom::Before(Seq::new(30)), 29, 4)] {
        let (before, coalesced) =
            (rows.queries.load(Ordering::SeqCst), node.store.counters_now().coalesced_reads);
        let pages = join_all((0..100).map(|_| node.page(id, "bob", from))).await;
        assert!(pages.iter().all(|page| page[0] == first));
        let queries = rows.queries.load(Ordering::SeqCst) - before;
        assert!(queries <= most_queries, "{queries} queries");
        assert!(node.store.counters_now().coalesced_reads - coalesced >= 98);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_acknowledged_before_somebody_asks_is_in_the_page() {
    let rows = Arc::new(SlowRows::default());
    let node = Node::on(rows.clone(), &MemoryHints::default(), EngineSettings::default());
    let id = node.group("alice", &["bob".to_owned()]).await;
    let queries = rows.queries.load(Ordering::SeqCst);
    let first = tokio::spawn({
        let node = node.clone();
        async move { node.page(id, "bob", PageFrom::Newest).await }
    });
    while rows.queries.load(Ordering::SeqCst) == queries {
        tokio::task::yield_now().await;
    }
    let appended = node.send(id, "alice", "while-somebody-reads").await.unwrap();
    let page = node.page(id, "bob", PageFrom::Newest).await;
    assert_eq!(page[0], appended.seq.get());
    first.await.unwrap();
}
