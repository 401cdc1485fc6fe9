//! The bus inside one process, for simulations: the same contract as over TCP, with faults on
//! order.
//!
//! Time is tokio's, so a simulation with a paused clock controls every delay. Faults apply to one
//! direction: connections from one node to another.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, oneshot};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::bus::{Bus, BusError, BusHandler};
use super::queue::{BoundedQueue, QueueLimits, Queued};
use crate::NodeId;

/// The network between the nodes of one process.
#[derive(Clone)]
pub struct MemoryNetwork(Arc<Network>);

struct Network {
    limits: QueueLimits,
    call_timeout: Duration,
    state: Mutex<NetworkState>,
    stopped: CancellationToken,
    tasks: TaskTracker,
}

#[derive(Default)]
struct NetworkState {
    handlers: BTreeMap<NodeId, Arc<dyn BusHandler>>,
    /// Nodes that are known and do not run.
    dead: BTreeSet<NodeId>,
    connections: HashMap<Direction, Arc<Connection>>,
    /// The end of the latest connection, which a new one waits for.
    finished: HashMap<Direction, CancellationToken>,
    delays: HashMap<Direction, Duration>,
    blocked: BTreeSet<Direction>,
    /// Directions in which a notification was discarded without a connection.
    missed: BTreeSet<Direction>,
}

/// From a node to another.
type Direction = (NodeId, NodeId);

/// One node's bus.
pub struct MemoryBus {
    node: NodeId,
    network: MemoryNetwork,
}

struct Connection {
    queue: Mutex<BoundedQueue<Parcel>>,
    wake: Notify,
    /// Set from outside: nothing more is delivered.
    ended: CancellationToken,
    /// Set by the task of the connection after its last delivery.
    finished: CancellationToken,
    handler: Arc<dyn BusHandler>,
}

/// A call or a notification on its way.
struct Parcel {
    body: Bytes,
    /// Where the answer goes. `None` for a notification.
    answer: Option<oneshot::Sender<Result<Bytes, BusError>>>,
}

impl Queued for Parcel {
    fn body(&self) -> &Bytes {
        &self.body
    }
}

impl MemoryNetwork {
    pub fn new(limits: QueueLimits, call_timeout: Duration) -> MemoryNetwork {
        MemoryNetwork(Arc::new(Network {
            limits,
            call_timeout,
            state: Mutex::default(),
            stopped: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }))
    }

    /// Adds a node, or starts it again.
    pub fn join(&self, node: NodeId, handler: Arc<dyn BusHandler>) -> MemoryBus {
        self.kill(&node);
        let mut state = self.lock();
        state.dead.remove(&node);
        // A new process has missed nothing.
        state.missed.retain(|(_, to)| *to != node);
        state.handlers.insert(node.clone(), handler);
        MemoryBus { node, network: self.clone() }
    }

    /// Ends a node: all its connections end, and calls to it are [`BusError::NotSent`]. Calls that
    /// it executes go on: drop what its handler works for to stop them.
    pub fn kill(&self, node: &NodeId) {
        let directions: Vec<_> = self.lock().connections.keys().cloned().collect();
        for (from, to) in directions.iter().filter(|(from, to)| from == node || to == node) {
            self.disconnect(from, to);
        }
        let mut state = self.lock();
        if state.handlers.remove(node).is_some() {
            state.dead.insert(node.clone());
        }
    }

    /// Ends the connection, with everything that is on its way. The next call opens another one.
    pub fn disconnect(&self, from: &NodeId, to: &NodeId) {
        let connection = self.lock().connections.remove(&(from.clone(), to.clone()));
        if let Some(connection) = connection {
            connection.ended.cancel();
        }
    }

    /// Blocks a direction, or opens it again. Blocking also ends the connection.
    pub fn set_blocked(&self, from: &NodeId, to: &NodeId, is_blocked: bool) {
        let direction = (from.clone(), to.clone());
        if is_blocked {
            self.lock().blocked.insert(direction);
            self.disconnect(from, to);
            return;
        }
        let mut state = self.lock();
        state.blocked.remove(&direction);
        // As over TCP, the sender reconnects to report what it has discarded.
        if state.missed.contains(&direction) {
            let _still_dead = self.connection(&mut state, &direction);
        }
    }

    /// Delays everything that is sent in a direction from now on. Order stays.
    pub fn set_delay(&self, from: &NodeId, to: &NodeId, delay: Duration) {
        self.lock().delays.insert((from.clone(), to.clone()), delay);
    }

    /// Ends all connections and joins their tasks. Calls that still run are dropped.
    pub async fn shutdown(&self) {
        self.0.stopped.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
        *self.lock() = NetworkState::default();
    }

    fn lock(&self) -> MutexGuard<'_, NetworkState> {
        self.0.state.lock()
    }

    fn delay(&self, from: &NodeId, to: &NodeId) -> Duration {
        self.lock().delays.get(&(from.clone(), to.clone())).copied().unwrap_or_default()
    }

    /// Returns the connection, and opens it if there is none.
    fn connection(
        &self,
        state: &mut NetworkState,
        direction: &Direction,
    ) -> Result<Arc<Connection>, BusError> {
        if let Some(connection) = state.connections.get(direction) {
            return Ok(Arc::clone(connection));
        }
        let (from, to) = direction;
        let is_blocked = state.blocked.contains(direction) || !state.handlers.contains_key(from);
        let handler = match state.handlers.get(to) {
            Some(_) if from == to => return Err(BusError::UnknownNode),
            Some(handler) if !is_blocked && !self.0.stopped.is_cancelled() => Arc::clone(handler),
            None if !state.dead.contains(to) => return Err(BusError::UnknownNode),
            _ => return Err(BusError::NotSent),
        };
        let connection = Arc::new(Connection {
            queue: Mutex::new(BoundedQueue::new(self.0.limits)),
            wake: Notify::new(),
            ended: self.0.stopped.child_token(),
            finished: CancellationToken::new(),
            handler,
        });
        state.connections.insert(direction.clone(), Arc::clone(&connection));
        let previous = state.finished.insert(direction.clone(), connection.finished.clone());
        let deliver = self.clone().deliver(Arc::clone(&connection), direction.clone(), previous);
        self.0.tasks.spawn(deliver);
        Ok(connection)
    }

    /// Queues a parcel, or returns why not.
    fn send(&self, from: &NodeId, to: &NodeId, parcel: Parcel) -> Result<Arc<Connection>, BusError> {
        let direction = (from.clone(), to.clone());
        let mut state = self.lock();
        let connection = match self.connection(&mut state, &direction) {
            Err(BusError::NotSent) if parcel.answer.is_none() => {
                state.missed.insert(direction);
                return Err(BusError::NotSent);
            }
            connection => connection?,
        };
        if let Err(parcel) = connection.queue.lock().push(parcel) {
            if parcel.answer.is_none() {
                state.missed.insert(direction);
            }
            return Err(BusError::Overloaded);
        }
        connection.wake.notify_one();
        Ok(connection)
    }

    /// The task of a connection: delivers in order until the connection ends.
    async fn deliver(
        self,
        connection: Arc<Connection>,
        direction: Direction,
        previous: Option<CancellationToken>,
    ) {
        let (from, to) = &direction;
        if let Some(previous) = previous {
            previous.cancelled().await;
        }
        let deliveries = async {
            loop {
                let parcel = connection.queue.lock().pop();
                if self.lock().missed.remove(&direction) {
                    connection.handler.connection_lost(from);
                }
                let Some(parcel) = parcel else {
                    connection.wake.notified().await;
                    continue;
                };
                sleep(self.delay(from, to)).await;
                match parcel.answer {
                    None => connection.handler.notified(from, parcel.body),
                    Some(answer) => self.execute(&connection, &direction, parcel.body, answer),
                }
            }
        };
        tokio::select! {
            biased;
            () = connection.ended.cancelled() => {}
            () = deliveries => {}
        }
        for parcel in connection.queue.lock().drain() {
            if let Some(answer) = parcel.answer {
                let _caller_gone = answer.send(Err(BusError::NotSent));
            }
        }
        connection.handler.connection_lost(from);
        connection.finished.cancel();
    }

    fn execute(
        &self,
        connection: &Arc<Connection>,
        direction: &Direction,
        body: Bytes,
        answer: oneshot::Sender<Result<Bytes, BusError>>,
    ) {
        let (network, connection) = (self.clone(), Arc::clone(connection));
        let (from, to) = direction.clone();
        self.0.tasks.spawn(async move {
            let execute = async {
                let result = connection.handler.call(&from, body).await;
                sleep(network.delay(&to, &from)).await;
                let is_ended = connection.ended.is_cancelled();
                let result = if is_ended { Err(BusError::NoAnswer) } else { result.map_err(BusError::from) };
                let _caller_gone = answer.send(result);
            };
            tokio::select! {
                () = network.0.stopped.cancelled() => {}
                () = execute => {}
            }
        });
    }
}

#[async_trait]
impl Bus for MemoryBus {
    async fn call(&self, to: &NodeId, body: Bytes) -> Result<Bytes, BusError> {
        let (sender, mut answer) = oneshot::channel();
        let parcel = Parcel { body, answer: Some(sender) };
        let connection = self.network.send(&self.node, to, parcel)?;
        let answered = async {
            tokio::select! {
                biased;
                answer = &mut answer => answer.unwrap_or(Err(BusError::NoAnswer)),
                () = connection.ended.cancelled() => Err(BusError::NoAnswer),
            }
        };
        timeout(self.network.0.call_timeout, answered).await.unwrap_or(Err(BusError::NoAnswer))
    }

    fn notify(&self, to: &NodeId, body: Bytes) -> Result<(), BusError> {
        self.network.send(&self.node, to, Parcel { body, answer: None }).map(|_| ())
    }
}
