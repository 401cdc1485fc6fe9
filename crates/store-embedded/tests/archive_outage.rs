//! Object stores that hang, are full or lose objects; a disabled archive; many readers at once.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod archive_kit;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use archive_kit::common::{direct, send, texts};
use archive_kit::faulty::{Faulty, Trouble};
use archive_kit::{Kit, eager, history, lost_places, numbered, page};
use bluetick_archive::ArchiveSettings;
use bluetick_core::ports::{Archive, ArchiveError, EraseScope, Store};
use bluetick_core::{ConversationId, PageFrom, Seq, StoreError};
use tokio::task::JoinSet;

/// Creates a conversation in which the seqs 1 to 128 are archived and 129 to 150 are hot.
async fn half_cold(cache_bytes: u64) -> (Kit, Arc<Faulty>, ConversationId) {
    let faulty = Faulty::new();
    let kit = Kit::over(Arc::clone(&faulty) as _, ArchiveSettings { cache_bytes, ..eager() });
    let id = direct(&*kit.store, "alice", "bob").await;
    kit.send_many(id, "alice", numbered("old", 1..=128)).await;
    kit.run().await.unwrap();
    assert_eq!(kit.cold_messages().await, 128);
    archive_kit::send_many(&*kit.store, id, "bob", archive_kit::LATER, numbered("new", 1..=22)).await;
    (kit, faulty, id)
}

/// Creates another conversation with 40 old messages.
async fn more_to_move(kit: &Kit) -> ConversationId {
    let id = direct(&*kit.store, "alice", "dave").await;
    kit.send_many(id, "alice", numbered("elsewhere", 1..=40)).await;
    id
}

fn seqs(page: &bluetick_core::Page) -> Vec<u64> {
    page.messages.iter().map(|message| message.seq.get()).collect()
}

async fn assert_pages_end_at_cold_messages(kit: &Kit, id: ConversationId) {
    let store = &*kit.store;
    let newest = page(store, id, "bob", PageFrom::Newest, 50).await.unwrap();
    assert_eq!(seqs(&newest), (129..=150).rev().collect::<Vec<_>>());
    assert_eq!(
        (newest.next_before, newest.next_after, newest.head),
        (Some(Seq::new(129)), None, Seq::new(150))
    );
    let before = page(store, id, "bob", PageFrom::Before(Seq::new(131)), 50).await.unwrap();
    assert_eq!(seqs(&before), [130, 129]);
    assert_eq!((before.next_before, before.next_after), (Some(Seq::new(129)), Some(Seq::new(130))));
    let after = page(store, id, "bob", PageFrom::After(Seq::new(128)), 100).await.unwrap();
    assert_eq!(seqs(&after), (129..=150).collect::<Vec<_>>());
    assert_eq!((after.next_before, after.next_after), (Some(Seq::new(129)), None));
    for from in [PageFrom::Before(Seq::new(129)), PageFrom::After(Seq::new(100)), PageFrom::After(Seq::ZERO)]
    {
        let refused = page(store, id, "bob", from, 50).await;
        assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{from:?} {refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hot_reads_work_and_pages_end_at_cold_messages_during_an_outage() {
    let (kit, faulty, id) = half_cold(0).await;
    faulty.set(Trouble::Down);
    assert_pages_end_at_cold_messages(&kit, id).await;
    more_to_move(&kit).await;
    let outcome = kit.run().await;
    assert!(matches!(outcome, Err(ArchiveError::Unavailable(_))), "{outcome:?}");
    let counters = kit.store.counters();
    assert!(counters.paused.is_some_and(|why| why.contains("connection refused")));
    assert_eq!((counters.runs, counters.failed_runs), (2, 1));
    assert!(matches!(kit.restore(id).await, Err(ArchiveError::Unavailable(_))));
    let line = kit.store.inbox_entry(id, &"bob".parse().unwrap()).await.unwrap();
    assert_eq!(&*line.last_message.unwrap().preview, "new 22");
    faulty.set(Trouble::None);
    kit.run_only(id).await.unwrap();
    assert_eq!(kit.run().await.unwrap().moved.messages, 40);
    assert_eq!(kit.store.counters().paused, None);
    assert_eq!(texts(&*kit.store, id, "bob").await.len(), 150);
    kit.assert_exact(&*faulty.inner).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sends_and_hot_reads_do_not_wait_for_a_hanging_object_store() {
    let (kit, faulty, id) = half_cold(0).await;
    more_to_move(&kit).await;
    let kit = Arc::new(kit);
    faulty.set(Trouble::Hanging);
    let running = tokio::spawn({
        let kit = Arc::clone(&kit);
        async move { kit.run().await }
    });
    let reading = tokio::spawn({
        let kit = Arc::clone(&kit);
        async move { page(&*kit.store, id, "bob", PageFrom::After(Seq::ZERO), 10).await }
    });
    let (started, mut longest) = (Instant::now(), Duration::ZERO);
    let mut sent = 0;
    while !running.is_finished() || !reading.is_finished() {
        let one = Instant::now();
        sent += 1;
        send(&*kit.store, id, "bob", &format!("live {sent}")).await.unwrap();
        let newest = page(&*kit.store, id, "alice", PageFrom::Newest, 5).await.unwrap();
        assert_eq!(&*newest.messages[0].content, format!("live {sent}"));
        longest = longest.max(one.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!(
        "hung for {:?}; {sent} sends and reads meanwhile, the longest took {longest:?}",
        started.elapsed()
    );
    assert!(sent > 20);
    assert!(matches!(running.await.unwrap(), Err(ArchiveError::Unavailable(_))));
    assert!(matches!(reading.await.unwrap(), Err(StoreError::Unavailable(_))));
    faulty.set(Trouble::None);
    kit.run().await.unwrap();
    assert_eq!(lost_places(&history(&*kit.store, id, "bob").await), Vec::<u64>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn run_moves_nothing_to_a_full_or_faulty_object_store() {
    for trouble in [Trouble::Full, Trouble::Forgetful, Trouble::Truncating] {
        let (kit, faulty, id) = half_cold(1 << 20).await;
        let other = more_to_move(&kit).await;
        let before = [history(&*kit.store, id, "bob").await, history(&*kit.store, other, "dave").await];
        faulty.set(trouble);
        let outcome = kit.run_only(other).await;
        assert!(matches!(outcome, Err(ArchiveError::Unavailable(_))), "{trouble:?} {outcome:?}");
        assert_eq!(kit.cold_messages().await, 128, "{trouble:?}");
        let after = [history(&*kit.store, id, "bob").await, history(&*kit.store, other, "dave").await];
        assert_eq!(after, before, "{trouble:?}");
        faulty.set(Trouble::None);
        kit.run_only(other).await.unwrap();
        assert_eq!(kit.cold_messages().await, 168, "{trouble:?}");
        let after = [history(&*kit.store, id, "bob").await, history(&*kit.store, other, "dave").await];
        assert_eq!(after, before, "{trouble:?}");
        kit.assert_exact(&*faulty.inner).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn outage_after_any_request_loses_no_message() {
    for requests in 0..14 {
        let faulty = Faulty::new();
        let kit = Kit::over(Arc::clone(&faulty) as _, eager());
        let id = direct(&*kit.store, "alice", "bob").await;
        kit.send_many(id, "alice", numbered("old", 1..=300)).await;
        let before = history(&*kit.store, id, "bob").await;
        faulty.set(Trouble::DownAfter(requests));
        let outcomes = [kit.run().await.err(), kit.restore(id).await.err()];
        let scope = EraseScope::Conversation(id);
        let erased = kit.erase(scope, Some(70)).await.err();
        assert!(
            outcomes
                .iter()
                .flatten()
                .chain(&erased)
                .all(|error| matches!(error, ArchiveError::Unavailable(_))),
            "{outcomes:?} {erased:?}"
        );
        faulty.set(Trouble::None);
        kit.run_only(id).await.unwrap();
        kit.run().await.unwrap();
        let after = history(&*kit.store, id, "bob").await;
        assert_eq!(after[70..], before[70..], "{requests}");
        assert!(after[..70].iter().all(|message| message.content.is_empty()), "{requests}");
        // A chunk whose content was erased before the move is not archived.
        let cold = kit.cold_messages().await;
        assert!(cold == 300 || cold == 300 - 64, "{requests}: {cold}");
        kit.assert_exact(&*faulty.inner).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn erasure_during_an_outage_erases_hot_content_and_finishes_later() {
    let (kit, faulty, id) = half_cold(0).await;
    faulty.set(Trouble::Down);
    let outcome = kit.erase(EraseScope::Conversation(id), None).await;
    assert!(matches!(outcome, Err(ArchiveError::Unavailable(_))), "{outcome:?}");
    let newest = page(&*kit.store, id, "alice", PageFrom::Newest, 20).await.unwrap();
    assert!(newest.messages.iter().all(|message| message.content.is_empty()));
    faulty.set(Trouble::None);
    // A repeated request finishes the erasure.
    kit.erase(EraseScope::Conversation(id), None).await.unwrap();
    assert!(history(&*kit.store, id, "bob").await.iter().all(|message| message.content.is_empty()));
    kit.assert_exact(&*faulty.inner).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn disabled_archive_refuses_cold_reads_and_hot_operations_work() {
    let (kit, faulty, id) = half_cold(1 << 20).await;
    let (object_archive, settings) = (kit.object_archive.clone(), kit.settings.clone());
    let kit = kit.reopen(None, ArchiveSettings::default()).await;
    assert_pages_end_at_cold_messages(&kit, id).await;
    let refused = page(&*kit.store, id, "bob", PageFrom::After(Seq::ZERO), 10).await.unwrap_err();
    assert!(refused.to_string().contains("archive.engine"), "{refused}");
    assert!(matches!(kit.run().await, Err(ArchiveError::Off)));
    assert!(matches!(kit.restore(id).await, Err(ArchiveError::Off)));
    let other = direct(&*kit.store, "bob", "carol").await;
    send(&*kit.store, other, "bob", "hello").await.unwrap();
    kit.erase(EraseScope::Conversation(other), None).await.unwrap();
    assert_eq!(send(&*kit.store, id, "alice", "again").await.unwrap(), Seq::new(151));
    let status = kit.store.status().await.unwrap();
    assert_eq!((status.place.as_str(), status.cold.messages), ("", 128));
    let kit = kit.reopen(object_archive, settings).await;
    assert_eq!(texts(&*kit.store, id, "bob").await.len(), 151);
    kit.run().await.unwrap();
    kit.assert_exact(&*faulty.inner).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hundred_readers_of_one_cold_page_cause_one_fetch() {
    let (kit, faulty, id) = half_cold(1 << 20).await;
    faulty.get_takes_ms.store(200, Ordering::SeqCst);
    let before = faulty.get_count();
    let mut readers = JoinSet::new();
    for _ in 0..100 {
        let store = Arc::clone(&kit.store);
        readers.spawn(async move { page(&*store, id, "bob", PageFrom::After(Seq::ZERO), 50).await.unwrap() });
    }
    for page in readers.join_all().await {
        assert_eq!(&*page.messages[49].content, "old 50");
    }
    assert_eq!(faulty.get_count() - before, 1);
    let counters = kit.store.counters();
    assert_eq!((counters.fetches, counters.frame_reads, counters.frame_reads_from_memory), (1, 100, 99));
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_a_whole_history_does_not_exceed_the_cache() {
    let faulty = Faulty::new();
    let kit = Kit::over(Arc::clone(&faulty) as _, ArchiveSettings { cache_bytes: 200 << 10, ..eager() });
    let id = direct(&*kit.store, "alice", "bob").await;
    let long = |number| format!("{number} {}", "y".repeat(10_000));
    kit.send_many(id, "alice", (1..=200).map(long)).await;
    kit.run().await.unwrap();
    for _ in 0..2 {
        history(&*kit.store, id, "bob").await;
    }
    let counters = kit.store.counters();
    // Two megabytes do not fit into the cache, so the second pass fetches most blocks again.
    assert!(counters.fetches > 25, "{counters:?}");
}
