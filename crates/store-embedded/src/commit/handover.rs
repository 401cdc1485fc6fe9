//! Passes generations from the committer to the checkpoint thread, one at a time. Also carries
//! requests to the committer that are not writes: checkpoint now, scrub the log.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::log::BatchNumber;
use crate::memory::Generation;

/// A channel with one slot, from the committer to the checkpoint thread.
///
/// Invariant: the slot is occupied from the handover of a generation until the tables contain all
/// of it.
#[derive(Default)]
pub struct Handover {
    state: Mutex<HandoverState>,
    changed: Condvar,
}

#[derive(Default)]
struct HandoverState {
    slot: Slot,
    done: BatchNumber,
    /// Why the last attempt to write the generation failed. The checkpoint thread retries.
    failing: Option<String>,
    closed: bool,
    /// When a checkpoint that is still running must stop.
    stop_at: Option<Instant>,
    /// Whether a caller waits for a checkpoint of the current state.
    wanted: bool,
    /// The number of generations handed over, and how many of them are in the tables.
    given: u64,
    written: u64,
    scrubs: ScrubRequests,
}

#[derive(Default)]
struct ScrubRequests {
    /// Whether a caller waits for a scrub that has not started.
    wanted: bool,
    begun: u64,
    ended: u64,
    /// The last scrub that succeeded. It covers the requests of all earlier ones.
    succeeded: u64,
    /// Why the last failed scrub failed.
    failure: Option<String>,
}

#[derive(Default)]
enum Slot {
    #[default]
    Free,
    Full(Generation),
    BeingWritten,
}

/// The result of [`Handover::receive`], for the checkpoint thread.
pub enum HandoverItem {
    Generation(Generation),
    Closed,
}

impl HandoverState {
    fn begin_writing(&mut self) -> Option<Generation> {
        match std::mem::take(&mut self.slot) {
            Slot::Full(generation) => {
                self.slot = Slot::BeingWritten;
                Some(generation)
            }
            other => {
                self.slot = other;
                None
            }
        }
    }
}

impl Handover {
    fn state(&self) -> MutexGuard<'_, HandoverState> {
        self.state.lock()
    }

    pub fn is_free(&self) -> bool {
        matches!(self.state().slot, Slot::Free)
    }

    pub fn give(&self, generation: Generation) {
        let mut state = self.state();
        assert!(matches!(state.slot, Slot::Free), "one generation at a time");
        state.slot = Slot::Full(generation);
        state.wanted = false;
        state.given += 1;
        self.changed.notify_all();
    }

    /// Reports that the tables contain everything, so there is no generation to hand over.
    pub fn skip_generation(&self) {
        let mut state = self.state();
        assert!(matches!(state.slot, Slot::Free), "one generation at a time");
        state.wanted = false;
        state.given += 1;
        state.written += 1;
        self.changed.notify_all();
    }

    /// Returns whether a caller waits for the next generation.
    pub fn is_checkpoint_requested(&self) -> bool {
        self.state().wanted
    }

    /// Requests a checkpoint and returns the number to pass to [`Handover::wait_for_checkpoint`].
    /// Does not wait.
    pub fn request_checkpoint(&self) -> u64 {
        let mut state = self.state();
        state.wanted = true;
        state.given + 1
    }

    /// Waits until the tables contain the generation with this number: everything that was durable
    /// at the request. Returns the reason if that does not happen within `patience`.
    pub fn wait_for_checkpoint(&self, number: u64, patience: Duration) -> Result<(), String> {
        let waiting = |state: &mut HandoverState| state.written < number && !state.closed;
        let mut state = self.state();
        self.changed.wait_while_for(&mut state, waiting, patience);
        match (state.written >= number, &state.failing) {
            (true, _) => Ok(()),
            (false, Some(why)) => Err(why.clone()),
            (false, None) => Err("the checkpoint did not complete in time".to_owned()),
        }
    }

    /// Requests that everything written to the log so far be removed from its files. Returns the
    /// number to pass to [`Handover::wait_for_scrub`].
    pub fn request_scrub(&self) -> u64 {
        let mut state = self.state();
        state.scrubs.wanted = true;
        state.scrubs.begun + 1
    }

    /// Waits until no file of the log contains anything that was durable at the request. Returns
    /// the reason otherwise. After a timeout the scrub may still complete.
    pub fn wait_for_scrub(&self, number: u64, patience: Duration) -> Result<(), String> {
        let waiting = |state: &mut HandoverState| state.scrubs.ended < number && !state.closed;
        let mut state = self.state();
        self.changed.wait_while_for(&mut state, waiting, patience);
        let HandoverState { scrubs, failing, .. } = &*state;
        if scrubs.succeeded >= number {
            return Ok(());
        }
        let why = if scrubs.ended >= number { &scrubs.failure } else { failing };
        Err(why.clone().unwrap_or_else(|| "the scrub of the log did not complete in time".to_owned()))
    }

    /// Returns whether a scrub was requested, and counts it as started.
    pub fn begin_scrub(&self) -> bool {
        let scrubs = &mut self.state().scrubs;
        let wanted = std::mem::take(&mut scrubs.wanted);
        scrubs.begun += u64::from(wanted);
        wanted
    }

    /// Records the result of the scrub that started last.
    pub fn end_scrub(&self, outcome: Result<(), String>) {
        let scrubs = &mut self.state().scrubs;
        scrubs.ended = scrubs.begun;
        match outcome {
            Ok(()) => scrubs.succeeded = scrubs.begun,
            Err(why) => scrubs.failure = Some(why),
        }
        self.changed.notify_all();
    }

    /// Returns the generation in the slot, if there is one. Does not wait.
    pub fn receive_now(&self) -> Option<Generation> {
        self.state().begin_writing()
    }

    /// Waits for a generation, or for `close`.
    pub fn receive(&self) -> HandoverItem {
        let mut state = self.state();
        loop {
            if let Some(generation) = state.begin_writing() {
                return HandoverItem::Generation(generation);
            }
            if state.closed {
                return HandoverItem::Closed;
            }
            self.changed.wait(&mut state);
        }
    }

    /// Records that the tables contain the generation, and frees the slot.
    pub fn finished(&self, through: BatchNumber) {
        let mut state = self.state();
        state.slot = Slot::Free;
        state.written = state.given;
        state.done = through;
        state.failing = None;
        self.changed.notify_all();
    }

    /// Puts a generation that could not be written back into the slot, for the next attempt.
    pub fn give_back(&self, generation: Generation, why: String) {
        let mut state = self.state();
        state.slot = Slot::Full(generation);
        state.failing = Some(why);
    }

    /// Records a failed attempt and waits for `pause`. Returns `false` if the store closes
    /// meanwhile, so that the caller stops retrying.
    pub fn failed(&self, why: String, pause: Duration) -> bool {
        let mut state = self.state();
        state.failing = Some(why);
        self.changed.notify_all();
        self.changed.wait_while_for(&mut state, |state| !state.closed, pause);
        !state.closed
    }

    pub fn done(&self) -> BatchNumber {
        self.state().done
    }

    pub fn failing(&self) -> Option<String> {
        self.state().failing.clone()
    }

    /// Waits until the slot is free, a checkpoint fails, or `patience` ends. Returns whether the
    /// slot is free.
    pub fn wait_until_free(&self, patience: Duration) -> bool {
        let mut state = self.state();
        let taken = |state: &mut HandoverState| !matches!(state.slot, Slot::Free) && state.failing.is_none();
        self.changed.wait_while_for(&mut state, taken, patience);
        matches!(state.slot, Slot::Free)
    }

    /// Announces that no more generations follow. A running checkpoint has `patience` to complete.
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
