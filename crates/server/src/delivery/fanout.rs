//! The fan-out: carries out delivery commands one at a time, in order. The hub queues the commands;
//! what a message or a change becomes is decided in `messages` and `changes`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;

use bluetick_core::ports::{Committed, CommittedChange};
use bluetick_core::{ConversationId, Seq};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::changes::{self, Changes};
use super::recent_senders::RecentSenders;
use super::{EncodedFrame, Sessions, WebSocketSession, messages};
use crate::metrics::Metrics;

/// A unit of work for the fan-out.
pub(super) enum FanoutCommand {
    Deliver(Vec<Committed>),
    Publish(Vec<CommittedChange>),
    /// Push the ack of a message that was stored earlier, behind everything committed before this
    /// command.
    Acknowledge(Arc<WebSocketSession>, RepeatedAck),
    /// Answered when the frames of all earlier commands are in the outboxes.
    Flush(oneshot::Sender<()>),
    Stop,
}

/// The ack of a resend: the message is already stored at `seq`.
pub(crate) struct RepeatedAck {
    pub conversation: ConversationId,
    pub seq: Seq,
    pub frame: EncodedFrame,
}

/// Counts queued and finished commands. When all are finished, a flush need not ask the fan-out
/// thread.
#[derive(Default)]
pub(super) struct CommandCounts {
    /// Incremented before the command is queued.
    queued: AtomicU64,
    done: AtomicU64,
}

impl CommandCounts {
    pub fn add(&self) {
        self.queued.fetch_add(1, Ordering::AcqRel);
    }

    /// Reverts [`CommandCounts::add`] for a command that was not queued.
    pub fn remove(&self) {
        self.queued.fetch_sub(1, Ordering::AcqRel);
    }

    pub fn finish(&self) {
        self.done.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns whether every command counted before this call is done.
    pub fn is_idle(&self) -> bool {
        let queued = self.queued.load(Ordering::Acquire);
        self.done.load(Ordering::Acquire) >= queued
    }
}

/// Puts messages and changes into the outboxes. The fan-out thread and the reporting threads share
/// it.
pub(super) struct Fanout {
    pub sessions: Arc<Sessions>,
    pub metrics: Arc<Metrics>,
    pub counts: CommandCounts,
    /// Held while a command runs, so that one thread at a time delivers.
    pub running: Mutex<()>,
    pub changes: Changes,
    pub senders: Arc<RecentSenders>,
}

impl Fanout {
    pub fn run(&self, commands: &Receiver<FanoutCommand>) {
        while let Ok(command) = commands.recv() {
            let _running = self.running.lock();
            if matches!(command, FanoutCommand::Stop) {
                return;
            }
            self.run_command(command);
            self.counts.finish();
        }
    }

    /// Runs the command in the calling thread. Returns the command if another one is running or
    /// queued.
    pub fn try_run_inline(&self, command: FanoutCommand) -> Option<FanoutCommand> {
        let Some(_running) = self.running.try_lock() else { return Some(command) };
        if !self.counts.is_idle() {
            return Some(command);
        }
        // Counted like queued commands, so that a concurrent flush waits for it.
        self.counts.add();
        self.run_command(command);
        self.counts.finish();
        None
    }

    pub fn run_command(&self, command: FanoutCommand) {
        match command {
            FanoutCommand::Deliver(batch) => {
                let pushes = batch.iter().map(|committed| self.deliver(committed)).sum();
                self.metrics.pushes.inc_by(pushes);
            }
            FanoutCommand::Publish(batch) => batch.into_iter().for_each(|change| self.publish(change)),
            FanoutCommand::Acknowledge(session, RepeatedAck { conversation, seq, frame }) => {
                let catch_up = &session.catch_up;
                if !catch_up.is_active() || catch_up.admit_repeated_ack(conversation, seq, &frame) {
                    session.outbox.push(frame);
                }
            }
            FanoutCommand::Flush(done) => {
                let _ = done.send(());
            }
            FanoutCommand::Stop => {}
        }
    }

    /// Delivers one message and returns the number of pushes. Catches panics, so that a faulty
    /// message does not end all other deliveries.
    fn deliver(&self, committed: &Committed) -> u64 {
        let delivered = catch_unwind(AssertUnwindSafe(|| {
            if committed.members.len() > changes::SMALL_GROUP {
                self.senders.record(&committed.message);
            }
            let pushes = messages::deliver(committed, &self.sessions);
            self.changes.publish_first_message(committed);
            if committed.departed.is_some() {
                // The member who left may have had the lowest read state, so the lowest may rise.
                self.changes.receipt_batches.schedule(committed.message.conversation, &committed.members);
            }
            pushes
        }));
        delivered.unwrap_or_else(|_| {
            let (conversation, seq) = (committed.message.conversation, committed.message.seq);
            tracing::error!(%conversation, %seq, "message delivery panicked; some sessions missed the message");
            0
        })
    }

    fn publish(&self, change: CommittedChange) {
        if catch_unwind(AssertUnwindSafe(|| self.changes.publish(change))).is_err() {
            tracing::error!("change delivery panicked; some sessions missed the change");
        }
    }
}
