//! What salting is for: tables that take 1,000 writes a second of one partition key, and a conversation with 4,000.
#![expect(clippy::unwrap_used, reason = "a test stops where its own set-up fails")]

use std::sync::Arc;
use std::time::Duration;

use bluetick_core::{ConversationId, Seq};
use bluetick_store_cloud::hot::limiter::{Limit, LimitedRows};
use bluetick_store_cloud::hot::{Keeper, Layout};
use bluetick_store_cloud::rows::memory::MemoryRows;
use bluetick_store_cloud::rows::{Item, Key, Only, Rows, RowsError, Table, Written};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

const WRITES_PER_SECOND: u64 = 4_000;
const SECONDS: u64 = 4;

struct Outcome {
    stored: u64,
    /// By whole seconds, from the beginning.
    by_second: Vec<u64>,
    throttles: u64,
    partitions: u16,
}

/// Everybody writes when its time has come, whatever became of those before.
async fn rush(most_partitions: u16) -> Outcome {
    let rows = Arc::new(LimitedRows::new(MemoryRows::default(), Limit::DYNAMODB));
    let layout = Layout { most_partitions, ..Layout::CHOSEN };
    let keeper = Arc::new(Keeper::new(Arc::clone(&rows) as Arc<dyn Rows>, layout));
    let id = ConversationId::group([7; 15]);
    let begin = Instant::now();
    let mut writes = JoinSet::new();
    for number in 0..WRITES_PER_SECOND * SECONDS {
        let (rows, keeper) = (Arc::clone(&rows), Arc::clone(&keeper));
        sleep_until(begin + Duration::from_micros(1_000_000 / WRITES_PER_SECOND * number)).await;
        writes.spawn(async move {
            let seq = Seq::new(number + 1);
            if keeper.saw(id, seq) {
                keeper.go_ahead(id, seq).await.unwrap();
            }
            let key = keeper.key(id, seq).await.unwrap();
            let written = rows.put(Table::Messages, &key, &Item::new(), Only::IfAbsent).await;
            written.is_ok_and(|written| written == Written::Done).then(|| begin.elapsed().as_secs())
        });
    }
    let (mut stored, mut by_second) = (0, Vec::new());
    while let Some(done) = writes.join_next().await {
        let Some(second) = done.unwrap() else { continue };
        let second = usize::try_from(second).unwrap();
        by_second.resize(by_second.len().max(second + 1), 0);
        by_second[second] += 1;
        stored += 1;
    }
    let partitions = keeper.fresh(id).await.unwrap().partitions();
    Outcome { stored, by_second, throttles: rows.counts().throttles, partitions }
}

/// In time that passes when nobody has anything to do, so that a slow machine sees the same.
#[tokio::test(start_paused = true)]
async fn without_salting_a_busy_conversation_falls_behind_and_with_it_all_is_stored() {
    let (plain, salted) = tokio::join!(rush(1), rush(64));
    for (name, outcome) in [("without", &plain), ("with", &salted)] {
        println!(
            "{name} salting: {} stored, by second {:?}, {} throttled, {} partitions",
            outcome.stored, outcome.by_second, outcome.throttles, outcome.partitions
        );
    }
    assert!(plain.stored < WRITES_PER_SECOND * SECONDS, "one partition took it all");
    assert_eq!(salted.stored, WRITES_PER_SECOND * SECONDS);
    assert!(salted.partitions >= 5, "{} partitions", salted.partitions);
    assert!(salted.throttles < plain.throttles / 2);
}

#[tokio::test]
async fn a_partition_that_takes_no_more_says_so_as_dynamodb_does_and_others_go_on() {
    let limit = Limit { writes_per_second: 10, patience: Duration::from_millis(20) };
    let rows = LimitedRows::new(MemoryRows::default(), limit);
    let put = |partition: &'static str, seq| {
        let (rows, key) = (&rows, Key::number(partition, seq));
        async move { rows.put(Table::Messages, &key, &Item::new(), Only::IfAbsent).await }
    };
    put("one", 1).await.unwrap();
    let RowsError::NoAnswer(why) = put("one", 2).await.unwrap_err() else { panic!("it can be tried again") };
    assert_eq!(why, "PutItem on messages: it throttles");
    put("another", 2).await.unwrap();
    assert!(rows.counts().throttles >= 1);
}
