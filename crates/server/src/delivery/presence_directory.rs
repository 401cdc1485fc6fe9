//! The presence directory: which users are connected to this node (from the sessions) or to another
//! node (from the fleet). Announcing presence does not belong here.

use std::collections::HashMap;
use std::sync::Arc;

use bluetick_core::UserId;
use bluetick_core::ports::{Ephemeral, Fleet, FleetCounters};
use parking_lot::{Mutex, MutexGuard};

use super::Sessions;

/// Answers where users are connected, and reports this node's connections to the fleet.
#[derive(Clone)]
pub(crate) struct PresenceDirectory {
    sessions: Arc<Sessions>,
    fleet: Arc<dyn Fleet>,
    user_locks: Arc<UserLocks>,
}

impl PresenceDirectory {
    pub fn new(sessions: Arc<Sessions>, fleet: Arc<dyn Fleet>) -> PresenceDirectory {
        PresenceDirectory { sessions, fleet, user_locks: Arc::default() }
    }

    /// Whether the user is connected to any node.
    pub async fn is_online(&self, user: &UserId) -> bool {
        self.sessions.is_online(user) || self.fleet.is_connected_elsewhere(user).await
    }

    /// Reports to the fleet that a connection of the user is registered. Everything committed after
    /// this returns reaches the connection. Must complete before
    /// [`PresenceDirectory::user_disconnected`] runs for the same connection. Returns whether a
    /// first connection to this node finds the user connected to another node.
    pub async fn user_connected(&self, user: &UserId, is_first: bool) -> bool {
        let lock_ref = self.user_locks.lock_of(user);
        let _locked = lock_ref.lock.lock().await;
        // Ask before this node is in the directory. If the user connects to two nodes at once, at
        // least one of them then sees the user as new.
        let was_elsewhere = is_first && self.fleet.is_connected_elsewhere(user).await;
        self.fleet.user_connected(user).await;
        was_elsewhere
    }

    /// Reports to the fleet that the user's last connection to this node has ended, unless the user
    /// has reconnected.
    pub async fn user_disconnected(&self, user: &UserId) {
        let lock_ref = self.user_locks.lock_of(user);
        let _locked = lock_ref.lock.lock().await;
        // A connection made meanwhile is registered, and its `user_connected` has run or waits.
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

/// Serialises the reports about one user to the fleet. Different users do not wait for each other.
#[derive(Default)]
struct UserLocks(Mutex<HashMap<UserId, Arc<UserLock>>>);

type UserLock = tokio::sync::Mutex<()>;

impl UserLocks {
    fn map(&self) -> MutexGuard<'_, HashMap<UserId, Arc<UserLock>>> {
        self.0.lock()
    }

    fn lock_of<'a>(&'a self, user: &'a UserId) -> UserLockRef<'a> {
        let lock = Arc::clone(self.map().entry(user.clone()).or_default());
        UserLockRef { user_locks: self, user, lock }
    }
}

/// A reference to the lock of one user. Dropping the last one removes the lock from the map.
struct UserLockRef<'a> {
    user_locks: &'a UserLocks,
    user: &'a UserId,
    lock: Arc<UserLock>,
}

impl Drop for UserLockRef<'_> {
    fn drop(&mut self) {
        let mut map = self.user_locks.map();
        // Two references are left: the map's and this one. New ones are created under the same
        // lock.
        if Arc::strong_count(&self.lock) <= 2 {
            map.remove(self.user);
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
    use crate::delivery::{ConnectionOutbox, Registration};

    /// A fleet that records its calls. Each call completes when the test adds a permit.
    struct SlowFleet {
        connects: Semaphore,
        disconnects: Semaphore,
        calls: Mutex<Vec<String>>,
    }

    #[async_trait]
    impl Fleet for SlowFleet {
        async fn user_connected(&self, user: &UserId) {
            self.connects.acquire().await.unwrap().forget();
            self.calls.lock().push(format!("{user} connected"));
        }

        async fn user_disconnected(&self, user: &UserId) {
            self.disconnects.acquire().await.unwrap().forget();
            self.calls.lock().push(format!("{user} disconnected"));
        }

        async fn is_connected_elsewhere(&self, _: &UserId) -> bool {
            false
        }

        fn send_ephemeral(&self, _: Ephemeral) {}
    }

    struct DirectoryFixture {
        fleet: Arc<SlowFleet>,
        sessions: Arc<Sessions>,
        presence_directory: PresenceDirectory,
    }

    impl DirectoryFixture {
        fn new() -> DirectoryFixture {
            let [connects, disconnects] = [Semaphore::new(0), Semaphore::new(0)];
            let fleet = Arc::new(SlowFleet { connects, disconnects, calls: Mutex::default() });
            let sessions = Arc::<Sessions>::default();
            let presence_directory = PresenceDirectory::new(Arc::clone(&sessions), fleet.clone());
            DirectoryFixture { fleet, sessions, presence_directory }
        }

        fn connect(&self, name: &str) -> Registration<'_> {
            let outbox = ConnectionOutbox::new(1_000, Gauge::default());
            let token = TokenFacts::default();
            self.sessions.register(self.sessions.next_id(), user(name), token, outbox, usize::MAX).unwrap()
        }

        fn calls(&self) -> Vec<String> {
            self.fleet.calls.lock().clone()
        }
    }

    fn user(name: &str) -> UserId {
        name.parse().unwrap()
    }

    #[tokio::test]
    async fn connect_during_disconnect_leaves_the_user_connected() {
        let (fixture, alice) = (DirectoryFixture::new(), user("alice"));
        assert!(fixture.connect("alice").end(), "the ended session was the last one of the user");
        let mut disconnecting = Box::pin(fixture.presence_directory.user_disconnected(&alice));
        assert!(disconnecting.as_mut().now_or_never().is_none(), "the report to the fleet is running");
        let _phone = fixture.connect("alice");
        let mut connecting = Box::pin(fixture.presence_directory.user_connected(&alice, true));
        fixture.fleet.connects.add_permits(1);
        assert!(connecting.as_mut().now_or_never().is_none(), "the connect waits for the earlier disconnect");
        fixture.fleet.disconnects.add_permits(1);
        futures_util::future::join(connecting, disconnecting).await;
        assert_eq!(fixture.calls(), ["alice disconnected", "alice connected"]);
        assert!(fixture.presence_directory.user_locks.map().is_empty(), "finished reports leave no entry");
    }

    #[tokio::test]
    async fn disconnect_after_a_reconnect_is_not_reported() {
        let (fixture, alice) = (DirectoryFixture::new(), user("alice"));
        fixture.connect("alice").end();
        let _phone = fixture.connect("alice");
        fixture.fleet.connects.add_permits(1);
        fixture.fleet.disconnects.add_permits(1);
        fixture.presence_directory.user_connected(&alice, true).await;
        fixture.presence_directory.user_disconnected(&alice).await;
        assert_eq!(fixture.calls(), ["alice connected"]);
    }

    #[tokio::test]
    async fn users_do_not_block_each_other_and_cancelled_reports_leave_no_lock() {
        let fixture = DirectoryFixture::new();
        let (alice, bob) = (user("alice"), user("bob"));
        let mut first = Box::pin(fixture.presence_directory.user_connected(&alice, true));
        let mut second = Box::pin(fixture.presence_directory.user_connected(&alice, false));
        assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
        let mut other = Box::pin(fixture.presence_directory.user_connected(&bob, true));
        assert!(other.as_mut().now_or_never().is_none());
        drop(first);
        fixture.fleet.connects.add_permits(1);
        other.await;
        assert_eq!(fixture.calls(), ["bob connected"]);
        drop(second);
        assert!(fixture.presence_directory.user_locks.map().is_empty());
    }
}
