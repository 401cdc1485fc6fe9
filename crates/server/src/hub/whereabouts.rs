//! The presence directory: which users are connected to this node (from the sessions) or to another
//! node (from the fleet). Announcing presence does not belong here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use bluetick_core::UserId;
use bluetick_core::ports::{Ephemeral, Fleet, FleetCounters};

use super::Sessions;

/// Answers where users are connected, and reports this node's connections to the fleet.
#[derive(Clone)]
pub(crate) struct Whereabouts {
    sessions: Arc<Sessions>,
    fleet: Arc<dyn Fleet>,
    turns: Arc<Turns>,
}

impl Whereabouts {
    pub fn new(sessions: Arc<Sessions>, fleet: Arc<dyn Fleet>) -> Whereabouts {
        Whereabouts { sessions, fleet, turns: Arc::default() }
    }

    /// Whether the user is connected to any node.
    pub async fn is_online(&self, user: &UserId) -> bool {
        self.sessions.is_online(user) || self.fleet.is_connected_elsewhere(user).await
    }

    /// Reports to the fleet that a connection of the user is registered. Everything committed after
    /// this returns reaches the connection. Must complete before [`Whereabouts::went`] runs for the
    /// same connection. Returns whether a first connection to this node finds the user connected to
    /// another node.
    pub async fn user_connected(&self, user: &UserId, is_first: bool) -> bool {
        let place = self.turns.place(user);
        let _turn = place.turn.lock().await;
        // Ask before this node is in the directory. If the user connects to two nodes at once, at
        // least one of them then sees the user as new.
        let was_elsewhere = is_first && self.fleet.is_connected_elsewhere(user).await;
        self.fleet.user_connected(user).await;
        was_elsewhere
    }

    /// Reports to the fleet that the user's last connection to this node has ended, unless the user
    /// has reconnected.
    pub async fn user_disconnected(&self, user: &UserId) {
        let place = self.turns.place(user);
        let _turn = place.turn.lock().await;
        // A connection made meanwhile is registered, and its `came` has run or waits for the lock.
        if !self.sessions.is_online(user) {
            self.fleet.user_disconnected(user).await;
        }
    }

    pub fn counters(&self) -> Option<FleetCounters> {
        self.fleet.counters()
    }

    /// Sends an ephemeral event to the other nodes, without waiting. It may be lost.
    pub fn send_ephemeral(&self, ephemeral: Ephemeral) {
        self.fleet.send_ephemeral(ephemeral);
    }
}

/// Serialises `came` and `went` of one user. Different users do not wait for each other.
#[derive(Default)]
struct Turns(Mutex<HashMap<UserId, Arc<Turn>>>);

type Turn = tokio::sync::Mutex<()>;

impl Turns {
    fn all(&self) -> MutexGuard<'_, HashMap<UserId, Arc<Turn>>> {
        self.0.lock().expect("nothing panics while it holds the lock")
    }

    fn place<'a>(&'a self, user: &'a UserId) -> Place<'a> {
        let turn = Arc::clone(self.all().entry(user.clone()).or_default());
        Place { turns: self, user, turn }
    }
}

/// A reference to the lock of one user. Dropping the last one removes the lock from the map.
struct Place<'a> {
    turns: &'a Turns,
    user: &'a UserId,
    turn: Arc<Turn>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut all = self.turns.all();
        // Two references are left: the map's and this one. New ones are created under the same
        // lock.
        if Arc::strong_count(&self.turn) <= 2 {
            all.remove(self.user);
        }
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use bluetick_core::TokenFacts;
    use futures_util::FutureExt;
    use prometheus_client::metrics::gauge::Gauge;
    use tokio::sync::Semaphore;

    use super::*;
    use crate::hub::{Outbox, Registration};

    /// A fleet that records its calls. Each call completes when the test adds a permit.
    struct Slow {
        comings: Semaphore,
        goings: Semaphore,
        told: Mutex<Vec<String>>,
    }

    #[async_trait]
    impl Fleet for Slow {
        async fn user_connected(&self, user: &UserId) {
            self.comings.acquire().await.unwrap().forget();
            self.told.lock().unwrap().push(format!("{user} came"));
        }

        async fn user_disconnected(&self, user: &UserId) {
            self.goings.acquire().await.unwrap().forget();
            self.told.lock().unwrap().push(format!("{user} went"));
        }

        async fn is_connected_elsewhere(&self, _: &UserId) -> bool {
            false
        }

        fn send_ephemeral(&self, _: Ephemeral) {}
    }

    struct World {
        fleet: Arc<Slow>,
        sessions: Arc<Sessions>,
        whereabouts: Whereabouts,
    }

    impl World {
        fn new() -> World {
            let [comings, goings] = [Semaphore::new(0), Semaphore::new(0)];
            let fleet = Arc::new(Slow { comings, goings, told: Mutex::default() });
            let sessions = Arc::<Sessions>::default();
            let whereabouts = Whereabouts::new(Arc::clone(&sessions), fleet.clone());
            World { fleet, sessions, whereabouts }
        }

        fn connect(&self, name: &str) -> Registration<'_> {
            let outbox = Outbox::new(1_000, Gauge::default());
            let token = TokenFacts::default();
            self.sessions.register(self.sessions.next_id(), user(name), token, outbox, usize::MAX).unwrap()
        }

        fn told(&self) -> Vec<String> {
            self.fleet.told.lock().unwrap().clone()
        }
    }

    fn user(name: &str) -> UserId {
        name.parse().unwrap()
    }

    #[tokio::test]
    async fn whoever_comes_while_its_last_connection_goes_is_there_in_the_end() {
        let (world, alice) = (World::new(), user("alice"));
        assert!(world.connect("alice").end(), "it was the last");
        let mut going = Box::pin(world.whereabouts.user_disconnected(&alice));
        assert!(going.as_mut().now_or_never().is_none(), "the fleet is being told");
        let _phone = world.connect("alice");
        let mut coming = Box::pin(world.whereabouts.user_connected(&alice, true));
        world.fleet.comings.add_permits(1);
        assert!(coming.as_mut().now_or_never().is_none(), "it waits for the going that was first");
        world.fleet.goings.add_permits(1);
        futures_util::future::join(coming, going).await;
        assert_eq!(world.told(), ["alice went", "alice came"]);
        assert!(world.whereabouts.turns.all().is_empty(), "nothing is kept of those who had their turn");
    }

    #[tokio::test]
    async fn a_going_that_comes_too_late_is_not_told() {
        let (world, alice) = (World::new(), user("alice"));
        world.connect("alice").end();
        let _phone = world.connect("alice");
        world.fleet.comings.add_permits(1);
        world.fleet.goings.add_permits(1);
        world.whereabouts.user_connected(&alice, true).await;
        world.whereabouts.user_disconnected(&alice).await;
        assert_eq!(world.told(), ["alice came"]);
    }

    #[tokio::test]
    async fn nobody_waits_for_somebody_else_and_whoever_gives_up_waiting_leaves_nothing_behind() {
        let world = World::new();
        let (alice, bob) = (user("alice"), user("bob"));
        let mut first = Box::pin(world.whereabouts.user_connected(&alice, true));
        let mut second = Box::pin(world.whereabouts.user_connected(&alice, false));
        assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
        let mut other = Box::pin(world.whereabouts.user_connected(&bob, true));
        assert!(other.as_mut().now_or_never().is_none());
        drop(first);
        world.fleet.comings.add_permits(1);
        other.await;
        assert_eq!(world.told(), ["bob came"]);
        drop(second);
        assert!(world.whereabouts.turns.all().is_empty());
    }
}
