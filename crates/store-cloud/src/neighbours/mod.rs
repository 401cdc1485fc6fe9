//! From node to node: who lives, and news for the people connected there.

pub mod memory;
pub mod redis;

use async_trait::async_trait;
use bytes::Bytes;

use crate::NodeId;
use crate::hints::Away;

/// At most once: what is sent may be lost with Redis, and then [`News::Lost`] or a gap in a conversation says so.
#[async_trait]
pub trait Neighbours: Send + Sync + 'static {
    /// Says that this node lives, and learns which ones do, itself included. Called about every second; who has not said
    /// so for 10 seconds is dead.
    async fn beat(&self) -> Result<Vec<NodeId>, Away>;

    /// Hands news over to another node. What one node sends to another arrives in that order.
    async fn send(&self, to: &NodeId, news: Bytes) -> Result<(), Away>;

    /// Waits for the next news to this node. Called by one task in a loop.
    async fn receive(&self) -> Result<Vec<News>, Away>;

    /// The node ends: it is no longer among those who live.
    async fn leave(&self);
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    From(NodeId, Bytes),
    /// Something that was sent to this node did not arrive, or may not have: everybody connected here has to be checked.
    Lost,
}
