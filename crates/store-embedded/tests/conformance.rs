//! Runs the conformance suite on the embedded store.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod common;

use std::sync::Arc;

use async_trait::async_trait;
use bluetick_conformance::{Harness, NOW};
use bluetick_core::Timestamp;
use bluetick_core::ports::{CommitListener, Store};
use bluetick_core::time::ManualClock;
use bluetick_store_embedded::{EmbeddedStore, StoreParts};
use common::{copy_of, small};
use tempfile::TempDir;

struct Embedded {
    store: Arc<EmbeddedStore>,
    clock: Arc<ManualClock>,
    directory: TempDir,
}

impl Embedded {
    fn open(directory: TempDir, clock: Arc<ManualClock>, listener: Arc<dyn CommitListener>) -> Embedded {
        let parts = StoreParts {
            listener: Some(listener),
            clock: Arc::clone(&clock) as _,
            ..StoreParts::new(small(directory.path()))
        };
        Embedded { store: Arc::new(EmbeddedStore::open(parts).unwrap()), clock, directory }
    }
}

#[async_trait]
impl Harness for Embedded {
    async fn start(listener: Arc<dyn CommitListener>) -> Embedded {
        Embedded::open(TempDir::new().unwrap(), Arc::new(ManualClock::at(NOW)), listener)
    }

    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    /// Opens a copy of the current files, as after a kill.
    async fn crash_and_restart(self, listener: Arc<dyn CommitListener>) -> Embedded {
        Embedded::open(copy_of(self.directory.path()), self.clock, listener)
    }

    async fn close_and_reopen(self, listener: Arc<dyn CommitListener>) -> Embedded {
        self.store.close().await;
        let Embedded { store, clock, directory } = self;
        drop(store);
        Embedded::open(directory, clock, listener)
    }

    fn set_clock(&self, now: Timestamp) -> bool {
        self.clock.set(now);
        true
    }
}

bluetick_conformance::suite!(Embedded);
