//! Settings that name another archive location than the one with the segments. No message counts as
//! lost, nothing is put there, and correct settings restore access.

#![expect(clippy::unwrap_used, reason = "a test stops where its own set-up fails")]

mod archive_kit;

use std::path::Path;
use std::sync::Arc;

use archive_kit::common::{direct, texts};
use archive_kit::{Kit, LATER, eager, history, lost_places, numbered, page};
use bluetick_archive::{ArchiveEngine, ArchiveSettings, ObjectArchive};
use bluetick_core::ports::{Archive, ArchiveError, EraseScope, NoProgress};
use bluetick_core::time::ManualClock;
use bluetick_core::{ConversationId, PageFrom, Seq, StoreError};
use futures_util::TryStreamExt;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use tempfile::TempDir;

const SENTENCE: &str = "does not hold this store's archive";

/// The error of a job about the archive location.
fn wrong_place<T: std::fmt::Debug>(outcome: Result<T, ArchiveError>) -> String {
    match outcome {
        Err(ArchiveError::Unavailable(why)) if why.to_string().contains(SENTENCE) => why,
        other => panic!("{other:?}"),
    }
}

async fn half_cold(kit: &Kit) -> ConversationId {
    let id = direct(&*kit.store, "alice", "bob").await;
    kit.send_many(id, "alice", numbered("old", 1..=128)).await;
    kit.run().await.unwrap();
    kit.send_now(id, "alice", "new").await;
    assert_eq!(kit.cold_messages().await, 128);
    id
}

async fn assert_all_jobs_refuse(kit: &Kit, id: ConversationId) {
    let refused = page(&*kit.store, id, "bob", PageFrom::After(Seq::ZERO), 10).await;
    assert!(
        matches!(&refused, Err(StoreError::Unavailable(why)) if why.to_string().contains(SENTENCE)),
        "{refused:?}"
    );
    let newest = page(&*kit.store, id, "bob", PageFrom::Newest, 10).await.unwrap();
    assert_eq!((newest.messages.len(), newest.next_before), (1, Some(Seq::new(129))));

    let other = direct(&*kit.store, "carol", "dave").await;
    kit.send_many(other, "carol", numbered("also old", 1..=40)).await;
    let why = wrong_place(kit.run().await);
    assert!(kit.store.counters().paused.unwrap().contains(&why));
    wrong_place(kit.run_only(other).await);
    wrong_place(kit.store.verify(Arc::new(NoProgress)).await);
    wrong_place(kit.restore(id).await);
    wrong_place(kit.restore_all().await);
    wrong_place(kit.erase(EraseScope::Conversation(id), Some(70)).await);
    // This erasure leaves no content in the segment, but it must delete the object at its location.
    wrong_place(kit.erase(EraseScope::Conversation(id), Some(128)).await);
    let status = kit.store.status().await.unwrap();
    assert_eq!((status.cold.messages, status.kept_hot, status.unfinished_erasures), (128, 0, 1));
    assert_eq!(kit.store.counters().damaged_frames, 0);
}

async fn assert_recovered(kit: &Kit, id: ConversationId) {
    let before = page(&*kit.store, id, "bob", PageFrom::After(Seq::ZERO), 100).await.unwrap().messages;
    assert_eq!((&*before[99].content, lost_places(&before)), ("old 100", Vec::new()));
    assert_eq!(kit.run().await.unwrap().erased_messages, 128, "by the delayed erasure");
    assert_eq!(kit.store.counters().paused, None);
    assert_eq!(kit.cold_messages().await, 40, "the messages of the other conversation");
    let all = history(&*kit.store, id, "bob").await;
    assert!(all[..128].iter().all(|message| message.content.is_empty()));
    assert_eq!(&*all[128].content, "new");
    assert_eq!(kit.problems().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_bucket_or_prefix_reports_the_location_and_loses_nothing() {
    for prefix in ["test", "another"] {
        let (kit, objects) = Kit::in_memory(eager());
        let id = half_cold(&kit).await;
        let right = kit.object_archive.clone();
        // Another prefix in the same bucket, or the same prefix in another bucket.
        let elsewhere = if prefix == "test" { Arc::new(InMemory::new()) } else { Arc::clone(&objects) };
        let wrong = ObjectArchive::over(Arc::clone(&elsewhere) as _, prefix, 1 << 20);
        let kit = kit.reopen(Some(Arc::new(wrong)), eager()).await;
        assert_all_jobs_refuse(&kit, id).await;
        let put: Vec<_> = elsewhere.list(None).try_collect().await.unwrap();
        assert_eq!(put.len(), if prefix == "test" { 0 } else { 2 }, "{put:?}");
        let kit = kit.reopen(right, eager()).await;
        assert_recovered(&kit, id).await;
        kit.assert_exact(&*objects).await;
    }
}

fn in_directory(directory: &Path) -> (Arc<ObjectArchive>, ArchiveSettings) {
    let settings = ArchiveSettings {
        engine: ArchiveEngine::Directory,
        directory: Some(directory.to_owned()),
        ..eager()
    };
    (Arc::new(ObjectArchive::open(&settings, Path::new("/nowhere")).unwrap().unwrap()), settings)
}

#[tokio::test(flavor = "multi_thread")]
async fn unmounted_archive_directory_reports_the_location_and_loses_nothing() {
    let disk = TempDir::new().unwrap();
    let (mounted, away) = (disk.path().join("cold"), disk.path().join("away"));
    let clock = Arc::new(ManualClock::at(LATER));
    let (object_archive, settings) = in_directory(&mounted);
    let kit = Kit::open(
        TempDir::new().unwrap(),
        clock,
        Some(object_archive),
        ArchiveSettings { cache_bytes: 0, ..settings },
    );
    let id = half_cold(&kit).await;

    // The volume is unmounted while the server runs, which leaves an empty directory.
    std::fs::rename(&mounted, &away).unwrap();
    std::fs::create_dir(&mounted).unwrap();
    assert_all_jobs_refuse(&kit, id).await;
    assert_eq!(std::fs::read_dir(&mounted).unwrap().count(), 0);

    // A server that starts creates a missing directory, which must not hide the wrong location.
    std::fs::remove_dir(&mounted).unwrap();
    let (object_archive, settings) = in_directory(&mounted);
    let kit = kit.reopen(Some(object_archive), settings).await;
    assert!(kit.store.counters().paused.unwrap().contains(SENTENCE), "also after a restart");
    wrong_place(kit.run().await);
    assert_eq!(std::fs::read_dir(&mounted).unwrap().count(), 0);

    std::fs::remove_dir(&mounted).unwrap();
    std::fs::rename(&away, &mounted).unwrap();
    assert_recovered(&kit, id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn store_without_cold_messages_accepts_a_new_location() {
    let (kit, _) = Kit::in_memory(eager());
    let id = half_cold(&kit).await;
    kit.restore_all().await.unwrap();
    let elsewhere = Arc::new(InMemory::new());
    let other = ObjectArchive::over(Arc::clone(&elsewhere) as _, "other", 1 << 20);
    let kit = kit.reopen(Some(Arc::new(other)), eager()).await;
    kit.run_only(id).await.unwrap();
    assert_eq!(kit.cold_messages().await, 128);
    assert_eq!(texts(&*kit.store, id, "bob").await.len(), 129);
    kit.assert_exact(&*elsewhere).await;
}
