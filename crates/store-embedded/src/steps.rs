//! Runs the store's work without its own threads. A simulation decides when each step runs; one
//! step ends before the next one starts.

use crate::commit::Committer;
use crate::open::Checkpointer;
use crate::sync::{PanicMutex, PanicMutexGuard};

pub struct Steps {
    committer: PanicMutex<Committer>,
    checkpointer: Checkpointer,
}

impl Steps {
    pub(crate) fn new(committer: Committer, checkpointer: Checkpointer) -> Steps {
        Steps { committer: PanicMutex::new(committer), checkpointer }
    }

    fn committer(&self) -> PanicMutexGuard<'_, Committer> {
        self.committer.lock()
    }

    /// Writes everything in the queue: sequenced, synced, made visible and answered. Where a thread
    /// would wait for a checkpoint, runs that first.
    pub fn commit(&self) {
        let mut committer = self.committer();
        if committer.waits_for_checkpoint() {
            self.checkpointer.step();
        }
        committer.step();
    }

    /// Writes the pending generation to the tables.
    pub fn checkpoint(&self) {
        self.checkpointer.step();
    }

    /// Does the work of closing: commits the queue and writes the last generation.
    pub(crate) fn finish(&self) {
        self.committer().step_to_the_end();
        self.checkpointer.step();
    }
}
