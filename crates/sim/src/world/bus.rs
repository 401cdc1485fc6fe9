//! One node's message bus to the other nodes, through the same Redis as its coordination cache.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bluetick_store_cloud::NodeId;
use bluetick_store_cloud::hints::Away;
use bluetick_store_cloud::neighbours::memory::MemoryNeighbours;
use bluetick_store_cloud::neighbours::{Neighbours, News};
use bytes::Bytes;
use tokio::time::sleep;

use super::cache::Wire;

pub struct Post {
    pub neighbours: MemoryNeighbours,
    pub wire: Arc<Wire>,
}

#[async_trait]
impl Neighbours for Post {
    async fn beat(&self) -> Result<Vec<NodeId>, Away> {
        self.wire.pass(self.neighbours.beat()).await
    }

    async fn send(&self, to: &NodeId, news: Bytes) -> Result<(), Away> {
        self.wire.pass(self.neighbours.send(to, news)).await
    }

    async fn receive(&self) -> Result<Vec<News>, Away> {
        // Messages that arrive meanwhile wait in Redis.
        while self.wire.is_cut() {
            sleep(Duration::from_millis(50)).await;
        }
        self.neighbours.receive().await
    }

    async fn leave(&self) {
        self.neighbours.leave().await;
    }
}
