//! The registry of this node's sessions, by user.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use bluetick_core::ports::Origin;
use bluetick_core::{TokenFacts, UserId};
use bluetick_wire::CloseCode;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use parking_lot::RwLock;

use super::{CatchUp, ConnectionOutbox};

/// Identifies a connection within the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SessionId(u64);

impl From<Origin> for SessionId {
    fn from(origin: Origin) -> SessionId {
        SessionId(origin.0)
    }
}

impl From<SessionId> for Origin {
    fn from(id: SessionId) -> Origin {
        Origin(id.0)
    }
}

impl std::fmt::Display for SessionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "s{}", self.0)
    }
}

/// One authenticated connection.
pub(crate) struct WebSocketSession {
    pub id: SessionId,
    pub user: UserId,
    /// The token of its `hello`.
    pub token: TokenFacts,
    pub outbox: ConnectionOutbox,
    pub catch_up: CatchUp,
    /// The code to close with. The connection reads it at its next wake-up.
    ending: OnceLock<CloseCode>,
}

impl WebSocketSession {
    /// Asks the connection to close with this code. Only the first code counts.
    pub fn end(&self, why: CloseCode) {
        let _there_is_one = self.ending.set(why);
        self.outbox.wake();
    }

    pub fn ending(&self) -> Option<CloseCode> {
        self.ending.get().copied()
    }
}

/// Keeps a session in the registry. Dropping it removes the session, also when the connection
/// panics or is cancelled.
pub(crate) struct Registration<'a> {
    sessions: &'a Sessions,
    pub session: Arc<WebSocketSession>,
    /// The user had no other connection to this node when this one was registered.
    pub is_first: bool,
    ended: bool,
}

impl Registration<'_> {
    /// Removes the session. Returns whether it was the user's last on this node.
    pub fn end(mut self) -> bool {
        self.ended = true;
        self.sessions.remove(&self.session)
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.sessions.remove(&self.session);
        }
    }
}

/// The user already holds the maximum number of connections.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooManySessions;

/// Number of registry shards, each with its own lock. Fewer shards increase lock contention; more
/// make [`Sessions::each_online`] slower.
const SHARDS: usize = 64;

/// The users of one shard. The user is hashed once, for both the shard and the slot in its table.
type UserShard = RwLock<HashTable<OnlineUser>>;

/// A user with at least one session.
struct OnlineUser {
    hash: u64,
    sessions: Vec<Arc<WebSocketSession>>,
}

impl OnlineUser {
    fn is(&self, user: &UserId) -> bool {
        self.sessions.first().is_some_and(|session| session.user == *user)
    }
}

/// The sessions of this node, sharded by user.
pub(crate) struct Sessions {
    shards: Vec<UserShard>,
    hasher: RandomState,
    next_id: AtomicU64,
    online_users: AtomicUsize,
}

impl Default for Sessions {
    fn default() -> Self {
        Sessions {
            shards: (0..SHARDS).map(|_| UserShard::default()).collect(),
            hasher: RandomState::new(),
            next_id: AtomicU64::new(1),
            online_users: AtomicUsize::new(0),
        }
    }
}

impl Sessions {
    fn shard(&self, user: &UserId) -> (u64, &UserShard) {
        let hash = self.hasher.hash_one(user);
        // The upper half selects the shard, because the table indexes by the low bits.
        let number = usize::try_from((hash >> 32) % SHARDS as u64).expect("a remainder is below its divisor");
        (hash, &self.shards[number])
    }

    pub fn next_id(&self) -> SessionId {
        SessionId(self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    /// Registers a session, which starts with its [`CatchUp`]. Returns [`TooManySessions`] if the
    /// user already holds `limit` sessions.
    pub fn register(
        &self,
        id: SessionId,
        user: UserId,
        token: TokenFacts,
        outbox: ConnectionOutbox,
        limit: usize,
    ) -> Result<Registration<'_>, TooManySessions> {
        let (hash, shard) = self.shard(&user);
        let mut shard = shard.write();
        let entry = shard.entry(hash, |user_entry| user_entry.is(&user), |user_entry| user_entry.hash);
        if let Entry::Occupied(user_entry) = &entry
            && user_entry.get().sessions.len() >= limit
        {
            return Err(TooManySessions);
        }
        let session = Arc::new(WebSocketSession {
            id,
            user: user.clone(),
            token,
            outbox,
            catch_up: CatchUp::new(),
            ending: OnceLock::new(),
        });
        let is_first = match entry {
            Entry::Occupied(mut user_entry) => {
                user_entry.get_mut().sessions.push(Arc::clone(&session));
                false
            }
            Entry::Vacant(_) if limit == 0 => return Err(TooManySessions),
            Entry::Vacant(place) => {
                self.online_users.fetch_add(1, Ordering::Relaxed);
                place.insert(OnlineUser { hash, sessions: vec![Arc::clone(&session)] });
                true
            }
        };
        Ok(Registration { sessions: self, session, is_first, ended: false })
    }

    /// Removes the session. Returns whether the user has no session left.
    fn remove(&self, session: &WebSocketSession) -> bool {
        let (hash, shard) = self.shard(&session.user);
        let mut shard = shard.write();
        let Ok(mut user_entry) = shard.find_entry(hash, |user_entry| user_entry.is(&session.user)) else {
            return true;
        };
        let sessions = &mut user_entry.get_mut().sessions;
        if sessions.iter().any(|other| other.id != session.id) {
            sessions.retain(|other| other.id != session.id);
            return false;
        }
        user_entry.remove();
        self.online_users.fetch_sub(1, Ordering::Relaxed);
        true
    }

    pub fn is_online(&self, user: &UserId) -> bool {
        let (hash, shard) = self.shard(user);
        let shard = shard.read();
        shard.find(hash, |user_entry| user_entry.is(user)).is_some()
    }

    pub fn online_users(&self) -> usize {
        self.online_users.load(Ordering::Relaxed)
    }

    /// Visits the user's sessions under the shard's read lock: `visit` must not register or end a
    /// session.
    pub fn each_of(&self, user: &UserId, visit: &mut impl FnMut(&WebSocketSession)) {
        let (hash, shard) = self.shard(user);
        let shard = shard.read();
        if let Some(user_entry) = shard.find(hash, |user_entry| user_entry.is(user)) {
            user_entry.sessions.iter().for_each(|session| visit(session));
        }
    }

    /// Visits the sessions of all `wanted` users, with the locking rule of [`Sessions::each_of`].
    pub fn each_online(&self, wanted: impl Fn(&UserId) -> bool, visit: &mut impl FnMut(&WebSocketSession)) {
        for shard in &self.shards {
            let shard = shard.read();
            for user_entry in shard.iter() {
                if user_entry.sessions.first().is_some_and(|session| wanted(&session.user)) {
                    user_entry.sessions.iter().for_each(|session| visit(session));
                }
            }
        }
    }

    /// Wakes every connection so that it checks its state.
    pub fn wake_all(&self) {
        self.each_online(|_| true, &mut |session| session.outbox.wake());
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::gauge::Gauge;

    use super::*;

    #[test]
    fn session_above_user_limit_is_refused_until_another_ends() {
        let sessions = Sessions::default();
        let register = || {
            let outbox = ConnectionOutbox::new(1_000, Gauge::default());
            sessions.register(sessions.next_id(), "alice".parse().unwrap(), TokenFacts::default(), outbox, 2)
        };
        let first = register().unwrap();
        let second = register().unwrap();
        assert_eq!(register().map(|_| ()), Err(TooManySessions));
        drop(first);
        let third = register().unwrap();
        assert_eq!(sessions.online_users(), 1);
        drop((second, third));
        assert_eq!(sessions.online_users(), 0);
    }
}
