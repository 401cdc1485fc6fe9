//! Membership: which nodes are live and where they listen, from one row per node in the tables.
//!
//! Each node writes its row at an interval, on the condition that nobody else has changed it, and
//! reads all rows. A node is live while its row changes within a timeout, by the reader's monotonic
//! clock; no timestamp is stored or compared between nodes.
//!
//! Liveness is a hint for routing and never a safety property: a node that counts as dead may run
//! and write, and nodes may disagree about who is live. Redis takes no part.

mod heartbeat;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bluetick_core::StoreError;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{BootId, NodeIdentity};
use crate::NodeId;
use crate::rows::Rows;
use heartbeat::Heartbeat;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MembershipSettings {
    /// Pause between two heartbeats. Each costs one write, and one query of all rows.
    pub heartbeat_interval: Duration,
    /// A node whose row does not change for this long counts as dead. Must be several intervals.
    pub timeout: Duration,
    /// The row of a node that has been dead for this long is deleted.
    pub forget_after: Duration,
}

impl Default for MembershipSettings {
    fn default() -> MembershipSettings {
        MembershipSettings {
            heartbeat_interval: Duration::from_secs(2),
            timeout: Duration::from_secs(10),
            forget_after: Duration::from_secs(600),
        }
    }
}

/// A live node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterMember {
    /// Where the node listens for other nodes: host and port.
    pub address: Arc<str>,
    pub boot: BootId,
}

/// The live nodes, as this node sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterView {
    /// Contains this node, unless it has been replaced.
    pub live: BTreeMap<NodeId, ClusterMember>,
    /// Another process writes the row of this node's id. This process no longer does: both are
    /// configured with one id, or the other is a restart of this one. Stop this process.
    pub is_replaced: bool,
}

/// The membership of this node, and its task. [`Membership::leave`] ends both.
pub struct Membership {
    view: watch::Receiver<ClusterView>,
    stop: CancellationToken,
    task: JoinHandle<Heartbeat>,
}

impl Membership {
    /// Starts the heartbeat. The first view contains this node only.
    pub fn start(
        rows: Arc<dyn Rows>,
        identity: NodeIdentity,
        address: impl Into<Arc<str>>,
        settings: MembershipSettings,
    ) -> Membership {
        let own = ClusterMember { address: address.into(), boot: identity.boot };
        let live = BTreeMap::from([(identity.node.clone(), own.clone())]);
        let (published, view) = watch::channel(ClusterView { live, is_replaced: false });
        let heartbeat = Heartbeat::new(rows, identity.node, own, settings, published);
        let stop = CancellationToken::new();
        let task = tokio::spawn(heartbeat.run(stop.clone()));
        Membership { view, stop, task }
    }

    /// Watches the live nodes.
    pub fn watch(&self) -> watch::Receiver<ClusterView> {
        self.view.clone()
    }

    /// Ends the heartbeat and deletes the row of this node, so that other nodes notice at their
    /// next read. After an error the row stays until it times out.
    pub async fn leave(mut self) -> Result<(), StoreError> {
        self.stop.cancel();
        match (&mut self.task).await {
            Ok(heartbeat) => heartbeat.leave().await,
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
