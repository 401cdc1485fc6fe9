//! The port between nodes: calls with an answer, and notifications without one.

use async_trait::async_trait;
use bytes::Bytes;
use thiserror::Error;

use crate::NodeId;

/// Sends calls and notifications to other nodes.
///
/// # Delivery
///
/// - A call is executed at most once. The bus never repeats one. [`BusError`] says what is known
///   about a call that failed.
/// - Notifications from one process to another are delivered at most once and in the order of
///   `notify`.
/// - Each notification that is not delivered, also one that `notify` refused, is followed by
///   [`BusHandler::connection_lost`] at its receiver: when the connection ends or is next
///   established, or when the queue has room again. The receiver gets none if the sender stops
///   first, or never reaches it again.
/// - A call has no order relative to other calls or to notifications.
///
/// # Limits
///
/// All queues are bounded by count and bytes. An overflow is [`BusError::Overloaded`], never a
/// wait. Timeouts end a wait and prove nothing about the other node.
#[async_trait]
pub trait Bus: Send + Sync + 'static {
    /// Calls the handler of another node and returns its answer. If the caller drops the future,
    /// the other node may still execute the call.
    async fn call(&self, to: &NodeId, body: Bytes) -> Result<Bytes, BusError>;

    /// Queues a notification and returns at once. `Ok` means queued, not delivered.
    fn notify(&self, to: &NodeId, body: Bytes) -> Result<(), BusError>;
}

/// Receives the calls and notifications of other nodes.
#[async_trait]
pub trait BusHandler: Send + Sync + 'static {
    /// Executes a call. Runs to its end even if the caller has gone, except at shutdown, when the
    /// bus drops the calls that exceed the drain timeout. Many calls run at the same time.
    async fn call(&self, from: &NodeId, body: Bytes) -> Result<Bytes, CallRefusal>;

    /// Takes one notification. Must not block: the connection delivers nothing else meanwhile.
    fn notified(&self, from: &NodeId, body: Bytes);

    /// Notifications that `from` sent before may be missing: the connection from it has ended, or
    /// it had to discard some. Read the state that they announce. A loss that did not happen may be
    /// reported, and one event may be reported twice. Must not block.
    fn connection_lost(&self, from: &NodeId);
}

/// Why a call or a notification failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BusError {
    /// Nothing reached the handler of the other node, and nothing will.
    #[error("the other node could not be reached")]
    NotSent,
    /// The other node may execute the call, may have executed it, or may never do so.
    #[error("the other node did not answer")]
    NoAnswer,
    /// A queue is full, here or at the other node. The call is not executed.
    #[error("the queue to the other node is full")]
    Overloaded,
    /// The bus has no address for this node.
    #[error("no such node is in the cluster")]
    UnknownNode,
    /// The body exceeds the limit on the size of a frame.
    #[error("the body is too large for a frame")]
    TooLarge,
    /// The handler of the other node refused the call and did not execute it.
    #[error("the other node refused the call: {0}")]
    Refused(CallRefusal),
}

/// Why a handler does not execute a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CallRefusal {
    /// It has no capacity. The caller gets [`BusError::Overloaded`].
    #[error("overloaded")]
    Overloaded,
    /// The node is shutting down.
    #[error("draining")]
    Draining,
    /// It cannot decode the body: the nodes run different versions.
    #[error("unsupported")]
    Unsupported,
}

impl From<CallRefusal> for BusError {
    fn from(refusal: CallRefusal) -> BusError {
        match refusal {
            CallRefusal::Overloaded => BusError::Overloaded,
            refusal => BusError::Refused(refusal),
        }
    }
}
