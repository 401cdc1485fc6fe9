//! The bus over direct TCP connections.
//!
//! Each node opens one connection to each node that it calls, on demand, and keeps it. The
//! connection carries calls and notifications one way, and answers back. [`handshake`]
//! authenticates it, [`frame`] encrypts it, [`peer`] is the side that opens it, [`server`] the side
//! that accepts. TLS below it is optional.
//!
//! The meaning of bodies and the liveness of nodes do not belong here.

mod frame;
mod handshake;
mod inbound;
mod peer;
mod server;
mod settings;
mod tls;
mod waiting;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use bluetick_core::ports::Random;
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::NodeIdentity;
use super::bus::{Bus, BusError, BusHandler};
use super::fleet_key::FleetKey;
use super::membership::ClusterMember;
use crate::NodeId;
use handshake::Credentials;
use peer::Peer;
use server::Server;

pub use server::BusCounts;
pub use settings::BusSettings;
pub use tls::ClusterTlsSettings;

/// What all connections of a node share.
struct TransportContext {
    settings: BusSettings,
    credentials: Credentials,
    tls: Option<tls::ClusterTls>,
    random: Arc<dyn Random>,
    /// The node takes no new calls in either direction.
    draining: CancellationToken,
    /// Connections write what is queued and end.
    closing: CancellationToken,
    /// Everything ends at once.
    aborted: CancellationToken,
    /// The tasks of the listener and of all connections.
    tasks: TaskTracker,
}

/// The TCP adapter of [`Bus`]. The owner calls [`TcpBus::shutdown`], which joins all tasks.
pub struct TcpBus {
    context: Arc<TransportContext>,
    server: Arc<Server>,
    local_address: SocketAddr,
    peers: Mutex<PeerTable>,
}

/// The nodes that can be called.
#[derive(Default)]
struct PeerTable {
    by_node: HashMap<NodeId, Arc<Peer>>,
    /// Nodes that are not in the table and may have missed a notification. If one of them returns,
    /// its first connection reports that.
    missed: HashSet<NodeId>,
    has_forgotten_missed: bool,
}

/// Upper bound on [`PeerTable::missed`]. Above it, the first connection to each new node reports a
/// loss.
const MAX_MISSED: usize = 4_096;

impl PeerTable {
    fn note_missed(&mut self, node: NodeId) {
        if self.missed.len() < MAX_MISSED {
            self.missed.insert(node);
        } else {
            self.has_forgotten_missed = true;
        }
    }
}

impl TcpBus {
    /// Listens and serves `handler`. The bus knows no other node before [`TcpBus::set_peers`].
    pub async fn start(
        listen: SocketAddr,
        identity: NodeIdentity,
        key: &FleetKey,
        settings: BusSettings,
        random: Arc<dyn Random>,
        handler: Arc<dyn BusHandler>,
    ) -> io::Result<TcpBus> {
        let listener = TcpListener::bind(listen).await?;
        let local_address = listener.local_addr()?;
        let context = Arc::new(TransportContext {
            tls: settings.tls.as_ref().map(tls::ClusterTls::new).transpose()?,
            credentials: Credentials::new(identity, key),
            settings,
            random,
            draining: CancellationToken::new(),
            closing: CancellationToken::new(),
            aborted: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        let server = Arc::new(Server::new(Arc::clone(&context), handler));
        context.tasks.spawn(Arc::clone(&server).listen(listener));
        Ok(TcpBus { context, server, local_address, peers: Mutex::default() })
    }

    /// The address of the listener, with the port that the system chose for port 0.
    pub fn local_address(&self) -> SocketAddr {
        self.local_address
    }

    /// Replaces the nodes that can be called. This node itself is skipped. The connection to a node
    /// that is removed, has moved or has restarted writes what is queued and ends.
    pub fn set_peers(&self, members: &BTreeMap<NodeId, ClusterMember>) {
        let mut peers = self.lock();
        let is_old = |node: &NodeId, peer: &mut Arc<Peer>| members.get(node) != Some(&peer.member);
        let old: Vec<_> = peers.by_node.extract_if(is_old).collect();
        for (node, peer) in old {
            peer.close();
            peers.note_missed(node);
        }
        for (node, member) in members {
            if *node != self.context.credentials.identity().node && !peers.by_node.contains_key(node) {
                let has_missed = peers.missed.remove(node) || peers.has_forgotten_missed;
                let context = Arc::clone(&self.context);
                let peer = Arc::new(Peer::new(node.clone(), member.clone(), context, has_missed));
                self.context.tasks.spawn(Arc::clone(&peer).run());
                peers.by_node.insert(node.clone(), peer);
            }
        }
    }

    /// Returns counts since the start, for metrics.
    pub fn counts(&self) -> BusCounts {
        self.server.counts()
    }

    /// Ends in this order: refuse new calls, finish the running ones, write what is queued, close
    /// the connections, join all tasks. Takes at most twice the drain timeout; after it, running
    /// calls are dropped.
    pub async fn shutdown(&self) {
        let drain_timeout = self.context.settings.drain_timeout;
        self.context.draining.cancel();
        // On expiry, the calls are dropped below.
        let _expired = timeout(drain_timeout, self.server.join_calls()).await;
        self.context.closing.cancel();
        self.context.tasks.close();
        let _expired = timeout(drain_timeout, self.context.tasks.wait()).await;
        self.context.aborted.cancel();
        self.context.tasks.wait().await;
        self.server.join_calls().await;
    }

    fn lock(&self) -> MutexGuard<'_, PeerTable> {
        self.peers.lock()
    }
}

#[async_trait]
impl Bus for TcpBus {
    async fn call(&self, to: &NodeId, body: Bytes) -> Result<Bytes, BusError> {
        let peer = self.lock().by_node.get(to).cloned();
        peer.ok_or(BusError::UnknownNode)?.call(body).await
    }

    fn notify(&self, to: &NodeId, body: Bytes) -> Result<(), BusError> {
        let mut peers = self.lock();
        if let Some(peer) = peers.by_node.get(to) {
            return peer.notify(body);
        }
        peers.note_missed(to.clone());
        Err(BusError::UnknownNode)
    }
}

impl Drop for TcpBus {
    fn drop(&mut self) {
        for token in [&self.context.draining, &self.context.closing, &self.context.aborted] {
            token.cancel();
        }
    }
}
