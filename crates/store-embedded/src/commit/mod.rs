//! The one thread that writes: it takes what is waiting, gives each message its place, makes the batch durable, shows
//! it, and answers.
//!
//! Batches need no timer. While one is being synced the next one gathers in the queue, so a lone send waits for nobody
//! and a thousand share one sync.

mod batch;
mod committer;
mod handover;
mod health;
mod queue;
mod sequence;
mod show;

use std::sync::Arc;

pub use batch::{AppendCommand, Command, Control, MarkCommand, Reply, Searched};
use bluetick_core::StoreError;
pub use committer::{CLOSING_PATIENCE, Committer, CommitterParts};
pub use handover::{Handover, Sealed};
pub use health::HealthState;
pub use queue::Queue;
pub use sequence::Sequencer;
use tokio::sync::oneshot;

use crate::memory::Room;

/// An answer on its way.
pub type Answer<T> = oneshot::Receiver<Result<T, StoreError>>;

pub fn reply_pair<T>() -> (Reply<T>, Answer<T>) {
    oneshot::channel()
}

/// A room that is ready to be written to: its ids are loaded.
#[derive(Clone)]
pub struct WritableRoom(pub Arc<Room>);
