//! Disks that are full, fail, or return wrong bytes. Writes are refused, reads continue, and no
//! damaged data is served.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod common;

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bluetick_core::StoreError;
use bluetick_core::ports::{Health, Store};
use bluetick_store_embedded::disk::{Disk, Faults};
use bluetick_store_embedded::{EmbeddedStore, OpenError, StoreParts};
use common::{copy_of, direct, send, small, texts};
use tempfile::TempDir;

async fn until_writable(store: &dyn Store) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while store.health() != Health::Writable {
        assert!(Instant::now() < deadline, "the store did not recover");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_disk_refuses_sends_and_store_recovers_without_restart() {
    for sync_only in [false, true] {
        let directory = TempDir::new().unwrap();
        let faults = Arc::new(Faults::default());
        let disk = Disk::with_faults(Arc::clone(&faults));
        let parts = StoreParts { disk, ..StoreParts::new(small(directory.path())) };
        let store = EmbeddedStore::open(parts).unwrap();
        let id = direct(&store, "alice", "bob").await;
        send(&store, id, "alice", "one").await.unwrap();

        let switch = if sync_only { &faults.sync_fails } else { &faults.full };
        switch.store(true, Ordering::SeqCst);
        let refused = send(&store, id, "alice", "two").await;
        assert!(matches!(refused, Err(StoreError::ReadOnly(_) | StoreError::Failed(_))), "{refused:?}");
        assert!(matches!(store.health(), Health::ReadOnly(_)));
        assert!(matches!(send(&store, id, "bob", "three").await, Err(StoreError::ReadOnly(_))));
        assert_eq!(texts(&store, id, "bob").await, ["one"], "reads still work");

        switch.store(false, Ordering::SeqCst);
        until_writable(&store).await;
        assert_eq!(send(&store, id, "alice", "two").await.unwrap().get(), 2, "the failed write used no seq");
        assert_eq!(send(&store, id, "bob", "three").await.unwrap().get(), 3);
        let image = copy_of(directory.path());
        let reopened = EmbeddedStore::open(StoreParts::new(small(image.path()))).unwrap();
        assert_eq!(texts(&reopened, id, "bob").await, ["one", "two", "three"]);
    }
}

/// A mounted file system, unmounted when dropped.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn mount(mebibytes: u32) -> SmallDisk {
        let point = TempDir::new().unwrap();
        let options = format!("size={mebibytes}m");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(point.path()).status();
        assert!(
            mounted.is_ok_and(|status| status.success()),
            "this test fills a small file system and needs the right to mount one: run it as root, or in `unshare -rm`"
        );
        SmallDisk(point)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn full_disk_refuses_sends_until_there_is_space() {
    let disk = SmallDisk::mount(48);
    let store = EmbeddedStore::open(StoreParts::new(small(disk.path()))).unwrap();
    let id = direct(&store, "alice", "bob").await;
    send(&store, id, "alice", "first").await.unwrap();
    // Incompressible, so that the tables need as much space as the log.
    let mut state = 88_172_645_463_325_252_u64;
    let mut noise = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let ballast = disk.path().join("ballast");
    std::fs::write(&ballast, vec![1; 8 << 20]).unwrap();

    let mut acknowledged = 1;
    let refused = loop {
        let content: String = (0..2000).map(|_| format!("{:016x}", noise())).collect();
        let text = format!("m{acknowledged}");
        let outcome = common::send_as(&store, id, "alice", &text, &content).await;
        match outcome {
            Ok(_) => acknowledged += 1,
            Err(error) => break error,
        }
        assert!(acknowledged < 10_000, "the disk never got full");
    };
    assert!(matches!(refused, StoreError::ReadOnly(_)), "{refused:?}");
    assert!(matches!(store.health(), Health::ReadOnly(_)));
    assert_eq!(texts(&store, id, "bob").await.len(), acknowledged, "reads return all acknowledged messages");

    std::fs::remove_file(&ballast).unwrap();
    until_writable(&store).await;
    send(&store, id, "bob", "space again").await.unwrap();
    assert_eq!(texts(&store, id, "bob").await.len(), acknowledged + 1);
    store.close().await;
    drop(store);
    let reopened = EmbeddedStore::open(StoreParts::new(small(disk.path()))).unwrap();
    assert_eq!(texts(&reopened, id, "bob").await.len(), acknowledged + 1);
    drop(reopened);
}

#[tokio::test(flavor = "multi_thread")]
async fn flipped_bit_in_tables_is_an_error() {
    let directory = TempDir::new().unwrap();
    let store = EmbeddedStore::open(StoreParts::new(small(directory.path()))).unwrap();
    let id = direct(&store, "alice", "bob").await;
    for number in 0..40 {
        send(&store, id, "alice", &format!("message-number-{number}")).await.unwrap();
    }
    store.close().await;
    drop(store);
    let path = directory.path().join("tables/data.mdb");
    let bytes = std::fs::read(&path).unwrap();
    // Finds the body of every copy of the chunk by the magic number of zstd.
    let magic = 0xFD2F_B528_u32.to_le_bytes();
    let places: Vec<_> =
        bytes.windows(4).enumerate().filter(|(_, four)| *four == magic).map(|(at, _)| at).collect();
    assert!(!places.is_empty());
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    for at in places {
        file.write_all_at(&[bytes[at + 20] ^ 1], at as u64 + 20).unwrap();
    }
    let store = EmbeddedStore::open(StoreParts::new(small(directory.path()))).unwrap();
    let request = bluetick_core::PageRequest {
        conversation: id,
        reader: common::user("bob"),
        from: bluetick_core::PageFrom::Newest,
        limit: bluetick_core::PageLimit::DEFAULT,
    };
    assert!(matches!(store.page(request).await, Err(StoreError::Damaged(_))));

    // The damage affects only its chunk: other conversations and later messages reach the tables.
    let other = direct(&store, "carol", "dave").await;
    send(&store, other, "carol", "hello").await.unwrap();
    assert_eq!(send(&store, id, "alice", "behind the damage").await.unwrap().get(), 41);
    store.close().await;
    drop(store);
    let tables = bluetick_store_embedded::tables::Tables::open(&directory.path().join("tables")).unwrap();
    let tables = tables.current().unwrap();
    let snapshot = tables.snapshot().unwrap();
    assert_eq!(snapshot.conversation(other).unwrap().unwrap().conversation.head.get(), 1);
    assert_eq!(snapshot.conversation(id).unwrap().unwrap().conversation.head.get(), 41);
}

#[tokio::test(flavor = "multi_thread")]
async fn truncated_tables_are_refused_at_start() {
    let directory = TempDir::new().unwrap();
    let store = EmbeddedStore::open(StoreParts::new(small(directory.path()))).unwrap();
    let id = direct(&store, "alice", "bob").await;
    for number in 0..200 {
        send(&store, id, "alice", &format!("m{number}")).await.unwrap();
    }
    store.close().await;
    drop(store);
    let path = directory.path().join("tables/data.mdb");
    let length = path.metadata().unwrap().len();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length / 2).unwrap();
    let refused = EmbeddedStore::open(StoreParts::new(small(directory.path())));
    assert!(matches!(refused, Err(OpenError::Tables(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn log_without_tables_is_refused_and_unchanged() {
    let directory = TempDir::new().unwrap();
    let store = EmbeddedStore::open(StoreParts::new(small(directory.path()))).unwrap();
    let id = direct(&store, "alice", "bob").await;
    send(&store, id, "alice", "hey").await.unwrap();
    let image = copy_of(directory.path());
    std::fs::remove_dir_all(image.path().join("tables")).unwrap();
    let refused = EmbeddedStore::open(StoreParts::new(small(image.path())));
    assert!(matches!(refused, Err(OpenError::LogWithoutTables(_))));
    assert!(image.path().join("log/00000000000000000001.log").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn directory_in_use_is_refused_and_names_the_holder() {
    let directory = TempDir::new().unwrap();
    let store = EmbeddedStore::open(StoreParts::new(small(directory.path()))).unwrap();
    store.announce("127.0.0.1:8080").unwrap();
    let refused = EmbeddedStore::open(StoreParts::new(small(directory.path()))).err().unwrap().to_string();
    assert!(refused.contains("in use by process"), "{refused}");
    assert!(refused.contains("127.0.0.1:8080"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_log_is_refused_at_start() {
    let directory = TempDir::new().unwrap();
    let store = EmbeddedStore::open(StoreParts::new(small(directory.path()))).unwrap();
    let id = direct(&store, "alice", "bob").await;
    send(&store, id, "alice", "hey").await.unwrap();
    let image = copy_of(directory.path());
    std::fs::remove_dir_all(image.path().join("log")).unwrap();
    let refused = EmbeddedStore::open(StoreParts::new(small(image.path())));
    assert!(matches!(refused, Err(OpenError::TablesWithoutLog(_))));
}
