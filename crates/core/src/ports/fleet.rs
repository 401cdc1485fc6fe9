//! The port to the other nodes of the same store: the presence directory, and ephemeral events
//! between nodes.

use std::sync::Arc;

use async_trait::async_trait;

use crate::{ConversationId, Members, Profile, UserId};

/// The presence directory and the channel for ephemeral events. Messages and changes that other
/// nodes store arrive through [`CommitListener`](super::CommitListener), for users who are
/// connected to this node.
#[async_trait]
pub trait Fleet: Send + Sync + 'static {
    /// Registers that the user is connected to this node. Every message committed after this
    /// returns reaches the user, so the server calls it before catch-up. It may be called again for
    /// each connection.
    async fn user_connected(&self, user: &UserId);

    /// Registers that the user's last connection to this node ended. The store records
    /// unacknowledged messages as pending, and retries in the background if that fails.
    async fn user_disconnected(&self, user: &UserId);

    /// Returns whether the user is connected to another node. Returns `false` if the directory is
    /// unavailable.
    async fn is_connected_elsewhere(&self, user: &UserId) -> bool;

    /// Sends an ephemeral event to the other nodes without waiting. The event may be lost.
    fn send_ephemeral(&self, ephemeral: Ephemeral);

    /// Returns whether this node is the only writer of the store. If so, cached reads stay valid
    /// until this node changes them.
    fn is_alone(&self) -> bool {
        false
    }

    /// Returns counters for metrics, or `None` for a single node.
    fn counters(&self) -> Option<FleetCounters> {
        None
    }
}

/// Counters since the start of this node. `redis_up` and `nodes` are current values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetCounters {
    /// Whether Redis is available.
    pub redis_up: bool,
    /// The number of live nodes, including this one.
    pub nodes: u64,
    /// Requests by operation, including retries.
    pub dynamodb_requests: Vec<(&'static str, u64)>,
    pub dynamodb_retries: u64,
    pub dynamodb_throttles: u64,
    /// Gaps that this node filled with a void.
    pub voids_written: u64,
    /// Conversations whose Redis state this node rehydrated from the tables.
    pub reseeds: u64,
    /// Messages stored without Redis.
    pub fallback_sends: u64,
    /// Events sent to other nodes.
    pub news_sent: u64,
    /// Events received from other nodes.
    pub news_received: u64,
    /// Times this node found missed events in the tables and reconciled them.
    pub repairs: u64,
    /// How often this node changed the number of partitions of a hot conversation.
    pub salt_epochs: u64,
    /// Reads of conversations that were ever hot.
    pub scatter_reads: u64,
    /// Partitions queried by those reads.
    pub scatter_queries: u64,
    /// Reads that shared the result of a concurrent read.
    pub coalesced_reads: u64,
}

/// An ephemeral event: delivered only to users who are connected now, and never stored.
#[derive(Clone, Debug)]
pub enum Ephemeral {
    /// A user is typing.
    Typing { conversation: ConversationId, user: UserId, members: Arc<Members> },
    /// A user connected or disconnected. `to` lists the users to inform.
    Presence { user: UserId, online: bool, profile: Profile, to: Vec<UserId> },
}

/// The fleet of a single node.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFleet;

#[async_trait]
impl Fleet for NoFleet {
    async fn user_connected(&self, _user: &UserId) {}

    async fn user_disconnected(&self, _user: &UserId) {}

    async fn is_connected_elsewhere(&self, _user: &UserId) -> bool {
        false
    }

    fn send_ephemeral(&self, _whisper: Ephemeral) {}

    fn is_alone(&self) -> bool {
        true
    }
}
