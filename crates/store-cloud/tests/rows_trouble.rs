//! Rows over an engine that throttles, breaks, and loses answers: what is said to be done is done, and what is said to be
//! refused is not.

#![expect(clippy::unwrap_used, reason = "a test stops where its own set-up fails")]

mod rows_common;

use std::collections::HashMap;
use std::time::Duration;

use bluetick_store_cloud::rows::dynamo::{DynamoRows, DynamoSettings, Operation};
use bluetick_store_cloud::rows::{Item, Key, Only, Query, Rows, RowsError, SortRange, Table, Written};
use bluetick_testkit::dynamo::{DynamoKeeps, DynamoServer};
use bluetick_testkit::dynamo_proxy::{DynamoProxy, FaultRule, RequestFault};
use futures_util::future::join_all;

const SEED: u64 = 6;

/// Everything that makes a difference to a writer.
const FAULTS: [RequestFault; 8] = [
    RequestFault::Slow(Duration::from_millis(30)),
    RequestFault::TableThrottled,
    RequestFault::AccountThrottled,
    RequestFault::ErrorBefore,
    RequestFault::ErrorAfter,
    RequestFault::CutBefore,
    RequestFault::CutAfter,
    RequestFault::NoOldRow,
];

async fn behind_proxy(change: impl FnOnce(&mut DynamoSettings)) -> (DynamoProxy, DynamoRows) {
    let proxy = DynamoProxy::start(DynamoServer::shared().await.address(), SEED).await;
    let mut settings = rows_common::settings(proxy.endpoint());
    change(&mut settings);
    let rows = rows_common::rows_through(&settings).await;
    (proxy, rows)
}

fn sentence(error: RowsError) -> String {
    match error {
        RowsError::NoAnswer(sentence) => sentence,
        RowsError::Refused(sentence) => panic!("trying again would mend it: {sentence}"),
    }
}

fn cell(chat: &str, seq: u64) -> Key {
    Key::number(chat, seq)
}

/// Eight writers want the same twenty cells, each with a message of its own.
async fn writers_race_for_cells(rules: impl IntoIterator<Item = FaultRule>, chat: &str) {
    let (proxy, rows) = behind_proxy(|_| {}).await;
    proxy.meet(rules);
    let message = |writer: u64, seq: u64| Item::new().text("content", format!("{writer} at {seq}"));
    let write = async |writer: u64| {
        let put = async |seq| {
            let written =
                rows.put(Table::Messages, &cell(chat, seq), &message(writer, seq), Only::IfAbsent).await;
            (writer, seq, written.unwrap())
        };
        let mut all = Vec::new();
        for seq in 1..=20 {
            all.push(put(seq).await);
        }
        all
    };
    let written: Vec<_> = join_all((0..8).map(write)).await.into_iter().flatten().collect();
    assert!(proxy.faults() > 0, "nothing went wrong");
    proxy.pass();
    let mut winners: HashMap<u64, Vec<u64>> = HashMap::new();
    for (writer, seq, written) in written {
        let there = rows.get(Table::Messages, &cell(chat, seq)).await.unwrap();
        match written {
            Written::Done => {
                assert_eq!(there, Some(message(writer, seq)), "a false done of {writer} at {seq}");
                winners.entry(seq).or_default().push(writer);
            }
            Written::Refused(refused) => {
                assert_ne!(there, Some(message(writer, seq)), "a false refusal of {writer} at {seq}");
                assert_eq!(refused, there, "{writer} was told of another row at {seq}");
            }
        }
    }
    assert!((1..=20).all(|seq| winners[&seq].len() == 1), "{winners:?}");
}

#[tokio::test]
async fn one_writer_wins_each_cell_whatever_goes_wrong() {
    let race = async |index: usize| {
        let rule = FaultRule::sometimes(30, FAULTS[index]).on("PutItem");
        writers_race_for_cells([rule], &format!("race-{index}")).await;
    };
    join_all((0..FAULTS.len()).map(race)).await;
}

#[tokio::test]
async fn one_writer_wins_each_cell_when_everything_goes_wrong_at_once() {
    writers_race_for_cells(FAULTS.map(|fault| FaultRule::sometimes(7, fault)), "race-all").await;
}

/// Four writers move a version forward, and know for each step whose it is.
async fn writers_step_versions(rules: impl IntoIterator<Item = FaultRule>, room: &str) {
    let (proxy, rows) = behind_proxy(|_| {}).await;
    let key = Key::new(room);
    rows.put(Table::Rooms, &key, &Item::new().versioned(0), Only::IfAbsent).await.unwrap();
    proxy.meet(rules);
    let step = async |writer: u64| {
        let (mut done, mut unclear) = (0, 0);
        for attempt in 0..25 {
            let version = rows.get(Table::Rooms, &key).await.unwrap().unwrap().version();
            let item = Item::new().count("writer", writer).count("attempt", attempt).versioned(version + 1);
            match rows.put(Table::Rooms, &key, &item, Only::IfVersion(version)).await {
                Ok(Written::Done) => done += 1,
                Ok(Written::Refused(there)) => assert_ne!(there, Some(item), "a false refusal"),
                // The row has moved on meanwhile: nobody can say whether this step was among its versions.
                Err(error) => {
                    assert!(sentence(error).contains("changed since"));
                    unclear += 1;
                }
            }
        }
        (done, unclear)
    };
    let counts = join_all((0..4).map(step)).await;
    assert!(proxy.faults() > 0, "nothing went wrong");
    proxy.pass();
    let done: u64 = counts.iter().map(|(done, _)| done).sum();
    let unclear: u64 = counts.iter().map(|(_, unclear)| unclear).sum();
    let version = rows.get(Table::Rooms, &key).await.unwrap().unwrap().version();
    assert!(done <= version, "{done} steps are said to be done, and there were {version}");
    assert!(
        done + unclear >= version,
        "{version} steps, of which only {done} are known and {unclear} unclear"
    );
    assert!(done > 10, "{done} steps in {counts:?}");
}

#[tokio::test]
async fn every_step_of_a_version_belongs_to_one_writer_whatever_goes_wrong() {
    let steps = async |index: usize| {
        let rule = FaultRule::sometimes(20, FAULTS[index]).on("PutItem");
        writers_step_versions([rule], &format!("steps-{index}")).await;
    };
    join_all((0..FAULTS.len()).map(steps)).await;
}

#[tokio::test]
async fn a_delete_whose_answer_was_lost_is_done() {
    let (proxy, rows) = behind_proxy(|_| {}).await;
    for fault in [RequestFault::CutAfter, RequestFault::ErrorAfter, RequestFault::CutBefore] {
        let delete = async |chat: u64| {
            let key = Key::text(format!("{fault:?}"), chat);
            let item = Item::new().versioned(3);
            rows.put(Table::PendingDeliveries, &key, &item, Only::Always).await.unwrap();
            let written = rows.delete(Table::PendingDeliveries, &key, Only::IfVersion(3)).await.unwrap();
            assert_eq!(written, Written::Done);
            assert_eq!(rows.get(Table::PendingDeliveries, &key).await.unwrap(), None);
        };
        proxy.meet([FaultRule::sometimes(50, fault).on("DeleteItem")]);
        join_all((0..10).map(delete)).await;
    }
    assert!(proxy.faults() > 0, "nothing went wrong");
}

#[tokio::test]
async fn an_engine_that_does_not_say_what_is_there_is_asked_for_it() {
    let (proxy, rows) = behind_proxy(|_| {}).await;
    proxy.meet([FaultRule::always(RequestFault::NoOldRow)]);
    let (key, there) = (Key::new("unsaid"), Item::new().text("title", "Tea").versioned(4));
    rows.put(Table::Rooms, &key, &there, Only::IfAbsent).await.unwrap();
    let refused = Written::Refused(Some(there));
    let put = async |only| rows.put(Table::Rooms, &key, &Item::new().versioned(9), only).await.unwrap();
    assert_eq!(put(Only::IfAbsent).await, refused);
    assert_eq!(put(Only::IfVersion(8)).await, refused);
    assert_eq!(rows.delete(Table::Rooms, &key, Only::IfVersion(8)).await.unwrap(), refused);
}

#[tokio::test]
async fn more_requests_than_may_be_under_way_wait_for_their_turn() {
    let (proxy, rows) = behind_proxy(|settings| settings.requests_at_once = 2).await;
    proxy.meet([FaultRule::always(RequestFault::Slow(Duration::from_millis(20)))]);
    let get = async |seq| rows.get(Table::Messages, &cell("turns", seq)).await;
    assert!(join_all((0..60).map(get)).await.into_iter().all(|found| found.unwrap().is_none()));
    // Now and then a connection is made because the last one is not quite free.
    assert!(proxy.connections() < 20, "{} connections", proxy.connections());
}

#[tokio::test]
async fn an_answer_that_never_comes_is_asked_for_again() {
    let (proxy, rows) = behind_proxy(|settings| settings.attempt_timeout_ms = 500).await;
    proxy.meet([FaultRule::sometimes(50, RequestFault::SilenceAfter).on("PutItem")]);
    let put = async |seq| {
        rows.put(Table::Messages, &cell("silence", seq), &Item::new().count("own", seq), Only::IfAbsent).await
    };
    for written in join_all((0..6).map(put)).await {
        assert_eq!(written.unwrap(), Written::Done);
    }
    assert!(proxy.faults() > 0, "nothing went wrong");
}

#[tokio::test]
async fn retries_stop_at_the_deadline_and_say_why() {
    let expected = [
        (RequestFault::TableThrottled, "it throttles"),
        (RequestFault::AccountThrottled, "it throttles"),
        (RequestFault::ErrorBefore, "an error of its own"),
        (RequestFault::CutBefore, "connection"),
        (RequestFault::SilenceAfter, "too slowly"),
    ];
    join_all(expected.map(|(fault, why)| put_in_vain(fault, why))).await;
}

async fn put_in_vain(fault: RequestFault, why: &str) {
    let (proxy, rows) = behind_proxy(|settings| {
        settings.deadline_ms = 5000;
        settings.attempt_timeout_ms = 500;
    })
    .await;
    proxy.meet([FaultRule::always(fault)]);
    // On a busy machine the last attempt may time out, which then is the reason.
    for _ in 0..5 {
        if put_until_the_deadline(&rows, fault, why).await {
            return;
        }
    }
    panic!("{fault:?}: each of 5 puts ended with a timeout");
}

/// Returns false if the put ended with another timeout than the fault causes.
async fn put_until_the_deadline(rows: &DynamoRows, fault: RequestFault, why: &str) -> bool {
    let before = rows.counters();
    let item = Item::new().text("content", "nobody's business");
    let put = rows.put(Table::Messages, &cell("deadline", 1), &item, Only::IfAbsent).await;
    let said = sentence(put.unwrap_err());
    if said.contains("too slowly") && !said.contains(why) {
        return false;
    }
    assert!(said.contains(why) && said.contains("PutItem on table bluetick_messages"), "{fault:?}: {said}");
    assert!(!said.contains("nobody"), "{said}");
    let after = rows.counters();
    let attempts = after.of(Operation::PutItem) - before.of(Operation::PutItem);
    assert!(attempts > 1, "{fault:?} was not tried again");
    assert_eq!(after.unanswered - before.unanswered, 1);
    assert_eq!(after.retries - before.retries, attempts - 1);
    true
}

#[tokio::test]
async fn reads_and_batches_come_through_what_goes_wrong() {
    let (proxy, rows) = behind_proxy(|_| {}).await;
    proxy.meet(FAULTS.map(|fault| FaultRule::sometimes(5, fault)));
    for round in 0..5 {
        let chat = format!("batch-{round}");
        let item = |seq: u64| Item::new().count("own", seq);
        let keys: Vec<_> = (1..=120).map(|seq| (Table::Messages, cell(&chat, seq))).collect();
        let new = (1..=120).map(|seq| (Table::Messages, cell(&chat, seq), item(seq)));
        rows.put_all(new.collect()).await.unwrap();
        let there: Vec<_> = (1..=120).map(|seq| Some(item(seq))).collect();
        assert_eq!(rows.get_many(keys.clone()).await.unwrap(), there);
        let all = Query {
            table: Table::Messages,
            partition: chat.clone(),
            range: SortRange::All,
            descending: false,
            limit: 500,
            fields: &[],
        };
        assert_eq!(rows.query(all.clone()).await.unwrap().rows.len(), 120);
        rows.delete_all(keys).await.unwrap();
        assert!(rows.query(all).await.unwrap().rows.is_empty());
    }
    assert!(proxy.faults() > 0, "nothing went wrong");
}

#[tokio::test]
async fn what_a_batch_left_over_is_asked_for_again() {
    let (proxy, rows) = behind_proxy(|_| {}).await;
    proxy.meet([FaultRule::always(RequestFault::HalfOfBatch)]);
    let key = |seq: u64| (Table::Messages, cell("left over", seq));
    let item = |seq: u64| Item::new().count("own", seq);
    rows.put_all((0..60).map(|seq| (key(seq).0, key(seq).1, item(seq))).collect()).await.unwrap();
    assert!(rows.counters().of(Operation::BatchWriteItem) > 3);
    let found = rows.get_many((0..61).map(key).collect()).await.unwrap();
    assert_eq!(found, (0..60).map(|seq| Some(item(seq))).chain([None]).collect::<Vec<_>>());
    rows.delete_all((0..60).map(key).collect()).await.unwrap();
    assert_eq!(rows.get_many((0..60).map(key).collect()).await.unwrap(), vec![None; 60]);
}

#[tokio::test]
async fn one_thing_asked_is_one_request() {
    let (proxy, rows) = behind_proxy(|_| {}).await;
    let (before, requests) = (rows.counters(), proxy.requests());
    let item = Item::new().text("content", "hello");
    rows.put(Table::Messages, &cell("count", 1), &item, Only::IfAbsent).await.unwrap();
    // A refusal brings the row with it.
    rows.put(Table::Messages, &cell("count", 1), &item, Only::IfAbsent).await.unwrap();
    rows.get(Table::Messages, &cell("count", 1)).await.unwrap();
    rows.get_many((0..101).map(|seq| (Table::Messages, cell("count", seq))).collect()).await.unwrap();
    rows.delete(Table::Messages, &cell("count", 1), Only::Always).await.unwrap();
    let counts = rows.counters();
    let of = |operation| counts.of(operation) - before.of(operation);
    assert_eq!([of(Operation::PutItem), of(Operation::GetItem), of(Operation::BatchGetItem)], [2, 1, 2]);
    assert_eq!([of(Operation::DeleteItem), of(Operation::Query), counts.retries], [1, 0, 0]);
    assert_eq!(proxy.requests() - requests, 6);
    assert_eq!(counts.all(), 6);
}

#[tokio::test]
async fn a_row_too_large_is_refused_and_not_tried_again() {
    let (proxy, rows) = behind_proxy(|_| {}).await;
    let requests = proxy.requests();
    let item = Item::new().text("content", "secret ".repeat(70_000));
    let put = rows.put(Table::Messages, &cell("large", 1), &item, Only::IfAbsent).await;
    let Err(RowsError::Refused(said)) = put else { panic!("{put:?}") };
    assert!(said.contains("bluetick_messages") && said.contains("larger"), "{said}");
    assert!(!said.contains("secret"), "{said}");
    assert_eq!(proxy.requests() - requests, 1);
}

#[tokio::test]
async fn an_engine_that_stands_still_or_dies_is_met_again_when_it_is_back() {
    let mut server = DynamoServer::start(DynamoKeeps::OnDisk).await;
    let settings = rows_common::settings(server.endpoint());
    let connection = rows_common::connect(&server, &settings).await;
    bluetick_store_cloud::rows::dynamo::tables::create(&connection).await.unwrap();
    let hasty = DynamoSettings { deadline_ms: 2000, attempt_timeout_ms: 500, ..settings.clone() };
    let hasty = DynamoRows::open_on(rows_common::connect(&server, &hasty).await).await.unwrap();
    let rows = DynamoRows::open_on(connection).await.unwrap();
    let item = |text: &str| Item::new().text("content", text);
    let put = async |rows: &DynamoRows, text| {
        rows.put(Table::Messages, &cell("still", 1), &item(text), Only::IfAbsent).await
    };

    server.freeze();
    sentence(put(&hasty, "mine").await.unwrap_err());
    server.thaw();
    // The attempts that were given up may still arrive; whichever is first, it is the only one.
    let there = match put(&rows, "yours").await.unwrap() {
        Written::Done => item("yours"),
        Written::Refused(there) => there.unwrap(),
    };
    assert_eq!(rows.get(Table::Messages, &cell("still", 1)).await.unwrap(), Some(there.clone()));

    server.stop();
    sentence(hasty.get(Table::Messages, &cell("still", 1)).await.unwrap_err());
    server.start_again().await;
    assert_eq!(rows.get(Table::Messages, &cell("still", 1)).await.unwrap(), Some(there));
}
