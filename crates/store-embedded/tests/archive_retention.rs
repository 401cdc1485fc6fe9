//! Retention erases messages above the age limit, hot and archived, and no others.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod archive_kit;

use std::sync::Arc;

use archive_kit::common::{NOW, direct};
use archive_kit::{Kit, eager, history, numbered, send_many};
use bluetick_archive::ArchiveSettings;
use bluetick_core::ports::EraseScope;
use bluetick_core::time::ManualClock;
use bluetick_core::{ContentType, ConversationId, Timestamp};
use bluetick_store_embedded::archive::ArchiveStep;
use tempfile::TempDir;

fn day(number: i64) -> Timestamp {
    NOW.plus_millis(number * 24 * 3600 * 1000)
}

/// Settings that erase messages after ten days, and archive them after two days if enabled.
fn ten_days() -> ArchiveSettings {
    ArchiveSettings { age_seconds: 2 * 24 * 3600, retention_seconds: 10 * 24 * 3600, ..eager() }
}

async fn erased(kit: &Kit, id: ConversationId) -> Vec<u64> {
    let all = history(&*kit.store, id, "bob").await;
    let erased = all.iter().filter(|message| message.content_type == ContentType::Erased);
    erased.map(|message| message.seq.get()).collect()
}

async fn expires_by_day(kit: Kit) -> Kit {
    let id = direct(&*kit.store, "alice", "bob").await;
    for number in 0..4 {
        kit.clock.set(day(number * 4));
        send_many(&*kit.store, id, "alice", day(number * 4), numbered(&format!("day {number}"), 1..=64))
            .await;
        kit.run().await.unwrap();
        let gone = if number == 3 { 64 } else { 0 };
        assert_eq!(erased(&kit, id).await, (1..=gone).collect::<Vec<_>>());
    }
    for (now, gone) in [(14, 64), (15, 128), (17, 128), (19, 192), (19, 192), (30, 256)] {
        kit.clock.set(day(now));
        kit.run().await.unwrap();
        assert_eq!(erased(&kit, id).await, (1..=gone).collect::<Vec<_>>(), "day {now}");
    }
    kit
}

#[tokio::test(flavor = "multi_thread")]
async fn only_messages_older_than_the_retention_expire() {
    let (kit, objects) = Kit::in_memory(ten_days());
    expires_by_day(kit).await.assert_exact(&*objects).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_works_without_an_archive() {
    let clock = Arc::new(ManualClock::at(NOW));
    expires_by_day(Kit::open(TempDir::new().unwrap(), clock, None, ten_days())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn chunk_that_grew_after_expiry_expires_later() {
    let clock = Arc::new(ManualClock::at(NOW));
    let kit = Kit::open(TempDir::new().unwrap(), clock, None, ten_days());
    let id = direct(&*kit.store, "alice", "bob").await;
    send_many(&*kit.store, id, "alice", NOW, numbered("first", 1..=10)).await;
    kit.clock.set(day(11));
    kit.run().await.unwrap();
    assert_eq!(erased(&kit, id).await, (1..=10).collect::<Vec<_>>());
    send_many(&*kit.store, id, "alice", day(11), numbered("second", 1..=5)).await;
    kit.run().await.unwrap();
    assert_eq!(erased(&kit, id).await, (1..=10).collect::<Vec<_>>());
    kit.clock.set(day(22));
    kit.run().await.unwrap();
    assert_eq!(erased(&kit, id).await, (1..=15).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_received_before_a_fast_clock_expire() {
    let clock = Arc::new(ManualClock::at(NOW));
    let kit = Kit::open(TempDir::new().unwrap(), clock, None, ten_days());
    let id = direct(&*kit.store, "alice", "bob").await;
    // One checkpoint writes all messages, so all of them have the far date as their upper bound.
    send_many(&*kit.store, id, "alice", NOW, numbered("right", 1..=64)).await;
    send_many(&*kit.store, id, "alice", day(3_000), numbered("ahead", 1..=64)).await;
    kit.clock.set(day(11));
    kit.run().await.unwrap();
    assert_eq!(erased(&kit, id).await, (1..=64).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_does_not_replace_an_unfinished_erasure() {
    let (kit, objects) = Kit::in_memory(ten_days());
    let id = direct(&*kit.store, "alice", "bob").await;
    kit.clock.set(NOW);
    send_many(&*kit.store, id, "alice", NOW, numbered("old", 1..=64)).await;
    kit.run().await.unwrap();
    kit.clock.set(day(8));
    send_many(&*kit.store, id, "alice", day(8), numbered("mid", 1..=64)).await;
    send_many(&*kit.store, id, "bob", day(8), numbered("mid", 1..=10)).await;
    kit.run().await.unwrap();
    kit.clock.set(day(11));
    kit.run_only(id).await.unwrap();
    // The operator erases everything, and the process dies before the job reaches the archive.
    kit.brake.set(ArchiveStep::AfterFlip, 1);
    let _ = kit.erase(EraseScope::Conversation(id), None).await.unwrap_err();
    assert!(kit.brake.release());
    let kit = kit.crash();
    kit.run().await.unwrap();
    assert_eq!(erased(&kit, id).await, (1..=138).collect::<Vec<_>>());
    kit.assert_exact(&*objects).await;
}
