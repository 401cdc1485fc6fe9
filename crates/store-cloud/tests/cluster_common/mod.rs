//! Shared by the tests of the cluster: a handler that records, nodes over TCP, and a proxy that
//! breaks connections.
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub mod proxy;
pub mod raw;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bluetick_core::ports::SystemRandom;
use bluetick_store_cloud::NodeId;
use bluetick_store_cloud::cluster::bus::{BusHandler, CallRefusal};
use bluetick_store_cloud::cluster::fleet_key::FleetKey;
use bluetick_store_cloud::cluster::membership::ClusterMember;
use bluetick_store_cloud::cluster::transport::{BusSettings, TcpBus};
use bluetick_store_cloud::cluster::{BootId, NodeIdentity};
use bytes::Bytes;
use tokio::sync::{Mutex, Semaphore, mpsc};

/// How long a test waits for an event. It only expires if the event never comes.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub const KEY: [u8; 32] = [42; 32];

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Executing(Bytes),
    Notified(NodeId, Bytes),
    Lost(NodeId),
}

/// Records events. The body of a call says what the handler does.
pub struct Recorder {
    events: mpsc::UnboundedSender<Event>,
    received: Mutex<mpsc::UnboundedReceiver<Event>>,
    /// Calls that begin with `wait` take a permit before they return.
    pub permits: Semaphore,
    pub executed: AtomicUsize,
}

impl Default for Recorder {
    fn default() -> Recorder {
        let (events, received) = mpsc::unbounded_channel();
        Recorder {
            events,
            received: Mutex::new(received),
            permits: Semaphore::new(0),
            executed: AtomicUsize::new(0),
        }
    }
}

impl Recorder {
    pub async fn next(&self) -> Event {
        let event = async { self.received.lock().await.recv().await.expect("the recorder has a sender") };
        tokio::time::timeout(PATIENCE, event).await.expect("an event comes")
    }

    /// Skips events until one fits.
    pub async fn until(&self, fits: impl Fn(&Event) -> bool) -> Event {
        loop {
            let event = self.next().await;
            if fits(&event) {
                return event;
            }
        }
    }

    pub async fn until_lost(&self, from: &NodeId) {
        self.until(|event| *event == Event::Lost(from.clone())).await;
    }

    /// Returns what has come so far.
    pub async fn drain(&self) -> Vec<Event> {
        let mut received = self.received.lock().await;
        std::iter::from_fn(|| received.try_recv().ok()).collect()
    }

    pub fn executed(&self) -> usize {
        self.executed.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl BusHandler for Recorder {
    async fn call(&self, _from: &NodeId, body: Bytes) -> Result<Bytes, CallRefusal> {
        self.executed.fetch_add(1, Ordering::SeqCst);
        let _test_ended = self.events.send(Event::Executing(body.clone()));
        match &body[..] {
            b"refuse overloaded" => Err(CallRefusal::Overloaded),
            b"refuse draining" => Err(CallRefusal::Draining),
            b"refuse unsupported" => Err(CallRefusal::Unsupported),
            b"large" => Ok(Bytes::from(vec![7; 64 * 1024])),
            body if body.starts_with(b"wait") => {
                self.permits.acquire().await.expect("never closed").forget();
                Ok(Bytes::copy_from_slice(body))
            }
            _ => Ok(body),
        }
    }

    fn notified(&self, from: &NodeId, body: Bytes) {
        let _test_ended = self.events.send(Event::Notified(from.clone(), body));
    }

    fn connection_lost(&self, from: &NodeId) {
        let _test_ended = self.events.send(Event::Lost(from.clone()));
    }
}

pub fn node(name: &str) -> NodeId {
    NodeId::new(name)
}

pub fn member(address: impl ToString, boot: BootId) -> ClusterMember {
    ClusterMember { address: address.to_string().into(), boot }
}

/// Short backoff, and no other timeout that a busy machine could reach.
pub fn patient() -> BusSettings {
    BusSettings {
        call_timeout: PATIENCE,
        connect_timeout: PATIENCE,
        idle_timeout: PATIENCE,
        drain_timeout: PATIENCE,
        reconnect_backoff: (Duration::from_millis(5), Duration::from_millis(50)),
        ..BusSettings::default()
    }
}

/// A node over TCP.
pub struct TcpNode {
    pub bus: Arc<TcpBus>,
    pub recorder: Arc<Recorder>,
    pub identity: NodeIdentity,
}

impl TcpNode {
    pub async fn start(name: &str, settings: BusSettings) -> TcpNode {
        TcpNode::start_with_key(name, settings, KEY).await
    }

    pub async fn start_with_key(name: &str, settings: BusSettings, key: [u8; 32]) -> TcpNode {
        let identity = NodeIdentity { node: node(name), boot: BootId::draw(&SystemRandom) };
        let recorder = Arc::new(Recorder::default());
        let bus = TcpBus::start(
            "127.0.0.1:0".parse().unwrap(),
            identity.clone(),
            &FleetKey::new(key),
            settings,
            Arc::new(SystemRandom),
            Arc::clone(&recorder) as Arc<dyn BusHandler>,
        )
        .await
        .unwrap();
        TcpNode { bus: Arc::new(bus), recorder, identity }
    }

    pub fn id(&self) -> &NodeId {
        &self.identity.node
    }

    pub fn member(&self) -> ClusterMember {
        member(self.bus.local_address(), self.identity.boot)
    }

    /// Lets this node call others.
    pub fn knows(&self, others: &[&TcpNode]) {
        let members = others.iter().map(|other| (other.id().clone(), other.member()));
        self.bus.set_peers(&members.collect::<BTreeMap<_, _>>());
    }
}

/// Repeats an attempt until it succeeds: a connection needs a pause after a failure.
pub async fn eventually<Output>(what: &str, mut attempt: impl AsyncFnMut() -> Option<Output>) -> Output {
    let repeat = async {
        loop {
            if let Some(output) = attempt().await {
                return output;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, repeat).await.unwrap_or_else(|_| panic!("never happened: {what}"))
}
