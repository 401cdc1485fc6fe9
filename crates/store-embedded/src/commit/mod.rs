//! The committer: the only thread that appends to the log. It takes the queued commands, allocates
//! seqs, makes the batch durable, makes it visible to readers, and answers the callers.
//!
//! Batches need no timer. While one batch is being synced, the next one collects in the queue. A
//! single send does not wait for more to arrive, and a thousand concurrent sends share one sync.

mod batch;
mod committer;
mod handover;
mod health;
mod publish;
mod queue;
mod sequence;

use std::sync::Arc;

pub use batch::{AppendCommand, CommitCommand, Control, DuplicateSearch, ReceiptCommand, ReplySender};
use bluetick_core::StoreError;
pub use committer::{CLOSING_PATIENCE, Committer, CommitterParts};
pub use handover::{Handover, HandoverItem};
pub use health::HealthState;
pub use queue::Queue;
pub use sequence::Sequencer;
use tokio::sync::oneshot;

use crate::memory::ResidentConversation;

/// The receiving end of a reply.
pub type ReplyReceiver<T> = oneshot::Receiver<Result<T, StoreError>>;

pub fn reply_pair<T>() -> (ReplySender<T>, ReplyReceiver<T>) {
    oneshot::channel()
}

/// A conversation state that is ready for writes: its message ids are loaded.
#[derive(Clone)]
pub struct WritableConversation(pub Arc<ResidentConversation>);
