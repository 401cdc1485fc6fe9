//! Side effects of archive jobs: jobs save more than they cost, never block readers, and keep
//! objects that are in use.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod archive_kit;

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use archive_kit::common::{NOW, copy_of, direct, send_as, user};
use archive_kit::faulty::{Faulty, Trouble};
use archive_kit::*;
use bluetick_archive::{ArchiveEngine, ArchiveSettings, ObjectArchive};
use bluetick_core::Seq;
use bluetick_core::ports::{EraseScope, Position, Store};
use bluetick_core::time::{Clock, ManualClock};

const HOUR_MS: i64 = 3_600_000;
const HOUR: u64 = 3_600;

fn tables(kit: &Kit) -> PathBuf {
    kit.directory.path().join("tables/data.mdb")
}

/// Inode of the table file. A compaction changes it.
fn file_number(kit: &Kit) -> u64 {
    std::fs::metadata(tables(kit)).unwrap().ino()
}

fn retaining(seconds: u64) -> ArchiveSettings {
    ArchiveSettings { retention_seconds: seconds, ..eager() }
}

fn of_user(name: &str) -> EraseScope {
    EraseScope::User { user: user(name), conversation: None }
}

#[tokio::test(flavor = "multi_thread")]
async fn compacted_tables_keep_their_private_mode() {
    let (kit, _objects) = Kit::in_memory(eager());
    let id = direct(&*kit.store, "alice", "bob").await;
    kit.send_many(id, "alice", numbered("secret", 1..=300)).await;
    kit.run().await.unwrap();
    let before = file_number(&kit);
    kit.erase(EraseScope::Conversation(id), None).await.unwrap();
    assert_ne!(before, file_number(&kit), "the table file was rewritten");
    assert_eq!(std::fs::metadata(tables(&kit)).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test(flavor = "multi_thread")]
async fn small_expiry_does_not_compact_the_tables() {
    let (kit, _objects) =
        Kit::in_memory(ArchiveSettings { age_seconds: 1_000 * HOUR, ..retaining(48 * HOUR) });
    let large = direct(&*kit.store, "carol", "dave").await;
    let texts = (0..4_000).map(|number| format!("{number} {}", "x".repeat(500)));
    send_many(&*kit.store, large, "carol", kit.clock.now(), texts).await;
    let id = direct(&*kit.store, "alice", "bob").await;
    for turn in 0..6 {
        let at = NOW.plus_millis(turn * HOUR_MS);
        send_many(&*kit.store, id, "alice", at, numbered(&format!("turn {turn} number"), 1..=64)).await;
        kit.run().await.unwrap();
    }
    let (before, mut erased) = (file_number(&kit), 0);
    for turn in 0..6 {
        kit.clock.set(NOW.plus_millis((48 + turn) * HOUR_MS + 60_000));
        erased += kit.run().await.unwrap().erased_messages;
    }
    assert_eq!((erased, file_number(&kit)), (6 * 64, before));
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_segment_is_deleted_without_rewrites() {
    let objects = Faulty::new();
    let settings =
        ArchiveSettings { age_seconds: 100 * HOUR, segment_messages: 1_000, ..retaining(1_000 * HOUR) };
    let kit = Kit::over(Arc::clone(&objects) as _, settings);
    let id = direct(&*kit.store, "alice", "bob").await;
    for turn in 0..16 {
        let at = NOW.plus_millis(turn * HOUR_MS);
        send_many(&*kit.store, id, "alice", at, numbered(&format!("turn{turn}"), 1..=64)).await;
        // The run makes a chunk of these messages.
        kit.run_whole_segments().await.unwrap();
    }
    kit.clock.set(NOW.plus_millis(500 * HOUR_MS));
    kit.run().await.unwrap();
    let puts = objects.puts.load(Ordering::SeqCst);
    for turn in 0..17 {
        kit.clock.set(NOW.plus_millis((1_000 + turn) * HOUR_MS + 60_000));
        kit.run().await.unwrap();
    }
    assert_eq!(objects.puts.load(Ordering::SeqCst), puts, "the segment is deleted, not rewritten");
    assert_eq!(kit.cold_messages().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_reaches_old_messages_of_a_quiet_conversation() {
    const DAY_MS: i64 = 24 * HOUR_MS;
    let (kit, _objects) =
        Kit::in_memory(ArchiveSettings { age_seconds: 90 * 24 * HOUR, ..retaining(30 * 24 * HOUR) });
    let id = direct(&*kit.store, "alice", "bob").await;
    for turn in 0..28 {
        kit.clock.set(NOW.plus_millis(turn * 20 * DAY_MS));
        kit.send_now(id, "alice", &format!("words {turn}")).await;
        kit.run().await.unwrap();
    }
    let readable = history(&*kit.store, id, "bob").await;
    let readable: Vec<&str> =
        readable.iter().map(|message| &*message.content).filter(|content| !content.is_empty()).collect();
    assert_eq!(readable, ["words 26", "words 27"], "the others are older than 30 days");
}

#[tokio::test(flavor = "multi_thread")]
async fn stale_rows_do_not_sweep_rewritten_objects() {
    let (kit, objects) = Kit::in_memory(eager());
    let id = direct(&*kit.store, "alice", "bob").await;
    kit.send_many(id, "alice", numbered("a", 1..=50)).await;
    kit.send_many(id, "bob", numbered("b", 1..=50)).await;
    kit.run().await.unwrap();
    let backup = copy_of(kit.directory.path());
    kit.erase(of_user("alice"), None).await.unwrap();
    kit.store.close().await;
    let rewritten = paths(&*objects).await;
    let Kit { store, clock, object_archive, settings, .. } = kit;
    drop(store);
    let kit = Kit::open(backup, clock, object_archive, settings);
    kit.run().await.unwrap();
    assert_eq!(paths(&*objects).await, rewritten, "the segment contains only bob's messages");
}

#[tokio::test(flavor = "multi_thread")]
async fn erasure_removes_hot_content_while_the_object_store_is_down() {
    let objects = Faulty::new();
    let kit = Kit::over(Arc::clone(&objects) as _, ArchiveSettings { age_seconds: 1_000_000, ..eager() });
    let mut left = 0;
    let mut ids = Vec::new();
    for number in 0..5 {
        let reader = format!("reader{number}");
        let id = direct(&*kit.store, "alice", &reader).await;
        send_many(&*kit.store, id, "alice", NOW, numbered("secret", 1..=3)).await;
        ids.push((id, reader));
    }
    objects.set(Trouble::Down);
    let _refused = kit.erase(of_user("alice"), None).await;
    for (id, reader) in &ids {
        let all = history(&*kit.store, *id, reader).await;
        left += all.iter().filter(|message| message.content.contains("secret")).count();
    }
    assert_eq!(left, 0, "none of these messages was archived");
}

/// Readers hold locks that the swap of the tables needs. A compaction completes regardless of how
/// long they hold them.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn compaction_swaps_the_tables_under_continuous_readers() {
    let (kit, _objects) = Kit::in_memory(ArchiveSettings { age_seconds: 1_000_000, ..eager() });
    let mut ids = Vec::new();
    for number in 0..100 {
        let id = group(&*kit.store, number, "alice", &["bob"]).await;
        send_many(&*kit.store, id, "alice", NOW, numbered("x", 1..=3)).await;
        ids.push(id);
    }
    kit.run().await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..8_usize)
        .map(|task| {
            let (store, ids, stop) = (Arc::clone(&kit.store), ids.clone(), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut number = task * 37;
                while !stop.load(Ordering::Relaxed) {
                    number += 31;
                    if task < 4 {
                        let position = |id: &_| Position { conversation: *id, seq: Seq::new(2) };
                        store.behind(&user("bob"), ids.iter().map(position).collect()).await.unwrap();
                    } else {
                        store.inbox_entry(ids[number % ids.len()], &user("bob")).await.unwrap();
                    }
                }
            })
        })
        .collect();
    for round in 0..3 {
        // A checkpoint evicts conversations, and the readers load them again.
        for id in &ids[..20] {
            send_many(&*kit.store, *id, "alice", NOW, [format!("round {round}")]).await;
        }
        let before = file_number(&kit);
        kit.erase(EraseScope::Conversation(ids[0]), None).await.unwrap();
        assert_ne!(before, file_number(&kit), "round {round}");
    }
    stop.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn erased_text_is_in_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let settings = ArchiveSettings { engine: ArchiveEngine::Directory, ..eager() };
    let object_archive = ObjectArchive::open(&settings, directory.path()).unwrap().unwrap();
    let kit =
        Kit::open(directory, Arc::new(ManualClock::at(LATER)), Some(Arc::new(object_archive)), settings);
    let id = direct(&*kit.store, "alice", "bob").await;
    // Message ids are not content, so an erasure keeps them.
    send_as(&*kit.store, id, "alice", "m1", "zebrafish one").await.unwrap();
    send_as(&*kit.store, id, "alice", "m2", "zebrafish two").await.unwrap();
    kit.run_only(id).await.unwrap();
    send_as(&*kit.store, id, "alice", "m3", "zebrafish three").await.unwrap();
    send_as(&*kit.store, id, "bob", "m4", "hummingbird").await.unwrap();
    assert!(files_with("zebrafish", kit.directory.path()) > 0, "the text is stored in plain form");
    kit.erase(of_user("alice"), None).await.unwrap();
    kit.run().await.unwrap();
    let all = history(&*kit.store, id, "alice").await;
    assert_eq!(&*all[3].content, "hummingbird");
    kit.store.close().await;
    assert_eq!(files_with("zebrafish", kit.directory.path()), 0);
}

fn files_with(text: &str, directory: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(directory).unwrap().flatten();
    entries
        .map(|entry| match entry.path().is_dir() {
            true => files_with(text, &entry.path()),
            false => {
                let bytes = std::fs::read(entry.path()).unwrap();
                usize::from(bytes.windows(text.len()).any(|window| window == text.as_bytes()))
            }
        })
        .sum()
}
