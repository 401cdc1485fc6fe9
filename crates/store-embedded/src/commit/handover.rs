//! Passing generations from the committer to the checkpoint thread, one at a time.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::log::BatchNumber;
use crate::memory::Generation;

/// Invariant: the slot is full from the moment a generation is handed over until it is wholly in the tables.
#[derive(Default)]
pub struct Handover {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    slot: Slot,
    done: BatchNumber,
    /// Why the last attempt failed; it is tried again.
    failing: Option<String>,
    closed: bool,
    /// When a checkpoint that is still being written has to stop.
    stop_at: Option<Instant>,
}

#[derive(Default)]
enum Slot {
    #[default]
    Free,
    Full(Generation),
    BeingWritten,
}

/// What the checkpoint thread finds.
pub enum Sealed {
    Generation(Generation),
    Closed,
}

impl Handover {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics while holding the handover")
    }

    pub fn is_free(&self) -> bool {
        matches!(self.state().slot, Slot::Free)
    }

    pub fn give(&self, generation: Generation) {
        let mut state = self.state();
        assert!(matches!(state.slot, Slot::Free), "one generation at a time");
        state.slot = Slot::Full(generation);
        self.changed.notify_all();
    }

    /// Waits for a generation.
    pub fn receive(&self) -> Sealed {
        let mut state = self.state();
        loop {
            match std::mem::take(&mut state.slot) {
                Slot::Full(generation) => {
                    state.slot = Slot::BeingWritten;
                    return Sealed::Generation(generation);
                }
                other => state.slot = other,
            }
            if state.closed {
                return Sealed::Closed;
            }
            state = self.changed.wait(state).expect("nobody panics while holding the handover");
        }
    }

    /// The generation is in the tables.
    pub fn finished(&self, through: BatchNumber) {
        let mut state = self.state();
        state.slot = Slot::Free;
        state.done = through;
        state.failing = None;
        self.changed.notify_all();
    }

    /// The generation could not be written. Returns `false` when there is no point in trying again.
    pub fn failed(&self, why: String, pause: Duration) -> bool {
        let mut state = self.state();
        state.failing = Some(why);
        self.changed.notify_all();
        let waited = self.changed.wait_timeout_while(state, pause, |state| !state.closed);
        let (state, _) = waited.expect("nobody panics while holding the handover");
        !state.closed
    }

    pub fn done(&self) -> BatchNumber {
        self.state().done
    }

    pub fn failing(&self) -> Option<String> {
        self.state().failing.clone()
    }

    /// Waits until the slot is free, at most `patience`. Returns whether it is.
    pub fn wait_until_free(&self, patience: Duration) -> bool {
        let state = self.state();
        let taken = |state: &mut State| !matches!(state.slot, Slot::Free) && state.failing.is_none();
        let waited = self.changed.wait_timeout_while(state, patience, taken);
        let (state, _) = waited.expect("nobody panics while holding the handover");
        matches!(state.slot, Slot::Free)
    }

    /// Nothing more will be handed over. What is being written has `patience` to come to an end.
    pub fn close(&self, patience: Duration) {
        let mut state = self.state();
        state.closed = true;
        state.stop_at = Some(Instant::now() + patience);
        self.changed.notify_all();
    }

    pub fn must_stop(&self) -> bool {
        self.state().stop_at.is_some_and(|at| Instant::now() >= at)
    }
}
