//! Attacks on the connections between nodes, over real sockets on loopback. In each case the node
//! keeps serving the nodes that have the key.
#![expect(clippy::unwrap_used, reason = "a test stops where its own set-up fails")]

mod before_authentication;
#[path = "../cluster_common/mod.rs"]
mod cluster_common;
mod invalid_peers;

use bluetick_store_cloud::cluster::bus::Bus;
use bluetick_store_cloud::cluster::transport::BusSettings;
use bytes::Bytes;
use cluster_common::{TcpNode, eventually};

fn text(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

/// A node with the key can call the node, although it was attacked.
async fn still_serves(attacked: &TcpNode, settings: BusSettings) {
    let friend = TcpNode::start("friend", settings).await;
    friend.knows(&[attacked]);
    assert_eq!(friend.bus.call(attacked.id(), text("echo")).await, Ok(text("echo")));
    friend.bus.shutdown().await;
}

async fn until_rejected(node: &TcpNode, count: u64) {
    eventually("the connection is refused", async || (node.bus.counts().rejected >= count).then_some(()))
        .await;
}
