//! How long a page of a spread conversation takes, and how many queries, on DynamoDB Local. The
//! tables in docs/explanation/fleet.md are what this prints:
//! `cargo test -p bluetick-store-cloud --test hot_measure -- --ignored --nocapture`
#![expect(clippy::unwrap_used, reason = "a test stops where its own set-up fails")]

mod rows_common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bluetick_core::{ConversationId, Seq};
use bluetick_store_cloud::hot::{Keeper, Layout, Reader};
use bluetick_store_cloud::rows::dynamo::Operation;
use bluetick_store_cloud::rows::memory::MemoryRows;
use bluetick_store_cloud::rows::{
    Item, Key, Only, Query, Rows, RowsCounts, RowsError, Scanned, Slice, Table, Written,
};
use bluetick_testkit::dice::Dice;
use bluetick_testkit::dynamo::DynamoServer;

const PLAIN: u64 = 1_024;
const NEWEST: u64 = 6_000;
const PAGE: u64 = 20;
const PAGES: usize = 400;

/// Tables that answer each query after the same time, as many as are asked: each partition has a machine of its own.
#[derive(Default)]
struct FarRows {
    inner: MemoryRows,
    queries: AtomicU64,
}

const FAR: Duration = Duration::from_millis(5);

#[async_trait]
impl Rows for FarRows {
    async fn get(&self, table: Table, key: &Key) -> Result<Option<Item>, RowsError> {
        tokio::time::sleep(FAR).await;
        self.inner.get(table, key).await
    }

    async fn get_many(&self, wanted: Vec<(Table, Key)>) -> Result<Vec<Option<Item>>, RowsError> {
        tokio::time::sleep(FAR).await;
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
        self.queries.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(FAR).await;
        self.inner.query(query).await
    }

    fn counts(&self) -> RowsCounts {
        let requests = vec![(Operation::Query.name(), self.queries.load(Ordering::Relaxed))];
        RowsCounts { requests, ..RowsCounts::default() }
    }
}

struct Room {
    id: ConversationId,
    rows: Arc<dyn Rows>,
    reader: Reader,
    /// Only in the places that are spread.
    first: u64,
}

impl Room {
    async fn spread(rows: &Arc<dyn Rows>, partitions: u16) -> Room {
        let keeper = Arc::new(Keeper::new(Arc::clone(rows), Layout::CHOSEN));
        let mut bits = [0; 15];
        bits[..2].copy_from_slice(&partitions.to_be_bytes());
        bits[2..6].copy_from_slice(&std::process::id().to_be_bytes());
        let id = ConversationId::group(bits);
        keeper.ask_for(id, Some(partitions));
        let mut cells = Vec::new();
        for seq in (1..=NEWEST).map(Seq::new) {
            let item = Item::new()
                .text("message_id", format!("m{seq}"))
                .text("sender_id", "somebody")
                .text("content_type", "text")
                .text("content", "as long as most messages are, which is not long")
                .number("timestamp", 1_700_000_000_000)
                .number("received_at", 1_700_000_000_000);
            cells.push((Table::Messages, keeper.key(id, seq).await.unwrap(), item));
        }
        rows.put_all(cells).await.unwrap();
        let registry = keeper.at_hand(id);
        assert_eq!(registry.partitions(), partitions);
        let first = registry.epochs().first().map_or(PLAIN + 1, |epoch| epoch.from.get());
        Room { id, rows: Arc::clone(rows), reader: Reader::new(Arc::clone(rows), keeper), first }
    }

    fn queries(&self) -> u64 {
        let counts = self.rows.counts();
        counts
            .requests
            .iter()
            .find(|(name, _)| *name == Operation::Query.name())
            .map_or(0, |(_, count)| *count)
    }

    async fn newest(&self) {
        let page = self.reader.newest(self.id, Seq::FIRST, PAGE as usize, &[]).await.unwrap();
        assert_eq!(page.len() as u64, PAGE);
    }

    async fn somewhere(&self, dice: &mut Dice) {
        let first = self.first + dice.below(NEWEST - self.first - PAGE);
        let range = (Seq::new(first), Seq::new(first + PAGE - 1));
        assert_eq!(self.reader.range(self.id, range, &[]).await.unwrap().len() as u64, PAGE);
    }
}

fn told(what: &str, mut times: Vec<Duration>, queries: u64) -> String {
    times.sort();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1_000.0;
    let per_page = queries as f64 / times.len() as f64;
    format!("| {what} | {:.1} ms | {:.1} ms | {per_page:.2} |", at(50), at(99))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it measures, and asserts nothing"]
async fn pages_on_dynamodb_local() {
    let server = DynamoServer::shared().await;
    let rows = rows_common::rows_through(&rows_common::settings(server.endpoint())).await;
    measure(Arc::new(rows)).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it measures, and asserts nothing"]
async fn pages_on_tables_that_answer_after_five_milliseconds() {
    measure(Arc::new(FarRows::default())).await;
}

async fn measure(rows: Arc<dyn Rows>) {
    let mut dice = Dice::new(7);
    println!("| N, page of 20 | median | 99 % | queries a page |\n|---|---|---|---|");
    for partitions in [1, 4, 10] {
        let room = Room::spread(&rows, partitions).await;
        for _ in 0..50 {
            room.newest().await;
            room.somewhere(&mut dice).await;
        }
        let (mut times, queries) = (Vec::new(), room.queries());
        for _ in 0..PAGES {
            let began = Instant::now();
            room.newest().await;
            times.push(began.elapsed());
        }
        println!("{}", told(&format!("{partitions}, the newest"), times, room.queries() - queries));
        let (mut times, queries) = (Vec::new(), room.queries());
        for _ in 0..PAGES {
            let began = Instant::now();
            room.somewhere(&mut dice).await;
            times.push(began.elapsed());
        }
        println!("{}", told(&format!("{partitions}, anywhere"), times, room.queries() - queries));
    }
}
