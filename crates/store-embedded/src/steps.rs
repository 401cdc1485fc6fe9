//! The store's work without threads of its own: a simulation decides when each step is taken, and takes the next one only
//! when it is over.

use std::sync::{Mutex, MutexGuard};

use crate::commit::Committer;
use crate::open::Checkpointer;

pub struct Steps {
    committer: Mutex<Committer>,
    checkpointer: Checkpointer,
}

impl Steps {
    pub(crate) fn new(committer: Committer, checkpointer: Checkpointer) -> Steps {
        Steps { committer: Mutex::new(committer), checkpointer }
    }

    fn committer(&self) -> MutexGuard<'_, Committer> {
        self.committer.lock().expect("a step that panics ends the run")
    }

    /// Everything that waits becomes a batch: written, synced, shown and answered. Where a thread would wait for a
    /// checkpoint, that comes first.
    pub fn commit(&self) {
        let mut committer = self.committer();
        if committer.waits_for_checkpoint() {
            self.checkpointer.step();
        }
        committer.step();
    }

    /// What was handed over becomes tables.
    pub fn checkpoint(&self) {
        self.checkpointer.step();
    }

    /// As closing does it.
    pub(crate) fn finish(&self) {
        self.committer().step_to_the_end();
        self.checkpointer.step();
    }
}
