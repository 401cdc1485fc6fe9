//! Which conversations of a user have changed since the tables were written: the inbox and what is pending are read from
//! these first, and from the tables for all others.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard};

use bluetick_core::{ConversationId, UserId};

use super::Room;

const SHARDS: usize = 64;

type Shard = HashMap<UserId, HashMap<ConversationId, Arc<Room>>>;

/// Invariant: what is not in here is in the tables, rows by user included. Locked after a room, never before one.
pub struct Recent {
    shards: [Mutex<Shard>; SHARDS],
    hashing: RandomState,
}

impl Default for Recent {
    fn default() -> Recent {
        Recent { shards: std::array::from_fn(|_| Mutex::default()), hashing: RandomState::new() }
    }
}

impl Recent {
    fn shard(&self, user: &UserId) -> MutexGuard<'_, Shard> {
        let shard = self.hashing.hash_one(user) as usize % SHARDS;
        self.shards[shard].lock().expect("nobody panics while holding the recent ones")
    }

    pub fn note(&self, user: &UserId, room: &Arc<Room>) {
        let mut shard = self.shard(user);
        match shard.get_mut(user) {
            Some(rooms) => {
                rooms.insert(room.id, Arc::clone(room));
            }
            None => {
                shard.insert(user.clone(), HashMap::from([(room.id, Arc::clone(room))]));
            }
        }
    }

    /// Called with the room's lock held, so that no change is noted in between.
    pub fn forget(&self, user: &UserId, id: ConversationId) {
        let mut shard = self.shard(user);
        if let Some(rooms) = shard.get_mut(user) {
            rooms.remove(&id);
            if rooms.is_empty() {
                shard.remove(user);
            }
        }
    }

    pub fn rooms_of(&self, user: &UserId) -> Vec<Arc<Room>> {
        self.shard(user).get(user).map(|rooms| rooms.values().cloned().collect()).unwrap_or_default()
    }
}
