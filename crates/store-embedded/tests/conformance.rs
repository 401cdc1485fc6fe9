//! The embedded store passes the suite that every store passes.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod common;

use std::sync::Arc;

use async_trait::async_trait;
use bluetick_conformance::{Harness, NOW};
use bluetick_core::ports::{CommitListener, Store};
use bluetick_core::time::ManualClock;
use bluetick_store_embedded::{EmbeddedStore, StoreParts};
use common::{copy_of, small};
use tempfile::TempDir;

struct Embedded {
    store: Arc<EmbeddedStore>,
    directory: TempDir,
}

impl Embedded {
    fn open(directory: TempDir, listener: Arc<dyn CommitListener>) -> Embedded {
        let clock = Arc::new(ManualClock::at(NOW));
        let parts =
            StoreParts { listener: Some(listener), clock, ..StoreParts::new(small(directory.path())) };
        Embedded { store: Arc::new(EmbeddedStore::open(parts).unwrap()), directory }
    }
}

#[async_trait]
impl Harness for Embedded {
    async fn start(listener: Arc<dyn CommitListener>) -> Embedded {
        Embedded::open(TempDir::new().unwrap(), listener)
    }

    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    /// What lies on the disk at this moment, without a word to the store, is what a killed process leaves.
    async fn crash_and_restart(self, listener: Arc<dyn CommitListener>) -> Embedded {
        Embedded::open(copy_of(self.directory.path()), listener)
    }

    async fn close_and_reopen(self, listener: Arc<dyn CommitListener>) -> Embedded {
        self.store.close().await;
        let Embedded { store, directory } = self;
        drop(store);
        Embedded::open(directory, listener)
    }
}

bluetick_conformance::suite!(Embedded);
