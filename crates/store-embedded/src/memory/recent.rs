//! The conversations of each user that changed since the last checkpoint. Inbox and pending
//! deliveries are read from here first, and from the tables for all other conversations.
//!
//! Each user has a `Desk`. A changed conversation is added to it unsorted, once, however often it
//! changes. The next inbox read sorts it in. A message therefore costs nothing here until the user
//! reads the inbox, and a read costs as much as has changed since the previous one.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeSet, HashMap};
use std::hash::BuildHasher;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};

use bluetick_core::inbox::{InboxFilter, InboxKey};
use bluetick_core::{ConversationId, UserId};

use super::Room;

/// The number of locks over which users are spread.
const SHARDS: usize = 64;

#[derive(Default)]
struct Desk {
    fresh: HashMap<ConversationId, Arc<Room>>,
    /// The conversations sorted in by a read, with their inbox position. `None` if the inbox does
    /// not list the conversation, for example because the user has left.
    seen: HashMap<ConversationId, (Arc<Room>, Option<InboxKey>)>,
    order: BTreeSet<InboxKey>,
}

impl Desk {
    fn put(&mut self, room: &Arc<Room>, place: Option<InboxKey>) {
        self.remove(room.id);
        self.order.extend(place);
        self.seen.insert(room.id, (Arc::clone(room), place));
    }

    fn remove(&mut self, id: ConversationId) {
        if let Some((_, Some(place))) = self.seen.remove(&id) {
            self.order.remove(&place);
        }
    }
}

type Shard = HashMap<UserId, Desk>;

/// The changed conversations of all users.
///
/// Invariant: a conversation that is not in here is in the tables, including its rows by user.
///
/// Lock order: lock the conversation state (`Room`) first, then this.
pub struct Recent {
    shards: [Mutex<Shard>; SHARDS],
    hashing: RandomState,
    /// Changed conversations with too many members to note them one by one.
    large: Mutex<HashMap<ConversationId, Arc<Room>>>,
}

impl Default for Recent {
    fn default() -> Recent {
        Recent {
            shards: std::array::from_fn(|_| Mutex::default()),
            hashing: RandomState::new(),
            large: Mutex::default(),
        }
    }
}

impl Recent {
    fn shard(&self, user: &UserId) -> MutexGuard<'_, Shard> {
        let shard = self.hashing.hash_one(user) as usize % SHARDS;
        self.shards[shard].lock().expect("nobody panics while holding the recent ones")
    }

    fn large(&self) -> MutexGuard<'_, HashMap<ConversationId, Arc<Room>>> {
        self.large.lock().expect("nobody panics while holding the recent ones")
    }

    /// Lists the conversation as changed for `user`. The caller holds the lock of `room`; the same
    /// holds for the methods up to [`Recent::forget_large`].
    pub fn note(&self, user: &UserId, room: &Arc<Room>) {
        let mut shard = self.shard(user);
        if !shard.contains_key(user) {
            shard.insert(user.clone(), Desk::default());
        }
        let desk = shard.get_mut(user).expect("it is there or was just put there");
        desk.fresh.insert(room.id, Arc::clone(room));
    }

    pub fn forget(&self, user: &UserId, id: ConversationId) {
        let mut shard = self.shard(user);
        if let Some(desk) = shard.get_mut(user) {
            desk.fresh.remove(&id);
            desk.remove(id);
            if desk.fresh.is_empty() && desk.seen.is_empty() {
                shard.remove(user);
            }
        }
    }

    pub fn note_large(&self, room: &Arc<Room>) {
        self.large().insert(room.id, Arc::clone(room));
    }

    pub fn forget_large(&self, id: ConversationId) {
        self.large().remove(&id);
    }

    /// Returns every changed conversation of which the user may be a member.
    pub fn rooms_of(&self, user: &UserId) -> Vec<Arc<Room>> {
        let mut rooms: Vec<_> = self.large().values().cloned().collect();
        if let Some(desk) = self.shard(user).get(user) {
            rooms.extend(desk.fresh.values().cloned());
            rooms.extend(desk.seen.values().map(|(room, _)| Arc::clone(room)));
        }
        rooms
    }

    /// Sorts in the changed conversations and returns the first positions after `after`: up to
    /// `limit + 1`. Also returns the changed large conversations, which the caller must check
    /// itself.
    ///
    /// Locks conversation states, so the caller must not hold one.
    pub fn look(
        &self,
        user: &UserId,
        after: Option<InboxKey>,
        filter: InboxFilter,
        limit: usize,
    ) -> (Vec<InboxKey>, HashMap<ConversationId, Arc<Room>>) {
        let large = self.large().clone();
        // Entries stay fresh until they are sorted in: another device may read at the same time.
        let fresh: Vec<Arc<Room>> = match self.shard(user).get(user) {
            Some(desk) => desk.fresh.values().cloned().collect(),
            None => return (Vec::new(), large),
        };
        for room in fresh {
            let mut state = room.state();
            // If a checkpoint has just written it to the tables, it does not belong here any more.
            if state.noted.knows(user) {
                state.noted.looked(user);
                let place = state.place(room.id, user);
                let mut shard = self.shard(user);
                let desk = shard.entry(user.clone()).or_default();
                desk.fresh.remove(&room.id);
                desk.put(&room, place);
            }
        }
        let shard = self.shard(user);
        let Some(desk) = shard.get(user) else { return (Vec::new(), large) };
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let wanted = |place: &&InboxKey| filter.takes(place.shelf) && !large.contains_key(&place.id);
        let places = desk.order.range((start, Bound::Unbounded)).filter(wanted).copied();
        (places.take(limit + 1).collect(), large)
    }

    /// Returns whether the last `look` sorted in this conversation, which overrides its row in the
    /// tables. If it changed for the first time after that `look`, its row in the tables still
    /// counts.
    pub fn knows(&self, user: &UserId, id: ConversationId) -> bool {
        self.shard(user).get(user).is_some_and(|desk| desk.seen.contains_key(&id))
    }
}
