//! The other nodes that serve the same store: who is connected where, and what passes between them besides messages.

use std::sync::Arc;

use async_trait::async_trait;

use crate::{ConversationId, Members, Profile, UserId};

/// Messages and changes that other nodes store come to this node through
/// [`CommitListener`](super::CommitListener), as its own do, for the people who are connected here. This port says who
/// they are and carries what is never stored.
#[async_trait]
pub trait Fleet: Send + Sync + 'static {
    /// The user is connected to this node. Whatever is committed after this returns reaches it, so it is called before
    /// anybody looks what a device has missed. May be called again for every connection.
    async fn came(&self, user: &UserId);

    /// The last connection of the user to this node has ended. What was pushed to it and not acknowledged is pending
    /// when this returns.
    async fn went(&self, user: &UserId);

    /// Whether the user is connected to another node.
    async fn is_elsewhere(&self, user: &UserId) -> bool;

    /// Tells the other nodes, without waiting. May be lost.
    fn whisper(&self, whisper: Whisper);

    /// Whether nobody but this node writes to the store. What was read of it is true then until this node changes it.
    fn is_alone(&self) -> bool {
        false
    }

    /// For metrics; `None` where there are no other nodes.
    fn counters(&self) -> Option<FleetCounters> {
        None
    }
}

/// Since the start, but for what is so now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetCounters {
    /// Whether Redis answered last time.
    pub redis_up: bool,
    /// Nodes that live, this one included.
    pub nodes: u64,
    /// By operation.
    pub dynamodb_requests: Vec<(&'static str, u64)>,
    pub dynamodb_retries: u64,
    pub dynamodb_throttles: u64,
    pub voids_written: u64,
    pub reseeds: u64,
    pub fallback_sends: u64,
    pub news_sent: u64,
    pub news_received: u64,
    pub repairs: u64,
    /// How often this node has spread a busy conversation over another number of partitions.
    pub salt_epochs: u64,
    /// Reads of conversations that were ever spread, and the partitions that they asked.
    pub scatter_reads: u64,
    pub scatter_queries: u64,
    /// Reads that were answered by one that somebody else had asked for.
    pub coalesced_reads: u64,
}

/// What passes: told to those who are there, and to nobody later.
#[derive(Clone, Debug)]
pub enum Whisper {
    /// Somebody is writing.
    Typing { conversation: ConversationId, user: UserId, members: Arc<Members> },
    /// Somebody has come or gone, for these people to know.
    Presence { user: UserId, online: bool, profile: Profile, to: Vec<UserId> },
}

/// For a store that one node has to itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFleet;

#[async_trait]
impl Fleet for NoFleet {
    async fn came(&self, _user: &UserId) {}

    async fn went(&self, _user: &UserId) {}

    async fn is_elsewhere(&self, _user: &UserId) -> bool {
        false
    }

    fn whisper(&self, _whisper: Whisper) {}

    fn is_alone(&self) -> bool {
        true
    }
}
