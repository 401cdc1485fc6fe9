//! The committer loop: take commands, sequence them, write the batch, make it visible, answer.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use bluetick_core::ports::{CommitListener, CommitReport, StoreObserver};
use bluetick_core::{Cause, StoreError};
use bytes::Bytes;
// Uses the runtime's clock if a runtime exists, so that tests can simulate time.
use tokio::time::Instant;

use super::batch::{Batch, CommitCommand, PlannedEffect, PlannedMessage, answer};
use super::publish::Publisher;
use super::queue::Taken;
use super::sequence::Sequencer;
use super::{Handover, HealthState, Queue};
use crate::log::{AppendError, BatchBuffer, BatchNumber, LogWriter, Scrub};
use crate::memory::{Generation, Profiles, Users};

/// The payload size in bytes at which a batch is closed. A single larger command gets a batch of
/// its own. A higher value makes each sync take longer.
const BATCH_BYTES: usize = 2 << 20;
/// Interval at which a store that refuses writes tests whether the disk accepts them again. A
/// longer one delays recovery.
const PROBE_EVERY: Duration = Duration::from_millis(250);
/// Upper bound on the log that is not in the tables yet, because a checkpoint is slow, in units of
/// `checkpoint_bytes`. Writers block above it; without it the unwritten state could fill the
/// memory.
const MAX_BACKLOG: u64 = 3;
/// Upper bound on how long closing waits for the running checkpoint, and then again for the last
/// one. A longer one delays shutdown. If the time is too short, nothing is lost: the next start
/// replays more of the log.
pub const CLOSING_PATIENCE: Duration = Duration::from_secs(4);
/// Upper bound on one wait of the committer for a free handover, after which it checks again for a
/// failed checkpoint. A completed or failed checkpoint ends the wait earlier.
const BACKLOG_WAIT: Duration = Duration::from_millis(100);
/// Interval at which the committer checks whether the provisioner has created or deleted files for
/// a scrub. A longer one delays erasures.
const SCRUB_POLL: Duration = Duration::from_millis(10);

pub struct CommitterParts {
    pub queue: Arc<Queue>,
    pub log: LogWriter,
    pub generation: Generation,
    pub sequencer: Sequencer,
    pub users: Arc<Users>,
    pub profiles: Arc<Profiles>,
    pub handover: Arc<Handover>,
    pub health: Arc<HealthState>,
    pub listener: Option<Arc<dyn CommitListener>>,
    pub observer: Arc<dyn StoreObserver>,
    pub checkpoint_bytes: u64,
    pub checkpoint_idle: Duration,
}

pub struct Committer {
    parts: CommitterParts,
    /// When the oldest unwritten change of the generation was made.
    dirty_since: Option<Instant>,
    scrub: Option<Scrub>,
}

impl Committer {
    pub fn new(parts: CommitterParts) -> Committer {
        let dirty_since = (!parts.generation.is_empty()).then(Instant::now);
        Committer { parts, dirty_since, scrub: None }
    }

    /// Runs until the queue is closed and empty, then hands over the last generation.
    ///
    /// After a panic the state in memory may be half-updated. The store then refuses writes and
    /// drops all queued commands, whose callers get an error. The log holds everything that was
    /// acknowledged, and the next start replays it.
    pub fn run(self) {
        let (queue, health) = (Arc::clone(&self.parts.queue), Arc::clone(&self.parts.health));
        if catch_unwind(AssertUnwindSafe(|| self.run_until_closed())).is_err() {
            health.break_down("the committer failed; restart the server");
            queue.abandon();
        }
    }

    fn run_until_closed(mut self) {
        let mut taken = VecDeque::new();
        let queue = Arc::clone(&self.parts.queue);
        self.seal_if_due();
        while let Taken::Continue = queue.take(&mut taken, self.patience()) {
            self.turn(&mut taken);
        }
        self.seal_at_the_end();
    }

    fn turn(&mut self, taken: &mut VecDeque<CommitCommand>) {
        self.write_all(taken);
        self.recycle();
        self.scrub();
        self.seal_if_due();
    }

    /// Runs one iteration on the caller's thread, without waiting for commands.
    pub fn step(&mut self) {
        let mut taken = VecDeque::new();
        self.parts.queue.take_now(&mut taken);
        self.turn(&mut taken);
    }

    /// Runs one iteration and hands over the last generation if the handover is free. Does not
    /// wait.
    pub fn step_to_the_end(&mut self) {
        self.step();
        if self.parts.handover.is_free() && !self.parts.generation.is_empty() {
            self.seal();
        }
    }

    /// Returns whether the next write would block on a checkpoint.
    pub fn waits_for_checkpoint(&self) -> bool {
        self.backlog_is_full()
    }

    /// Returns how long to wait for commands before other work is due. `None` means no limit.
    fn patience(&self) -> Option<Duration> {
        if self.parts.health.check().is_err() {
            return Some(PROBE_EVERY);
        }
        // The checkpoint thread nudges the queue; the provisioner does not, so poll for its files.
        if self.scrub.as_ref().is_some_and(|scrub| scrub.waits_for_tables().is_none()) {
            return Some(SCRUB_POLL);
        }
        let due = self.dirty_since? + self.parts.checkpoint_idle;
        Some(due.saturating_duration_since(Instant::now()).max(Duration::from_millis(10)))
    }

    fn write_all(&mut self, taken: &mut VecDeque<CommitCommand>) {
        if self.parts.health.check().is_err() {
            self.probe();
        }
        let max_payload = self.parts.log.max_payload_bytes().min(BATCH_BYTES);
        let batch_for = |taken: &VecDeque<CommitCommand>| {
            let bytes = taken.iter().map(CommitCommand::weight).sum::<usize>() + 32 * taken.len();
            Batch::with_capacity(taken.len(), bytes.min(max_payload))
        };
        let mut batch = batch_for(taken);
        // Prefetch all conversation states before locking them one by one. The processor then
        // overlaps the cache misses.
        taken.iter().for_each(CommitCommand::warm_up);
        while let Some(command) = taken.pop_front() {
            if let Err(refused) = self.parts.health.check() {
                command.refuse(refused);
                continue;
            }
            let waits = !batch.unsettled.is_empty() && command.depends_on(&batch.unsettled);
            if waits || batch.buffer.payload_bytes() + command.weight() > max_payload {
                self.commit(std::mem::replace(&mut batch, batch_for(taken)));
            }
            self.parts.sequencer.sequence(&mut batch, command);
        }
        self.commit(batch);
    }

    fn commit(&mut self, mut batch: Batch) {
        if batch.buffer.is_empty() {
            assert!(batch.planned.is_empty(), "a planned answer has events in the batch");
            return;
        }
        if let Err(error) = self.wait_for_checkpoints() {
            return undo(batch, &error);
        }
        match self.parts.log.append(&mut batch.buffer) {
            Ok(sync) => {
                let report =
                    CommitReport { messages: batch.messages(), bytes: batch.buffer.bytes.len(), sync };
                self.parts.observer.committed(report);
                self.publish(batch);
            }
            Err(error) => {
                self.parts.health.refuse(&error.to_string());
                let error = match error {
                    AppendError::Write(_) => StoreError::ReadOnly(Cause::of(error)),
                    AppendError::Sync(_) => StoreError::Failed(Cause::of(error)),
                };
                undo(batch, &error);
            }
        }
    }

    /// Applies a durable batch: updates the state that readers see, notifies the listener, then
    /// answers the callers.
    fn publish(&mut self, mut batch: Batch) {
        let generation = &mut self.parts.generation;
        generation.log_bytes += batch.buffer.bytes.len() as u64;
        generation.through = self.parts.log.last_batch();
        self.dirty_since.get_or_insert_with(Instant::now);
        let mut publish = Publisher {
            generation,
            users: &self.parts.users,
            profiles: &self.parts.profiles,
            bytes: Bytes::from(std::mem::take(&mut batch.buffer.bytes)),
            listens: self.parts.listener.is_some(),
            committed: Vec::new(),
            changes: Vec::new(),
            answers: Vec::with_capacity(batch.planned.len()),
        };
        for planned in batch.planned {
            publish.planned(planned);
        }
        let Publisher { committed, changes, answers, .. } = publish;
        if let Some(listener) = &self.parts.listener {
            if !committed.is_empty() {
                listener.committed(committed);
            }
            if !changes.is_empty() {
                listener.changed(changes);
            }
        }
        for answer in answers {
            answer.send();
        }
    }

    /// Tests whether a disk that refused writes accepts an empty batch again.
    fn probe(&mut self) {
        if let Some(failing) = self.parts.handover.failing()
            && self.backlog_is_full()
        {
            self.parts.health.refuse(&failing);
            return;
        }
        match self.parts.log.append(&mut BatchBuffer::with_capacity(0)) {
            Ok(_) => self.parts.health.recover(),
            Err(error) => self.parts.health.refuse(&error.to_string()),
        }
    }

    fn backlog_is_full(&self) -> bool {
        self.parts.generation.log_bytes > MAX_BACKLOG * self.parts.checkpoint_bytes
    }

    /// Blocks while the tables are too far behind the log. Returns `ReadOnly` if checkpoints fail.
    fn wait_for_checkpoints(&mut self) -> Result<(), StoreError> {
        while self.backlog_is_full() {
            if self.parts.handover.wait_until_free(BACKLOG_WAIT) {
                self.seal();
            } else if let Some(failing) = self.parts.handover.failing() {
                self.parts.health.refuse(&failing);
                return Err(StoreError::ReadOnly(failing.into()));
            }
        }
        Ok(())
    }

    fn seal_if_due(&mut self) {
        let idle = self.dirty_since.is_some_and(|since| since.elapsed() >= self.parts.checkpoint_idle);
        let full = self.parts.generation.log_bytes >= self.parts.checkpoint_bytes;
        let wanted = self.parts.handover.is_checkpoint_requested();
        let scrubbing = self.scrub_waits_for().is_some_and(|through| self.parts.handover.done() < through);
        if !(idle || full || wanted || scrubbing) || !self.parts.handover.is_free() {
            return;
        }
        match self.parts.generation.is_empty() && !idle && !full && !scrubbing {
            true => self.parts.handover.skip_generation(),
            false => self.seal(),
        }
    }

    fn seal(&mut self) {
        self.dirty_since = None;
        self.parts.handover.give(self.parts.generation.seal());
    }

    /// Hands over the last generation, so that the next start replays little. Without it nothing is
    /// lost, so the wait is limited to `CLOSING_PATIENCE`.
    fn seal_at_the_end(&mut self) {
        let free = self.parts.handover.wait_until_free(CLOSING_PATIENCE);
        if free && !self.parts.generation.is_empty() {
            self.seal();
        }
    }

    fn scrub_waits_for(&self) -> Option<BatchNumber> {
        self.scrub.as_ref().and_then(Scrub::waits_for_tables)
    }

    /// Starts a requested scrub, or continues the running one.
    fn scrub(&mut self) {
        let handover = &self.parts.handover;
        while let Some(mut scrub) = self.scrub.take().or_else(|| handover.begin_scrub().then(Scrub::default))
        {
            match scrub.go_on(&mut self.parts.log, handover.done()) {
                Ok(true) => handover.end_scrub(Ok(())),
                Err(why) => handover.end_scrub(Err(why)),
                Ok(false) => {
                    // Empty batches are in no generation, so the checkpoint position must be moved
                    // past them explicitly.
                    if let Some(through) = scrub.waits_for_tables() {
                        let generation = &mut self.parts.generation;
                        generation.through = generation.through.max(through);
                    }
                    self.scrub = Some(scrub);
                    return;
                }
            }
        }
    }

    fn recycle(&mut self) {
        if let Err(error) = self.parts.log.recycle_through(self.parts.handover.done()) {
            tracing::warn!(%error, "recycling a log segment failed");
        }
    }
}

/// Reverts a batch that failed: frees its seqs and message ids, and answers every caller with
/// `error`.
fn undo(batch: Batch, error: &StoreError) {
    for planned in batch.planned {
        match planned {
            PlannedEffect::Message(PlannedMessage { command, seq, .. }) => {
                let mut state = command.resident.0.state();
                state.reserved = state.head();
                if let Some(ids) = &mut state.ids {
                    ids.remove(command.fingerprint, seq);
                }
                drop(state);
                answer(command.reply, Err(error.clone()));
            }
            PlannedEffect::Members { resident, reply, .. } => {
                let mut state = resident.state();
                state.reserved = state.head();
                answer(reply, Err(error.clone()));
            }
            PlannedEffect::Echo { reply, .. } => answer(reply, Err(error.clone())),
            PlannedEffect::Created { reply, .. } => answer(reply, Err(error.clone())),
            PlannedEffect::User { reply, .. } | PlannedEffect::PreferencesChanged { reply, .. } => {
                answer(reply, Err(error.clone()));
            }
            PlannedEffect::Receipt { command, .. } => answer(command.reply, Err(error.clone())),
            PlannedEffect::Profile { reply, .. } => answer(reply, Err(error.clone())),
        }
    }
}
