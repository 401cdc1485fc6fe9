//! The age of a message comes from `received_at`, not from the sender or a wrong clock.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod archive_kit;

use std::sync::Arc;
use std::time::Duration;

use archive_kit::common::{NOW, direct, message};
use archive_kit::{Kit, LATER, eager, history, numbered, paths, send_many};
use bluetick_archive::ArchiveSettings;
use bluetick_core::ports::{Append, Archive, ArchiveError, Store};
use bluetick_core::time::Clock;
use bluetick_core::{ConversationId, Timestamp};

const DAY_MS: i64 = 24 * 3600 * 1000;

/// Sends messages, and waits until they are in the tables.
async fn settled(kit: &Kit, id: ConversationId, at: Timestamp, texts: Vec<String>) {
    send_many(&*kit.store, id, "alice", at, texts).await;
    let now = kit.clock.now();
    kit.clock.set(Timestamp::from_millis(0));
    kit.run().await.unwrap();
    kit.clock.set(now);
}

#[tokio::test(flavor = "multi_thread")]
async fn client_timestamp_does_not_affect_the_age() {
    let (kit, _) = Kit::in_memory(eager());
    let id = direct(&*kit.store, "alice", "bob").await;
    let in_2019 = Timestamp::from_millis(1_550_000_000_000);
    let append =
        Append { timestamp: in_2019, received_at: LATER, ..message(id, "alice", "from an old phone") };
    kit.store.append(append).await.unwrap().await.unwrap();
    kit.run().await.unwrap();
    assert_eq!(kit.cold_messages().await, 0);
    kit.clock.advance_millis(2 * 3600 * 1000);
    kit.run().await.unwrap();
    assert_eq!(kit.cold_messages().await, 1);
    assert_eq!(history(&*kit.store, id, "bob").await[0].timestamp, in_2019);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_received_with_a_fast_clock_are_archived_later() {
    let (kit, objects) = Kit::in_memory(eager());
    let id = direct(&*kit.store, "alice", "bob").await;
    let ahead = NOW.plus_millis(4_000 * DAY_MS);
    settled(&kit, id, NOW, numbered("right", 1..=64)).await;
    settled(&kit, id, ahead, numbered("ahead", 1..=64)).await;
    let before = history(&*kit.store, id, "bob").await;
    kit.run().await.unwrap();
    assert_eq!(kit.cold_messages().await, 64, "the age of the other messages is unknown");
    settled(&kit, id, LATER, numbered("young", 1..=64)).await;
    kit.run().await.unwrap();
    assert_eq!(kit.cold_messages().await, 64, "the other messages may be young");
    kit.clock.advance_millis(DAY_MS);
    kit.run().await.unwrap();
    assert_eq!(kit.cold_messages().await, 192, "the other messages precede old ones");
    assert_eq!(history(&*kit.store, id, "bob").await[..128], before[..]);
    kit.assert_exact(&*objects).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_received_with_a_slow_clock_are_not_archived_early() {
    let (kit, _) = Kit::in_memory(eager());
    let id = direct(&*kit.store, "alice", "bob").await;
    settled(&kit, id, LATER, numbered("young", 1..=64)).await;
    // The clock is a year slow for a while.
    let back = NOW.plus_millis(-365 * DAY_MS);
    kit.clock.set(back);
    settled(&kit, id, back, numbered("back", 1..=64)).await;
    kit.run().await.unwrap();
    assert_eq!(kit.cold_messages().await, 0);
    kit.clock.set(LATER);
    kit.run().await.unwrap();
    assert_eq!(kit.cold_messages().await, 0, "these messages follow young ones");
    kit.clock.advance_millis(DAY_MS);
    kit.run().await.unwrap();
    assert_eq!(kit.cold_messages().await, 128);
}

#[tokio::test(flavor = "multi_thread")]
async fn partial_segment_is_archived_after_patience_seconds() {
    let settings = ArchiveSettings { patience_seconds: 5 * 24 * 3600, ..eager() };
    let (kit, objects) = Kit::in_memory(settings);
    let id = direct(&*kit.store, "alice", "bob").await;
    settled(&kit, id, NOW, numbered("old", 1..=300)).await;
    kit.run_whole_segments().await.unwrap();
    assert_eq!((kit.cold_messages().await, paths(&*objects).await.len()), (256, 2), "of two chunks each");
    kit.clock.set(NOW.plus_millis(5 * DAY_MS + 3_599_000));
    kit.run_whole_segments().await.unwrap();
    assert_eq!(kit.cold_messages().await, 256);
    kit.clock.set(NOW.plus_millis(5 * DAY_MS + 3_601_000));
    kit.run_whole_segments().await.unwrap();
    assert_eq!((kit.cold_messages().await, paths(&*objects).await.len()), (300, 3));
    kit.assert_exact(&*objects).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_messages_close_a_segment_early() {
    let settings = ArchiveSettings { segment_messages: 100_000, ..eager() };
    let (kit, objects) = Kit::in_memory(settings);
    let id = direct(&*kit.store, "alice", "bob").await;
    let long = |number| format!("{number} {}", "z".repeat(60_000));
    kit.send_many(id, "alice", (1..=300).map(long)).await;
    kit.run().await.unwrap();
    // The texts have 18 MB, and a segment takes at most 8 MiB.
    assert_eq!((kit.cold_messages().await, paths(&*objects).await.len()), (300, 3));
    assert_eq!(history(&*kit.store, id, "bob").await.len(), 300);
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_conversation_stays_hot_until_a_run_names_it() {
    let (kit, objects) = Kit::in_memory(eager());
    let id = direct(&*kit.store, "alice", "bob").await;
    let other = direct(&*kit.store, "alice", "carol").await;
    kit.send_many(id, "alice", numbered("old", 1..=150)).await;
    kit.send_many(other, "alice", numbered("old", 1..=10)).await;
    kit.run().await.unwrap();
    let report = kit.restore(id).await.unwrap();
    assert_eq!((report.segments, report.messages), (2, 150));
    for _ in 0..2 {
        kit.run().await.unwrap();
        kit.run_only(other).await.unwrap();
        assert_eq!(kit.cold_messages().await, 10);
    }
    let kit = kit.crash();
    kit.run().await.unwrap();
    assert_eq!((kit.cold_messages().await, kit.store.status().await.unwrap().kept_hot), (10, 1));
    kit.run_only(id).await.unwrap();
    assert_eq!((kit.cold_messages().await, kit.store.status().await.unwrap().kept_hot), (160, 0));
    kit.assert_exact(&*objects).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn close_stops_a_rate_limited_run() {
    let settings = ArchiveSettings { messages_per_second: 1, segment_messages: 64, ..eager() };
    let (kit, _) = Kit::in_memory(settings);
    let id = direct(&*kit.store, "alice", "bob").await;
    kit.send_many(id, "alice", numbered("old", 1..=640)).await;
    let kit = Arc::new(kit);
    let running = tokio::spawn({
        let kit = Arc::clone(&kit);
        async move { kit.run().await }
    });
    while kit.store.counters().moved_segments == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    kit.store.close().await;
    // At one message per second, 640 messages take ten minutes.
    let ended = tokio::time::timeout(Duration::from_secs(60), running).await.expect("it ends with the store");
    assert!(matches!(ended.unwrap(), Err(ArchiveError::Stopped)));
}
