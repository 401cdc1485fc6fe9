//! A fleet of servers with one store. It records the connects and disconnects that the servers
//! report.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bluetick_core::UserId;
use bluetick_core::ports::{CommitListener, Committed, CommittedChange, Ephemeral, Fleet, Store};
use bluetick_server::Hub;
use bluetick_store_memory::MemoryStore;
use tokio::sync::watch;

use crate::harness::{Setup, TIMEOUT};

#[derive(Clone, Default)]
pub struct TestFleet(Arc<FleetState>);

#[derive(Default)]
struct FleetState {
    nodes: Mutex<Vec<NodeState>>,
    calls: Mutex<Vec<String>>,
    held: watch::Sender<bool>,
}

struct NodeState {
    hub: Arc<Hub>,
    people: HashSet<UserId>,
    /// The node receives no changes.
    drops_events: bool,
}

impl TestFleet {
    /// Creates two nodes with one store.
    pub fn two() -> (TestFleet, [Setup; 2]) {
        let test_fleet = TestFleet::default();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::with_listener(Arc::new(test_fleet.clone())));
        let setup = |number| {
            let (test_fleet, store) = (test_fleet.clone(), Arc::clone(&store));
            let fleet = Arc::new(Node { test_fleet: test_fleet.clone(), number });
            let store = move |hub: Arc<Hub>| {
                test_fleet.join(hub);
                store
            };
            Setup { store: Box::new(store), fleet, ..Setup::default() }
        };
        let setups = [setup(0), setup(1)];
        (test_fleet, setups)
    }

    /// Creates one node with the store of `setup`.
    pub fn one(setup: Setup) -> (TestFleet, Setup) {
        let test_fleet = TestFleet::default();
        let fleet = Arc::new(Node { test_fleet: test_fleet.clone(), number: 0 });
        let (joining, store) = (test_fleet.clone(), setup.store);
        let store = move |hub: Arc<Hub>| {
            joining.join(Arc::clone(&hub));
            store(hub)
        };
        (test_fleet, Setup { store: Box::new(store), fleet, ..setup })
    }

    fn join(&self, hub: Arc<Hub>) {
        self.0.nodes.lock().unwrap().push(NodeState { hub, people: HashSet::new(), drops_events: false });
    }

    /// From now on this node receives no changes.
    pub fn drop_events(&self, number: usize) {
        self.0.nodes.lock().unwrap()[number].drops_events = true;
    }

    /// While held, reported connects and disconnects wait.
    pub fn hold(&self, held: bool) {
        self.0.held.send_replace(held);
    }

    /// Returns the reported connects and disconnects of all nodes, in order.
    pub fn calls(&self) -> Vec<String> {
        self.0.calls.lock().unwrap().clone()
    }

    pub async fn wait_for_calls(&self, expected: &[&str]) {
        let told = async {
            while self.calls() != expected {
                tokio::task::yield_now().await;
            }
        };
        let in_time = tokio::time::timeout(TIMEOUT, told).await;
        assert!(in_time.is_ok(), "{:?} instead of {expected:?}", self.calls());
    }
}

/// Every node receives every commit and delivers it to its connected users.
impl CommitListener for TestFleet {
    fn committed(&self, batch: Vec<Committed>) {
        self.0.nodes.lock().unwrap().iter().for_each(|node| node.hub.committed(batch.clone()));
    }

    fn changed(&self, batch: Vec<CommittedChange>) {
        let nodes = self.0.nodes.lock().unwrap();
        nodes.iter().filter(|node| !node.drops_events).for_each(|node| node.hub.changed(batch.clone()));
    }
}

struct Node {
    test_fleet: TestFleet,
    number: usize,
}

impl Node {
    async fn tell(&self, what: &str, user: &UserId) {
        self.test_fleet.0.held.subscribe().wait_for(|held| !held).await.unwrap();
        self.test_fleet.0.calls.lock().unwrap().push(format!("{user} {what} {}", self.number));
        let people = &mut self.test_fleet.0.nodes.lock().unwrap()[self.number].people;
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
        let nodes = self.test_fleet.0.nodes.lock().unwrap();
        nodes.iter().enumerate().any(|(number, node)| number != self.number && node.people.contains(user))
    }

    fn send_ephemeral(&self, ephemeral: Ephemeral) {
        let nodes = self.test_fleet.0.nodes.lock().unwrap();
        let others = nodes.iter().enumerate().filter(|(number, _)| *number != self.number);
        others.for_each(|(_, node)| node.hub.received_ephemeral(ephemeral.clone()));
    }
}
