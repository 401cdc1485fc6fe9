//! Reading a conversation that lies in several partitions.
#![expect(clippy::unwrap_used, reason = "a test stops where its own set-up fails")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bluetick_core::{ConversationId, Seq};
use bluetick_store_cloud::hot::{Keeper, Layout, Reader, Registry};
use bluetick_store_cloud::rows::memory::MemoryRows;
use bluetick_store_cloud::rows::{Item, Key, Only, Query, Rows, RowsError, Scanned, Slice, Table, Written};
use tokio::sync::Barrier;
use tokio::time::timeout;

/// Notes what is asked; on demand, no query is answered before so many have been asked.
#[derive(Default)]
struct Watched {
    inner: MemoryRows,
    gets: AtomicUsize,
    queries: Mutex<Vec<String>>,
    together: Mutex<Option<Arc<Barrier>>>,
}

#[async_trait]
impl Rows for Watched {
    async fn get(&self, table: Table, key: &Key) -> Result<Option<Item>, RowsError> {
        self.gets.fetch_add(1, Ordering::SeqCst);
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
        self.queries.lock().unwrap().push(query.partition.clone());
        let together = self.together.lock().unwrap().clone();
        if let Some(together) = together {
            together.wait().await;
        }
        self.inner.query(query).await
    }
}

struct Room {
    id: ConversationId,
    rows: Arc<Watched>,
    keeper: Arc<Keeper>,
    reader: Reader,
}

impl Room {
    fn on(rows: &Arc<Watched>) -> Room {
        let keeper = Arc::new(Keeper::new(Arc::clone(rows) as Arc<dyn Rows>, Layout::CHOSEN));
        let reader = Reader::new(Arc::clone(rows) as Arc<dyn Rows>, Arc::clone(&keeper));
        Room { id: ConversationId::group([7; 15]), rows: Arc::clone(rows), keeper, reader }
    }

    /// Somebody else, who knows nothing yet.
    fn stranger(&self) -> Room {
        Room::on(&self.rows)
    }

    async fn write(&self, seqs: impl IntoIterator<Item = u64>) {
        for seq in seqs.into_iter().map(Seq::new) {
            let key = self.keeper.key(self.id, seq).await.unwrap();
            let item = Item::new().text("text", seq.to_string());
            assert_eq!(
                self.rows.put(Table::Messages, &key, &item, Only::IfAbsent).await.unwrap(),
                Written::Done
            );
        }
    }

    async fn range(&self, first: u64, last: u64) -> Vec<u64> {
        let found = self.reader.range(self.id, (Seq::new(first), Seq::new(last)), &[]).await.unwrap();
        seqs(found)
    }

    async fn newest(&self, limit: usize) -> Vec<u64> {
        seqs(self.reader.newest(self.id, Seq::FIRST, limit, &[]).await.unwrap())
    }

    /// Queries by partition, and reads of the registry, since the last time.
    fn asked(&self) -> (Vec<String>, usize) {
        let id = self.id.to_string();
        let mut queries = std::mem::take(&mut *self.rows.queries.lock().unwrap());
        queries.iter_mut().for_each(|query| *query = query.replace(&id, ""));
        queries.sort();
        (queries, self.rows.gets.swap(0, Ordering::SeqCst))
    }
}

fn seqs(found: BTreeMap<Seq, Item>) -> Vec<u64> {
    for (seq, item) in &found {
        assert_eq!(**item.find_text("text").unwrap(), *seq.to_string(), "what stands there belongs there");
    }
    found.into_keys().map(Seq::get).collect()
}

fn all(first: u64, last: u64) -> Vec<u64> {
    (first..=last).collect()
}

/// 1 partition up to 1,024, then 2, from 2,753 on 5; the newest is 6,000.
async fn hot() -> Room {
    let room = Room::on(&Arc::default());
    room.write(1..=1_024).await;
    room.keeper.ask_for(room.id, Some(2));
    room.write(1_025..=2_600).await;
    room.keeper.ask_for(room.id, Some(5));
    room.write(2_601..=6_000).await;
    let epochs: Vec<_> = room
        .keeper
        .at_hand(room.id)
        .epochs()
        .iter()
        .map(|epoch| (epoch.from.get(), epoch.partitions))
        .collect();
    assert_eq!(epochs, [(1_025, 2), (2_753, 5)]);
    room.asked();
    room
}

#[tokio::test]
async fn a_conversation_that_was_never_hot_costs_one_query_and_no_look_at_the_registry() {
    let room = Room::on(&Arc::default());
    room.write(1..=900).await;
    let stranger = room.stranger();
    room.asked();
    assert_eq!(stranger.newest(20).await, all(881, 900));
    assert_eq!(stranger.asked(), (vec![String::new()], 0));
    assert_eq!(stranger.range(500, 519).await, all(500, 519));
    assert_eq!(stranger.asked(), (vec![String::new()], 0));
}

#[tokio::test]
async fn a_long_conversation_that_was_never_hot_costs_no_more() {
    let room = Room::on(&Arc::default());
    room.write(1..=3_000).await;
    let stranger = room.stranger();
    room.asked();
    assert_eq!(stranger.newest(20).await, all(2_981, 3_000));
    assert_eq!(stranger.range(2_900, 2_919).await, all(2_900, 2_919));
    assert_eq!(stranger.asked(), (vec![String::new(); 2], 0));
}

#[tokio::test]
async fn pages_are_whole_over_every_border() {
    let room = hot().await;
    for first in [1, 15, 1_010, 1_020, 1_080, 2_080, 2_735, 2_745, 2_752, 2_753, 4_000, 5_981] {
        assert_eq!(room.range(first, first + 19).await, all(first, first + 19));
        let (queries, gets) = room.asked();
        assert!(queries.len() <= 2 && gets == 0, "{queries:?}");
    }
    assert_eq!(room.range(1, 6_000).await, all(1, 6_000));
    let mut queries = room.asked().0;
    queries.dedup();
    assert_eq!(queries, ["", "#0", "#1", "#2", "#3", "#4"]);
}

#[tokio::test]
async fn who_knows_only_an_old_version_sees_what_is_missing_and_looks_again() {
    let room = hot().await;
    for first in [1, 1_010, 1_020, 2_060, 2_735, 2_745, 4_000, 5_981] {
        let frozen = room.stranger();
        assert_eq!(frozen.range(first, first + 19).await, all(first, first + 19));
        assert_eq!(frozen.newest(20).await, all(5_981, 6_000));
    }
    let before = Registry::adopted(&Layout::CHOSEN, Seq::ZERO);
    for old in [before.clone(), before.extended(&Layout::CHOSEN, Seq::new(1_536), 2)] {
        let frozen = room.stranger();
        frozen.keeper.heard(room.id, old);
        assert_eq!(frozen.newest(20).await, all(5_981, 6_000));
    }
}

#[tokio::test]
async fn a_hole_is_left_out_and_what_lies_above_it_is_not() {
    let room = Room::on(&Arc::default());
    room.keeper.ask_for(room.id, Some(3));
    room.write((1..=2_000).filter(|seq| ![1_500, 1_501, 1_999].contains(seq))).await;
    let stranger = room.stranger();
    let mut expected = all(1_490, 1_509);
    expected.retain(|seq| ![1_500, 1_501].contains(seq));
    assert_eq!(stranger.range(1_490, 1_509).await, expected);
    assert_eq!(stranger.newest(3).await, [1_997, 1_998, 2_000]);
}

#[tokio::test]
async fn the_newest_may_still_lie_below_the_newest_epoch() {
    let room = Room::on(&Arc::default());
    room.write(1..=1_024).await;
    room.keeper.ask_for(room.id, Some(4));
    room.keeper.go_ahead(room.id, Seq::new(1_000)).await.unwrap();
    assert_eq!(room.keeper.at_hand(room.id).epochs().len(), 1);
    assert_eq!(room.stranger().newest(5).await, all(1_020, 1_024));
    room.write(1_025..=1_026).await;
    assert_eq!(room.stranger().newest(5).await, all(1_022, 1_026));
}

#[tokio::test]
async fn a_conversation_that_has_cooled_down_is_written_to_one_partition_again() {
    let room = hot().await;
    room.keeper.ask_for(room.id, Some(1));
    room.write(6_001..=9_000).await;
    let stranger = room.stranger();
    assert_eq!(stranger.newest(20).await, all(8_981, 9_000));
    stranger.asked();
    assert_eq!(stranger.range(8_500, 8_519).await, all(8_500, 8_519));
    assert_eq!(stranger.asked(), (vec![String::new()], 0));
}

#[tokio::test]
async fn all_partitions_are_asked_at_the_same_time() {
    let room = hot().await;
    *room.rows.together.lock().unwrap() = Some(Arc::new(Barrier::new(5)));
    let page = timeout(Duration::from_secs(10), room.range(3_000, 3_319)).await;
    assert_eq!(page.expect("one waits for another"), all(3_000, 3_319));
}

#[tokio::test]
async fn a_registry_that_has_gone_back_is_refused() {
    let room = hot().await;
    let old = Registry::adopted(&Layout::CHOSEN, Seq::ZERO);
    room.rows.put(Table::HotRegistry, &Key::new(room.id), &old.item(), Only::Always).await.unwrap();
    assert!(room.keeper.fresh(room.id).await.is_err());
}

#[tokio::test]
async fn messages_that_were_brought_in_without_a_row_stay_where_they_are() {
    let room = Room::on(&Arc::default());
    for seq in 1..=3_000 {
        let item = Item::new().text("text", seq.to_string());
        room.rows.put(Table::Messages, &Key::number(room.id, seq), &item, Only::Always).await.unwrap();
    }
    room.keeper.ask_for(room.id, Some(4));
    room.write(3_001..=4_000).await;
    assert_eq!(room.stranger().range(2_900, 3_900).await, all(2_900, 3_900));
    assert_eq!(room.keeper.at_hand(room.id).epochs()[0].from, Seq::new(3_009));
}
