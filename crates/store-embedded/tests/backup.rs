//! Makes backups during writes, restores them elsewhere, and compares the content.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod full_store;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bluetick_archive::{ArchiveSettings, BackupDestination, BackupLocation};
use bluetick_core::ports::{Archive, ArchiveError, Backup, BackupReport, NoProgress, Store, SystemRandom};
use bluetick_core::time::{ManualClock, SystemClock};
use bluetick_store_embedded::backup::{MANIFEST, Manifest, RestoreError, RestoreParts, Restored, restore};
use bluetick_store_embedded::lock::DataLock;
use bluetick_store_embedded::{EmbeddedStore, OpenError, StoreParts};
use full_store::common::{NOW, direct, send, small, texts};
use full_store::{contents, fill, findings, open};
use tempfile::TempDir;

async fn back_up(store: &EmbeddedStore, to: &Path) -> Result<BackupReport, ArchiveError> {
    let backup = Backup { to: to.display().to_string(), keys: None };
    Archive::backup(store, backup, Arc::new(NoProgress)).await
}

async fn bring_back(from: &Path, data_dir: &Path) -> Result<Restored, RestoreError> {
    let place = BackupLocation::Directory(from.to_owned());
    let destination = BackupDestination::open(&place, &ArchiveSettings::default(), false).unwrap();
    let data_dir = data_dir.to_owned();
    let (clock, progress) = (Arc::new(SystemClock), Arc::new(NoProgress));
    let random = Arc::new(SystemRandom);
    restore(RestoreParts { destination, data_dir, segment_bytes: 4 << 20, clock, random, progress }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_store_has_the_same_content_and_a_new_epoch() {
    let place = TempDir::new().unwrap();
    let (live, to, back) =
        (place.path().join("live"), place.path().join("backup"), place.path().join("back"));
    std::fs::create_dir(&live).unwrap();
    std::fs::write(live.join("token.key"), "a secret").unwrap();
    let store = open(&live).unwrap();
    let all = fill(&store).await;
    let said = contents(&store, &all).await.unwrap();
    let report = back_up(&store, &to).await.unwrap();
    let messages = said.values().map(|said| said.len() as u64).sum::<u64>();
    assert_eq!((report.messages, report.conversations, report.accounts), (messages, all.len() as u64, 6));
    assert!(report.archived_messages > 0 && report.with_keys && report.damaged_rows == 0, "{report:?}");
    send(&store, all[0].0, "alice", "after the backup").await.unwrap();
    let epoch = store.epoch();
    store.close().await;
    drop(store);

    let restored = bring_back(&to, &back).await.unwrap();
    assert_eq!(restored.manifest.messages, messages);
    assert_eq!(std::fs::read_to_string(back.join("token.key")).unwrap(), "a secret");
    assert_eq!(findings(&back), [""; 0]);
    // A backup has no archive objects, so move them to the restored store.
    std::fs::rename(live.join("archive"), back.join("archive")).unwrap();
    let store = open(&back).unwrap();
    assert!(store.epoch().get() > epoch.get());
    assert_eq!(store.epoch(), restored.epoch);
    assert_eq!(contents(&store, &all).await.unwrap(), said);
    let next = said[&all[0].0.to_string()].len() as u64 + 1;
    assert_eq!(send(&store, all[0].0, "alice", "on another way").await.unwrap().get(), next);
    assert_eq!(store.find_people(&bluetick_core::NamePrefix::new("ali").unwrap(), 9).await.unwrap().len(), 1);
    store.close().await;
}

/// Resends are recognised, also those of messages that are only in the log of the backup.
#[tokio::test(flavor = "multi_thread")]
async fn backup_during_writes_is_consistent() {
    let place = TempDir::new().unwrap();
    let store = Arc::new(EmbeddedStore::open(StoreParts::new(small(&place.path().join("live")))).unwrap());
    let mut ids = Vec::new();
    for number in 0..8 {
        ids.push((direct(&*store, &format!("s{number}"), "hub").await, format!("s{number}")));
    }
    let (over, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let writers: Vec<_> = ids
        .iter()
        .cloned()
        .map(|(id, name)| {
            let (store, over, acknowledged) =
                (Arc::clone(&store), Arc::clone(&over), Arc::clone(&acknowledged));
            tokio::spawn(async move {
                let mut number = 0;
                while !over.load(Ordering::SeqCst) {
                    send(&*store, id, &name, &format!("{name} {number}")).await.unwrap();
                    number += 1;
                    acknowledged.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    let mut rounds = Vec::new();
    for round in 0..6 {
        while acknowledged.load(Ordering::SeqCst) < (round + 1) * 300 {
            tokio::task::yield_now().await;
        }
        let mut before = Vec::new();
        for (id, _) in &ids {
            before.push(texts(&*store, *id, "hub").await);
        }
        let to = place.path().join(format!("backup-{round}"));
        back_up(&store, &to).await.unwrap();
        rounds.push((to, before));
    }
    over.store(true, Ordering::SeqCst);
    for writer in writers {
        writer.await.unwrap();
    }
    for (to, before) in rounds {
        let back = to.with_extension("back");
        let restored = bring_back(&to, &back).await.unwrap();
        // The clock is within the dedupe window of these messages.
        let clock = Arc::new(ManualClock::at(NOW));
        let again = EmbeddedStore::open(StoreParts { clock, ..StoreParts::new(small(&back)) }).unwrap();
        let mut messages = 0;
        for ((id, name), before) in ids.iter().zip(before) {
            let now = texts(&again, *id, "hub").await;
            assert!(now.len() >= before.len() && now[..before.len()] == before[..], "{name} lost messages");
            let expected: Vec<String> = (0..now.len()).map(|number| format!("{name} {number}")).collect();
            assert_eq!(now, expected);
            // The resend of the last message is recognised, although it may be only in the log.
            let last = now.len() as u64;
            assert_eq!(send(&again, *id, name, &format!("{name} {}", last - 1)).await.unwrap().get(), last);
            messages += last;
        }
        assert_eq!(restored.manifest.messages, messages);
        again.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn destination_that_is_not_empty_or_not_separate_is_refused() {
    let place = TempDir::new().unwrap();
    let live = place.path().join("live");
    let store = open(&live).unwrap();
    send(&store, direct(&store, "alice", "bob").await, "alice", "hello").await.unwrap();
    let taken = place.path().join("taken");
    std::fs::create_dir(&taken).unwrap();
    std::fs::write(taken.join("mine"), "1").unwrap();
    for wrong in [taken.clone(), live.join("backup"), "relative".into(), "ftp://x/y".into()] {
        let refused = back_up(&store, &wrong).await;
        assert!(matches!(refused, Err(ArchiveError::Refused(_))), "{}: {refused:?}", wrong.display());
    }
    assert_eq!(std::fs::read_dir(&taken).unwrap().count(), 1);
    let to = place.path().join("to");
    let report = back_up(&store, &to).await.unwrap();
    assert!(!report.with_keys, "the store has no key files");
    assert!(
        matches!(back_up(&store, &to).await, Err(ArchiveError::Refused(_))),
        "an existing backup is not overwritten"
    );
    let refused = bring_back(&to, &taken).await;
    assert!(matches!(refused, Err(RestoreError::NotEmpty(_))), "{refused:?}");
    let refused = bring_back(&taken, &place.path().join("new")).await;
    assert!(matches!(refused, Err(RestoreError::NoBackup(_))), "{refused:?}");
    assert!(!place.path().join("new").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_backup_is_refused_and_names_the_part() {
    let place = TempDir::new().unwrap();
    let store = open(&place.path().join("live")).unwrap();
    fill(&store).await;
    let to = place.path().join("to");
    back_up(&store, &to).await.unwrap();
    let mut tried = 0;
    for entry in std::fs::read_dir(&to).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        let whole = std::fs::read(entry.path()).unwrap();
        let mut flipped = whole.clone();
        flipped[whole.len() / 2] ^= 4;
        for damaged in [flipped, whole[..whole.len() / 2].to_vec()] {
            std::fs::write(entry.path(), damaged).unwrap();
            let back = place.path().join(format!("back-{tried}"));
            let refused = bring_back(&to, &back).await.unwrap_err();
            assert!(refused.to_string().contains(&name), "{name}: {refused}");
            assert!(!back.exists(), "the failed restore left files");
            tried += 1;
        }
        std::fs::remove_file(entry.path()).unwrap();
        let refused = bring_back(&to, &place.path().join(format!("gone-{tried}"))).await.unwrap_err();
        assert!(refused.to_string().contains(&name), "{name}: {refused}");
        std::fs::write(entry.path(), whole).unwrap();
    }
    assert!(tried >= 4, "{tried}");
    bring_back(&to, &place.path().join("back")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_row_is_copied_unchanged_and_counted() {
    let place = TempDir::new().unwrap();
    let live = place.path().join("live");
    let store = open(&live).unwrap();
    let all = fill(&store).await;
    store.close().await;
    drop(store);
    {
        let tables = bluetick_store_embedded::tables::Tables::open(&live.join("tables")).unwrap();
        let engine = tables.writing().unwrap();
        let mut update = engine.update().unwrap();
        let key = bluetick_store_embedded::tables::ChunkKey {
            conversation: all[0].0,
            first: bluetick_core::Seq::FIRST,
        };
        let mut chunk = update.chunk(key).unwrap().unwrap().to_vec();
        *chunk.last_mut().unwrap() ^= 1;
        update.put_chunk(all[0].0, key.first, &chunk).unwrap();
        update.commit().unwrap();
    }
    let store = open(&live).unwrap();
    let to = place.path().join("to");
    assert_eq!(back_up(&store, &to).await.unwrap().damaged_rows, 1);
    let back = place.path().join("back");
    assert_eq!(bring_back(&to, &back).await.unwrap().manifest.damaged_rows, 1);
    assert!(findings(&back)[0].contains("checksum"));
}

/// Changes the manifest and writes it with a valid checksum.
fn rewrite(to: &Path, change: impl FnOnce(&mut Manifest)) {
    let file = to.join(MANIFEST);
    let mut manifest = Manifest::read(&std::fs::read(&file).unwrap()).unwrap();
    change(&mut manifest);
    std::fs::write(file, manifest.encode()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_restore_changes_nothing_and_killed_restore_is_reported() {
    let place = TempDir::new().unwrap();
    let store = open(&place.path().join("live")).unwrap();
    fill(&store).await;
    let (to, back) = (place.path().join("to"), place.path().join("back"));
    back_up(&store, &to).await.unwrap();
    rewrite(&to, |manifest| manifest.epoch = u64::MAX);
    let refused = bring_back(&to, &back).await;
    assert!(matches!(refused, Err(RestoreError::Manifest(_))), "{refused:?}");
    assert!(!back.exists());
    std::fs::create_dir(&back).unwrap();
    assert!(bring_back(&to, &back).await.is_err());
    assert_eq!(std::fs::read_dir(&back).unwrap().count(), 0);
    rewrite(&to, |manifest| manifest.epoch = 1);

    let lock = DataLock::acquire(&back).unwrap();
    let refused = bring_back(&to, &back).await;
    assert!(matches!(refused, Err(RestoreError::Lock { .. })), "{refused:?}");
    drop(lock);
    bring_back(&to, &back).await.unwrap();
    let killed = place.path().join("killed");
    std::fs::create_dir_all(killed.join("restoring")).unwrap();
    assert!(matches!(open(&killed), Err(OpenError::HalfRestored(_))));
    assert!(matches!(bring_back(&to, &killed).await, Err(RestoreError::Interrupted(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn backup_with_damage_other_than_declared_is_not_sound() {
    let place = TempDir::new().unwrap();
    let store = open(&place.path().join("live")).unwrap();
    fill(&store).await;
    let (to, back) = (place.path().join("to"), place.path().join("back"));
    back_up(&store, &to).await.unwrap();
    rewrite(&to, |manifest| manifest.damaged_rows = 1);
    let refused = bring_back(&to, &back).await;
    assert!(matches!(refused, Err(RestoreError::NotSound(_))), "{refused:?}");
    assert!(back.join("restoring").exists(), "the refused restore keeps its files");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_restores_in_the_same_second_have_different_epochs() {
    let place = TempDir::new().unwrap();
    let (live, to) = (place.path().join("live"), place.path().join("backup"));
    std::fs::create_dir(&live).unwrap();
    let store = open(&live).unwrap();
    direct(&store, "alice", "bob").await;
    back_up(&store, &to).await.unwrap();
    store.close().await;
    let mut epochs = std::collections::HashSet::new();
    for number in 0..3 {
        let clock = Arc::new(ManualClock::at(NOW));
        let destination = BackupDestination::open(
            &BackupLocation::Directory(to.clone()),
            &ArchiveSettings::default(),
            false,
        )
        .unwrap();
        let (data_dir, random) = (place.path().join(format!("back-{number}")), Arc::new(SystemRandom));
        let progress = Arc::new(NoProgress);
        let parts = RestoreParts { destination, data_dir, segment_bytes: 4 << 20, clock, random, progress };
        epochs.insert(restore(parts).await.unwrap().epoch);
    }
    assert_eq!(epochs.len(), 3, "{epochs:?}");
}
