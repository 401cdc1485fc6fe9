//! The side that accepts connections: it authenticates them and serves the handler.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::TransportContext;
use super::frame::ConnectionError;
use super::handshake::PendingAccept;
use super::inbound::Inbound;
use super::tls::{self, ByteStream};
use crate::NodeId;
use crate::cluster::bus::BusHandler;

/// Pause after the system could not accept a connection, for example without file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusCounts {
    /// Accepted connections that did not authenticate.
    pub rejected: u64,
    /// Accepted connections that authenticated.
    pub accepted: u64,
}

pub(super) struct Server {
    pub context: Arc<TransportContext>,
    pub handler: Arc<dyn BusHandler>,
    /// The tasks of running calls. They outlive their connection.
    pub calls: TaskTracker,
    /// The bytes of calls that may still start.
    pub executing: Arc<Semaphore>,
    /// The connection of each node: at most one.
    inbound: Mutex<HashMap<NodeId, Registered>>,
    /// Connections without authentication, the oldest first.
    unauthenticated: Mutex<VecDeque<(u64, CancellationToken)>>,
    rejected: AtomicU64,
    accepted: AtomicU64,
}

/// A connection in the table of connections.
struct Registered {
    number: u64,
    replaced: CancellationToken,
    finished: CancellationToken,
}

impl Server {
    pub fn new(context: Arc<TransportContext>, handler: Arc<dyn BusHandler>) -> Server {
        let executing = Arc::new(Semaphore::new(context.settings.max_executing_bytes));
        Server {
            context,
            handler,
            calls: TaskTracker::new(),
            executing,
            inbound: Mutex::default(),
            unauthenticated: Mutex::default(),
            rejected: AtomicU64::new(0),
            accepted: AtomicU64::new(0),
        }
    }

    pub fn counts(&self) -> BusCounts {
        BusCounts {
            rejected: self.rejected.load(Ordering::Relaxed),
            accepted: self.accepted.load(Ordering::Relaxed),
        }
    }

    /// Waits until no call runs.
    pub async fn join_calls(&self) {
        self.calls.close();
        self.calls.wait().await;
    }

    /// Accepts connections until the node shuts down.
    pub async fn listen(self: Arc<Self>, listener: TcpListener) {
        for number in 0.. {
            let accepted = tokio::select! {
                () = self.context.draining.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((tcp, address)) => {
                    let evicted = self.enter_unauthenticated(number);
                    let serve = Arc::clone(&self).serve(tcp, address, number, evicted);
                    self.context.tasks.spawn(serve);
                }
                Err(error) => {
                    tracing::warn!(%error, "cluster listener cannot accept; will retry");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Makes room by ending the oldest connection: a node that has the key needs one round trip, so
    /// silent clients cannot keep it out.
    fn enter_unauthenticated(&self, number: u64) -> CancellationToken {
        let evicted = CancellationToken::new();
        let mut connections = self.unauthenticated.lock();
        connections.push_back((number, evicted.clone()));
        if connections.len() > self.context.settings.max_unauthenticated
            && let Some((_, oldest)) = connections.pop_front()
        {
            oldest.cancel();
        }
        evicted
    }

    fn leave_unauthenticated(&self, number: u64) {
        let mut connections = self.unauthenticated.lock();
        connections.retain(|(other, _)| *other != number);
    }

    async fn serve(
        self: Arc<Self>,
        tcp: TcpStream,
        address: SocketAddr,
        number: u64,
        evicted: CancellationToken,
    ) {
        let authenticated = tokio::select! {
            () = evicted.cancelled() => Err(ConnectionError::Handshake("too many unauthenticated connections")),
            () = self.context.draining.cancelled() => Err(ConnectionError::Handshake("shutdown")),
            authenticated = self.authenticate(tcp) => authenticated,
        };
        self.leave_unauthenticated(number);
        let result = match authenticated {
            Ok((io, pending)) => self.serve_authenticated(io, pending, number).await,
            Err(error) => Err(error),
        };
        if let Err(error) = result {
            self.rejected.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(%address, %error, "cluster connection refused");
        }
    }

    async fn authenticate(
        &self,
        tcp: TcpStream,
    ) -> Result<(Box<dyn ByteStream>, PendingAccept), ConnectionError> {
        let TransportContext { settings, credentials, tls, random, .. } = &*self.context;
        let handshake = async {
            let mut io = tls::accept(tls.as_ref(), tcp).await?;
            let pending = credentials.challenge(&mut io, &**random).await?;
            Ok((io, pending))
        };
        timeout(settings.connect_timeout, handshake).await.unwrap_or(Err(ConnectionError::Silent))
    }

    /// Serves a node until its connection ends. Fails only before the first frame.
    async fn serve_authenticated(
        self: &Arc<Self>,
        mut io: Box<dyn ByteStream>,
        pending: PendingAccept,
        number: u64,
    ) -> Result<(), ConnectionError> {
        let node = pending.peer.identity.node.clone();
        let (registration, previous) = self
            .register(node.clone(), number)
            .ok_or(ConnectionError::Handshake("too many nodes are connected"))?;
        if let Some(previous) = previous {
            // The handler has got everything of the earlier connection before this one starts.
            previous.cancelled().await;
        }
        let patience = self.context.settings.connect_timeout;
        let accept = timeout(patience, pending.accept(&mut io)).await;
        let peer = accept.unwrap_or(Err(ConnectionError::NotReading))?;
        self.accepted.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(%node, boot = %peer.identity.boot, "cluster connection accepted");

        let inbound = Arc::new(Inbound::new(Arc::clone(self), node.clone()));
        let ended = tokio::select! {
            ended = inbound.exchange(io, peer) => ended,
            () = registration.replaced.cancelled() => Ok(()),
            () = self.context.aborted.cancelled() => Ok(()),
        };
        if let Err(error) = ended {
            tracing::info!(%node, %error, "cluster connection ended");
        }
        Ok(())
    }

    /// Makes this the only connection of the node. The newest one wins: the earlier one may be half
    /// open, or belong to a process that was replaced. Returns what ends when the earlier one has
    /// ended, and `None` if too many nodes are connected.
    fn register(
        self: &Arc<Self>,
        node: NodeId,
        number: u64,
    ) -> Option<(Registration, Option<CancellationToken>)> {
        let mut inbound = self.inbound.lock();
        if inbound.len() >= self.context.settings.max_inbound_nodes && !inbound.contains_key(&node) {
            return None;
        }
        let registered =
            Registered { number, replaced: CancellationToken::new(), finished: CancellationToken::new() };
        let registration = Registration {
            server: Arc::clone(self),
            node: node.clone(),
            number,
            replaced: registered.replaced.clone(),
            finished: registered.finished.clone(),
        };
        let previous = inbound.insert(node, registered).map(|previous| {
            previous.replaced.cancel();
            previous.finished
        });
        Some((registration, previous))
    }
}

/// A registered connection. Its drop reports the end to the handler and lets a newer one start,
/// also when a handler panics.
struct Registration {
    server: Arc<Server>,
    node: NodeId,
    number: u64,
    replaced: CancellationToken,
    finished: CancellationToken,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.server.handler.connection_lost(&self.node);
        {
            let mut inbound = self.server.inbound.lock();
            if inbound.get(&self.node).is_some_and(|registered| registered.number == self.number) {
                inbound.remove(&self.node);
            }
        }
        self.finished.cancel();
    }
}
