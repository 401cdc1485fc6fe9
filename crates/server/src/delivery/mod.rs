//! Delivery: pushes committed messages and changes to the outboxes of connected devices, in order.
//!
//! Invariant: one thread at a time pushes live messages, in commit order. Every connection
//! therefore sees each conversation in seq order, and gets the ack of its own message at that
//! message's seq. Usually the fan-out thread does this. When that thread is idle and a batch has
//! few receivers, the thread that reports the batch delivers it, which saves a wake-up. The fan-out
//! never waits for the store: work that needs the store goes to the workers. Socket I/O does not
//! belong here.

mod catch_up;
mod changes;
mod encoded_frame;
mod fanout;
mod hub;
mod inbox_entries;
mod messages;
mod outbox;
mod presence;
mod presence_directory;
mod receipts;
mod recent_senders;
mod sessions;
mod typing;
mod workers;

pub(crate) use catch_up::{BacklogRange, CatchUp, NextStep, PageOutcome, UnstoredFrame};
pub(crate) use encoded_frame::EncodedFrame;
pub(crate) use fanout::RepeatedAck;
pub use hub::Hub;
pub(crate) use outbox::{ConnectionOutbox, OutboxOverflow, cost};
pub(crate) use presence_directory::PresenceDirectory;
#[cfg(test)]
pub(crate) use sessions::Registration;
pub(crate) use sessions::{SessionId, Sessions, WebSocketSession};
pub(crate) use typing::Throttle;
pub(crate) use workers::Workers;

use workers::catch_panics;
