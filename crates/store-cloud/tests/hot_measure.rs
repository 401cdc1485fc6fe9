//! How long a page of a spread conversation takes, and how many queries, on DynamoDB Local. The table in docs/hot.md is
//! what this prints:
//! `cargo test -p bluetick-store-cloud --test hot_measure -- --ignored --nocapture`
#![expect(clippy::unwrap_used, reason = "a test stops where its own set-up fails")]

mod rows_common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bluetick_core::{ConversationId, Seq};
use bluetick_store_cloud::hot::{Keeper, Layout, Reader};
use bluetick_store_cloud::rows::dynamo::{DynamoRows, Operation};
use bluetick_store_cloud::rows::{Item, Rows, Table};
use bluetick_testkit::dice::Dice;
use bluetick_testkit::dynamo::DynamoServer;

const PLAIN: u64 = 1_024;
const NEWEST: u64 = 6_000;
const PAGE: u64 = 20;
const PAGES: usize = 400;

struct Room {
    id: ConversationId,
    rows: DynamoRows,
    reader: Reader,
    /// Only in the places that are spread.
    first: u64,
}

impl Room {
    async fn spread(rows: &DynamoRows, partitions: u16) -> Room {
        let shared: Arc<dyn Rows> = Arc::new(rows.clone());
        let keeper = Arc::new(Keeper::new(Arc::clone(&shared), Layout::CHOSEN));
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
        Room { id, rows: rows.clone(), reader: Reader::new(shared, keeper), first }
    }

    fn queries(&self) -> u64 {
        self.rows.counters().of(Operation::Query)
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
#[ignore = "measures, and says nothing about right or wrong"]
async fn pages_of_spread_conversations() {
    let server = DynamoServer::shared().await;
    let rows = rows_common::rows_through(&rows_common::settings(server.endpoint())).await;
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
