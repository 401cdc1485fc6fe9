//! Servers that serve one store, and between them a fleet that remembers what it was told.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bluetick_core::UserId;
use bluetick_core::ports::{Change, CommitListener, Committed, Ephemeral, Fleet, Store};
use bluetick_server::Hub;
use bluetick_store_memory::MemoryStore;
use tokio::sync::watch;

use crate::harness::{PATIENCE, Setup};

#[derive(Clone, Default)]
pub struct Ring(Arc<Shared>);

#[derive(Default)]
struct Shared {
    nodes: Mutex<Vec<NodeState>>,
    told: Mutex<Vec<String>>,
    held: watch::Sender<bool>,
}

struct NodeState {
    hub: Arc<Hub>,
    people: HashSet<UserId>,
    /// No change reaches it.
    is_deaf: bool,
}

impl Ring {
    /// Two nodes with one store.
    pub fn two() -> (Ring, [Setup; 2]) {
        let ring = Ring::default();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::with_listener(Arc::new(ring.clone())));
        let setup = |number| {
            let (ring, store) = (ring.clone(), Arc::clone(&store));
            let fleet = Arc::new(Node { ring: ring.clone(), number });
            let store = move |hub: Arc<Hub>| {
                ring.join(hub);
                store
            };
            Setup { store: Box::new(store), fleet, ..Setup::default() }
        };
        let setups = [setup(0), setup(1)];
        (ring, setups)
    }

    /// A node by itself, in front of whatever store the setup has.
    pub fn one(setup: Setup) -> (Ring, Setup) {
        let ring = Ring::default();
        let fleet = Arc::new(Node { ring: ring.clone(), number: 0 });
        let (joining, store) = (ring.clone(), setup.store);
        let store = move |hub: Arc<Hub>| {
            joining.join(Arc::clone(&hub));
            store(hub)
        };
        (ring, Setup { store: Box::new(store), fleet, ..setup })
    }

    fn join(&self, hub: Arc<Hub>) {
        self.0.nodes.lock().unwrap().push(NodeState { hub, people: HashSet::new(), is_deaf: false });
    }

    /// From now on this node hears of no change.
    pub fn deafen(&self, number: usize) {
        self.0.nodes.lock().unwrap()[number].is_deaf = true;
    }

    /// While held, comings and goings wait.
    pub fn hold(&self, held: bool) {
        self.0.held.send_replace(held);
    }

    /// What the fleet was told by node 0 or 1, in order.
    pub fn told(&self) -> Vec<String> {
        self.0.told.lock().unwrap().clone()
    }

    pub async fn is_told(&self, expected: &[&str]) {
        let told = async {
            while self.told() != expected {
                tokio::task::yield_now().await;
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, told).await;
        assert!(in_time.is_ok(), "{:?} instead of {expected:?}", self.told());
    }
}

/// Every node hears of everything, and passes on what is for the people it has.
impl CommitListener for Ring {
    fn committed(&self, batch: Vec<Committed>) {
        self.0.nodes.lock().unwrap().iter().for_each(|node| node.hub.committed(batch.clone()));
    }

    fn changed(&self, batch: Vec<Change>) {
        let nodes = self.0.nodes.lock().unwrap();
        nodes.iter().filter(|node| !node.is_deaf).for_each(|node| node.hub.changed(batch.clone()));
    }
}

struct Node {
    ring: Ring,
    number: usize,
}

impl Node {
    async fn tell(&self, what: &str, user: &UserId) {
        self.ring.0.held.subscribe().wait_for(|held| !held).await.unwrap();
        self.ring.0.told.lock().unwrap().push(format!("{user} {what} {}", self.number));
        let people = &mut self.ring.0.nodes.lock().unwrap()[self.number].people;
        match what {
            "came" => people.insert(user.clone()),
            _ => people.remove(user),
        };
    }
}

#[async_trait]
impl Fleet for Node {
    async fn user_connected(&self, user: &UserId) {
        self.tell("came", user).await;
    }

    async fn user_disconnected(&self, user: &UserId) {
        self.tell("went", user).await;
    }

    async fn is_connected_elsewhere(&self, user: &UserId) -> bool {
        let nodes = self.ring.0.nodes.lock().unwrap();
        nodes.iter().enumerate().any(|(number, node)| number != self.number && node.people.contains(user))
    }

    fn send_ephemeral(&self, ephemeral: Ephemeral) {
        let nodes = self.ring.0.nodes.lock().unwrap();
        let others = nodes.iter().enumerate().filter(|(number, _)| *number != self.number);
        others.for_each(|(_, node)| node.hub.received_ephemeral(ephemeral.clone()));
    }
}
