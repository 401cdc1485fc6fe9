//! The conformance suite passes while a job archives each message as soon as it is in the tables.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bluetick_archive::{ArchiveSettings, ObjectArchive};
use bluetick_conformance::{Harness, NOW};
use bluetick_core::ports::{
    Archive, ArchiveError, ArchiveRun, CommitListener, NoListener, NoProgress, Store,
};
use bluetick_core::time::ManualClock;
use bluetick_store_embedded::{EmbeddedStore, StoreParts};
use common::{copy_of, direct, memory_archive, send, small, texts};
use tempfile::TempDir;
use tokio::task::JoinHandle;

struct Archived {
    store: Arc<EmbeddedStore>,
    object_archive: Arc<ObjectArchive>,
    archiving: JoinHandle<()>,
    directory: TempDir,
}

impl Archived {
    fn open(
        directory: TempDir,
        object_archive: Arc<ObjectArchive>,
        listener: Arc<dyn CommitListener>,
    ) -> Archived {
        let parts = StoreParts {
            listener: Some(listener),
            // The clock is a minute ahead, so that every message is old enough.
            clock: Arc::new(ManualClock::at(NOW.plus_millis(60_000))),
            object_archive: Some(Arc::clone(&object_archive)),
            archive: ArchiveSettings { age_seconds: 0, segment_messages: 1, ..ArchiveSettings::default() },
            ..StoreParts::new(small(directory.path()))
        };
        let store = Arc::new(EmbeddedStore::open(parts).unwrap());
        let archiving = tokio::spawn(archive_always(Arc::clone(&store)));
        Archived { store, object_archive, archiving, directory }
    }

    async fn stop_archiving(&mut self) {
        self.archiving.abort();
        let _ = (&mut self.archiving).await;
    }
}

/// Archives until the store closes. Fails on any other error.
async fn archive_always(store: Arc<EmbeddedStore>) {
    let run = ArchiveRun { only: None, partial: true };
    loop {
        match store.run(run.clone(), Arc::new(NoProgress)).await {
            Ok(_) => tokio::time::sleep(Duration::from_millis(1)).await,
            Err(ArchiveError::Stopped) => return,
            Err(error) => {
                eprintln!("a run failed: {error}");
                std::process::abort();
            }
        }
    }
}

/// Checks that the suite above archives its messages.
#[tokio::test(flavor = "multi_thread")]
async fn archiver_of_the_suite_archives_all_messages() {
    let (object_archive, _) = memory_archive();
    let archived = Archived::open(TempDir::new().unwrap(), object_archive, Arc::new(NoListener));
    let id = direct(&*archived.store, "alice", "bob").await;
    for number in 1..=10 {
        send(&*archived.store, id, "alice", &format!("text {number}")).await.unwrap();
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    while Archive::status(&*archived.store).await.unwrap().cold.messages < 10 {
        assert!(Instant::now() < deadline, "no message was archived");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(texts(&*archived.store, id, "bob").await.len(), 10);
    assert!(archived.store.counters().fetches > 0, "the page was read from the archive");
}

#[async_trait]
impl Harness for Archived {
    async fn start(listener: Arc<dyn CommitListener>) -> Archived {
        Archived::open(TempDir::new().unwrap(), memory_archive().0, listener)
    }

    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    async fn crash_and_restart(mut self, listener: Arc<dyn CommitListener>) -> Archived {
        self.stop_archiving().await;
        Archived::open(copy_of(self.directory.path()), Arc::clone(&self.object_archive), listener)
    }

    async fn close_and_reopen(mut self, listener: Arc<dyn CommitListener>) -> Archived {
        self.stop_archiving().await;
        self.store.close().await;
        let Archived { store, object_archive, directory, .. } = self;
        drop(store);
        Archived::open(directory, object_archive, listener)
    }
}

bluetick_conformance::suite!(Archived);
