//! Leaving the archive: a full restore makes all messages hot. Messages that could not be restored
//! stay archived.

#![expect(clippy::unwrap_used, reason = "a test stops where its own set-up fails")]

mod archive_kit;

use std::sync::{Arc, Mutex};

use archive_kit::common::{direct, texts};
use archive_kit::faulty::{Faulty, Trouble};
use archive_kit::{Kit, LATER, eager, history, numbered, paths};
use bluetick_archive::ArchiveSettings;
use bluetick_core::ConversationId;
use bluetick_core::ports::{Archive, ArchiveError, Progress, Stage};
use object_store::ObjectStoreExt;

/// Creates three conversations with two segments each, in an object store with injectable faults.
async fn all_cold() -> (Kit, Arc<Faulty>, Vec<ConversationId>) {
    let faulty = Faulty::new();
    let kit = Kit::over(Arc::clone(&faulty) as _, eager());
    let mut ids = Vec::new();
    for name in ["bob", "carol", "dave"] {
        let id = direct(&*kit.store, "alice", name).await;
        kit.send_many(id, "alice", numbered("old", 1..=150)).await;
        ids.push(id);
    }
    kit.run().await.unwrap();
    assert_eq!(kit.cold_messages().await, 450);
    (kit, faulty, ids)
}

async fn kept_hot(kit: &Kit) -> u64 {
    kit.store.status().await.unwrap().kept_hot
}

#[derive(Default)]
struct RecordedProgress(Mutex<Vec<(Stage, u64, u64)>>);

impl Progress for RecordedProgress {
    fn advanced(&self, stage: Stage, done: u64, total: u64) {
        self.0.lock().unwrap().push((stage, done, total));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn full_restore_makes_the_archive_unnecessary() {
    let (kit, faulty, ids) = all_cold().await;
    let mut before = Vec::new();
    for id in &ids {
        before.push(history(&*kit.store, *id, "alice").await);
    }
    let told = Arc::new(RecordedProgress::default());
    let report = kit.store.restore(None, Arc::clone(&told) as _).await.unwrap();
    assert_eq!((report.segments, report.messages), (6, 450));
    let expected: Vec<_> = (1..=6).map(|done| (Stage::Restoring, done, 6)).collect();
    assert_eq!(*told.0.lock().unwrap(), expected);
    assert_eq!((kit.cold_messages().await, kept_hot(&kit).await), (0, 3));
    assert_eq!(paths(&*faulty.inner).await, []);

    kit.run().await.unwrap();
    assert_eq!(kit.cold_messages().await, 0, "no run archives the restored messages again");
    assert_eq!(kit.restore_all().await.unwrap().segments, 0, "a second time");
    let kit = kit.reopen(None, ArchiveSettings::default()).await;
    for (id, before) in ids.iter().zip(before) {
        assert_eq!(history(&*kit.store, *id, "alice").await, before);
    }
    assert!(matches!(kit.restore_all().await, Err(ArchiveError::Off)));
}

#[tokio::test(flavor = "multi_thread")]
async fn full_restore_skips_a_damaged_segment() {
    let (kit, faulty, _) = all_cold().await;
    let names = paths(&*faulty.inner).await;
    faulty.inner.put(&names[2], "nonsense".into()).await.unwrap();
    let outcome = kit.restore_all().await;
    assert!(matches!(outcome, Err(ArchiveError::Damaged(_))), "{outcome:?}");
    assert_eq!(paths(&*faulty.inner).await, [names[2].clone()]);
    assert_eq!(kept_hot(&kit).await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_restore_does_not_keep_the_conversation_hot() {
    let (kit, faulty, ids) = all_cold().await;
    faulty.set(Trouble::Down);
    assert!(matches!(kit.restore(ids[0]).await, Err(ArchiveError::Unavailable(_))));
    assert!(matches!(kit.restore_all().await, Err(ArchiveError::Unavailable(_))));
    assert_eq!(kept_hot(&kit).await, 0);
    // The conversation is archived again once it has more messages.
    faulty.set(Trouble::None);
    kit.send_many(ids[0], "alice", numbered("later", 1..=20)).await;
    kit.run().await.unwrap();
    assert_eq!(kit.cold_messages().await, 470);

    // The object store fails after two reads: the marker and the first segment. One segment is
    // restored.
    faulty.set(Trouble::DownAfter(2));
    assert!(matches!(kit.restore(ids[0]).await, Err(ArchiveError::Unavailable(_))));
    faulty.set(Trouble::None);
    assert_eq!(kept_hot(&kit).await, 1);
    kit.run().await.unwrap();
    assert!(kit.cold_messages().await < 470, "restored messages stay in the hot store");
    assert_eq!(texts(&*kit.store, ids[0], "alice").await.len(), 170);

    // A conversation that is kept hot stays so after a failed restore.
    faulty.set(Trouble::Down);
    assert!(kit.restore(ids[0]).await.is_err());
    assert_eq!(kept_hot(&kit).await, 1);
    faulty.set(Trouble::None);
    kit.restore(ids[0]).await.unwrap();
    kit.assert_exact(&*faulty.inner).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn last_run_and_pause_reason_survive_a_restart() {
    let (kit, faulty, ids) = all_cold().await;
    let (object_archive, settings) = (kit.object_archive.clone(), kit.settings.clone());
    let kit = kit.crash();
    let counters = kit.store.counters();
    assert_eq!((counters.last_run_at, counters.paused), (Some(LATER), None));

    faulty.set(Trouble::Down);
    let later = LATER.plus_millis(5_000);
    kit.clock.set(later);
    assert!(kit.run().await.is_err());
    let kit = kit.reopen(object_archive.clone(), settings.clone()).await;
    let counters = kit.store.counters();
    assert_eq!(counters.last_run_at, Some(later));
    assert!(counters.paused.is_some_and(|why| why.contains("connection refused")));

    // A run for an unknown conversation does not count as a run.
    let nobody = ConversationId::group([9; 15]);
    assert!(matches!(kit.run_only(nobody).await, Err(ArchiveError::NoSuchConversation)));
    assert_eq!(kit.store.counters().failed_runs, 0);

    let kit = kit.reopen(None, ArchiveSettings::default()).await;
    assert!(matches!(kit.run().await, Err(ArchiveError::Off)));
    let counters = kit.store.counters();
    assert_eq!(
        (counters.last_run_at, counters.paused),
        (Some(later), None),
        "a store without an archive is not paused"
    );

    faulty.set(Trouble::None);
    let kit = kit.reopen(object_archive, settings).await;
    kit.run_only(ids[0]).await.unwrap();
    assert_eq!(kit.crash().store.counters().paused, None);
}
