//! Runs the conformance suite on the reference store.

use std::sync::Arc;

use async_trait::async_trait;
use bluetick_conformance::Harness;
use bluetick_core::Timestamp;
use bluetick_core::ports::{CommitListener, Store};

use crate::MemoryStore;

struct Memory(Arc<MemoryStore>);

#[async_trait]
impl Harness for Memory {
    async fn start(listener: Arc<dyn CommitListener>) -> Memory {
        Memory(Arc::new(MemoryStore::with_listener(listener)))
    }

    fn store(&self) -> Arc<dyn Store> {
        self.0.clone()
    }

    async fn crash_and_restart(self, _: Arc<dyn CommitListener>) -> Memory {
        self
    }

    async fn close_and_reopen(self, _: Arc<dyn CommitListener>) -> Memory {
        self
    }

    /// The memory store has no clock and remembers every id.
    fn set_clock(&self, _now: Timestamp) -> bool {
        true
    }
}

bluetick_conformance::suite!(Memory);
