//! Passing generations from the committer to the checkpoint thread, one at a time; and what others ask the committer
//! for that is no write: a checkpoint now, a log without its past.

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
    /// Somebody waits for what there is to be in the tables.
    wanted: bool,
    /// How many generations were handed over, and how many of them are in the tables.
    given: u64,
    written: u64,
    scrubs: Scrubs,
}

#[derive(Default)]
struct Scrubs {
    /// Somebody waits for one that is not begun yet.
    wanted: bool,
    begun: u64,
    ended: u64,
    /// The last one that came to a good end; it did the work of those before it too.
    succeeded: u64,
    /// Why the last one that failed did.
    failure: Option<String>,
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

impl State {
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
        state.wanted = false;
        state.given += 1;
        self.changed.notify_all();
    }

    /// There is nothing to hand over: everything is in the tables.
    pub fn give_nothing(&self) {
        let mut state = self.state();
        assert!(matches!(state.slot, Slot::Free), "one generation at a time");
        state.wanted = false;
        state.given += 1;
        state.written += 1;
        self.changed.notify_all();
    }

    /// Whether somebody waits for the next generation.
    pub fn is_wanted(&self) -> bool {
        self.state().wanted
    }

    /// Asks for a checkpoint without waiting for the next one. The number is for [`Handover::wait_for`].
    pub fn want(&self) -> u64 {
        let mut state = self.state();
        state.wanted = true;
        state.given + 1
    }

    /// Waits until the generation with this number is in the tables: all that was durable when it was asked for.
    /// Otherwise, why not.
    pub fn wait_for(&self, number: u64, patience: Duration) -> Result<(), String> {
        let waiting = |state: &mut State| state.written < number && !state.closed;
        let waited = self.changed.wait_timeout_while(self.state(), patience, waiting);
        let (state, _) = waited.expect("nobody panics while holding the handover");
        match (state.written >= number, &state.failing) {
            (true, _) => Ok(()),
            (false, Some(why)) => Err(why.clone()),
            (false, None) => Err("the tables are not written in time".to_owned()),
        }
    }

    /// Asks for the log to be rid of all that was written to it so far. The number is for
    /// [`Handover::wait_for_scrub`].
    pub fn want_scrub(&self) -> u64 {
        let mut state = self.state();
        state.scrubs.wanted = true;
        state.scrubs.begun + 1
    }

    /// Waits until no file of the log holds anything of what was durable when this was asked for. Otherwise, why not;
    /// what was begun may still come to its end by itself.
    pub fn wait_for_scrub(&self, number: u64, patience: Duration) -> Result<(), String> {
        let waiting = |state: &mut State| state.scrubs.ended < number && !state.closed;
        let waited = self.changed.wait_timeout_while(self.state(), patience, waiting);
        let (state, _) = waited.expect("nobody panics while holding the handover");
        let State { scrubs, failing, .. } = &*state;
        if scrubs.succeeded >= number {
            return Ok(());
        }
        let why = if scrubs.ended >= number { &scrubs.failure } else { failing };
        Err(why.clone().unwrap_or_else(|| "the log is not scrubbed in time".to_owned()))
    }

    /// Whether somebody waits for a scrub; it counts as begun then.
    pub fn begin_scrub(&self) -> bool {
        let scrubs = &mut self.state().scrubs;
        let wanted = std::mem::take(&mut scrubs.wanted);
        scrubs.begun += u64::from(wanted);
        wanted
    }

    /// The scrub begun last is over.
    pub fn end_scrub(&self, outcome: Result<(), String>) {
        let scrubs = &mut self.state().scrubs;
        scrubs.ended = scrubs.begun;
        match outcome {
            Ok(()) => scrubs.succeeded = scrubs.begun,
            Err(why) => scrubs.failure = Some(why),
        }
        self.changed.notify_all();
    }

    /// A generation, if one was handed over.
    pub fn receive_now(&self) -> Option<Generation> {
        self.state().begin_writing()
    }

    /// Waits for a generation.
    pub fn receive(&self) -> Sealed {
        let mut state = self.state();
        loop {
            if let Some(generation) = state.begin_writing() {
                return Sealed::Generation(generation);
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
        state.written = state.given;
        state.done = through;
        state.failing = None;
        self.changed.notify_all();
    }

    /// The generation could not be written; it is here again, for the next try.
    pub fn give_back(&self, generation: Generation, why: String) {
        let mut state = self.state();
        state.slot = Slot::Full(generation);
        state.failing = Some(why);
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
