//! Which conversations of a user have changed since the tables were written: the inbox and what is pending are read
//! from these first, and from the tables for all others.
//!
//! Each user has a desk. What changes lands there unsorted, once, however often it changes; it is sorted in when the
//! user looks. So a message costs nothing here as long as nobody looks, and a look costs as much as has changed since
//! the last one.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeSet, HashMap};
use std::hash::BuildHasher;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};

use bluetick_core::inbox::{InboxFilter, InboxPlace};
use bluetick_core::{ConversationId, UserId};

use super::Room;

const SHARDS: usize = 64;

#[derive(Default)]
struct Desk {
    fresh: HashMap<ConversationId, Arc<Room>>,
    /// What was looked at, and where it is in the inbox; nowhere when the user has left.
    seen: HashMap<ConversationId, (Arc<Room>, Option<InboxPlace>)>,
    order: BTreeSet<InboxPlace>,
}

impl Desk {
    fn put(&mut self, room: &Arc<Room>, place: Option<InboxPlace>) {
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

/// Invariant: what is not in here is in the tables, rows by user included. Locked after a room, never before one.
pub struct Recent {
    shards: [Mutex<Shard>; SHARDS],
    hashing: RandomState,
    /// Rooms too large to tell their members one by one.
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

    /// Called with the room's lock held, as all that follow up to [`Recent::forget_large`].
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

    /// Every room that changed and that the user may be in.
    pub fn rooms_of(&self, user: &UserId) -> Vec<Arc<Room>> {
        let mut rooms: Vec<_> = self.large().values().cloned().collect();
        if let Some(desk) = self.shard(user).get(user) {
            rooms.extend(desk.fresh.values().cloned());
            rooms.extend(desk.seen.values().map(|(room, _)| Arc::clone(room)));
        }
        rooms
    }

    /// Sorts in what is fresh, and gives the first places behind `after`, one more than `limit` if there are. With them
    /// come the rooms too large for desks, which the caller has to look at.
    pub fn look(
        &self,
        user: &UserId,
        after: Option<InboxPlace>,
        filter: InboxFilter,
        limit: usize,
    ) -> (Vec<InboxPlace>, HashMap<ConversationId, Arc<Room>>) {
        let large = self.large().clone();
        // What is fresh stays so until it is sorted in: another device may look at the same moment.
        let fresh: Vec<Arc<Room>> = match self.shard(user).get(user) {
            Some(desk) => desk.fresh.values().cloned().collect(),
            None => return (Vec::new(), large),
        };
        for room in fresh {
            let mut state = room.state();
            // The tables may have taken it over just now; then it has no place here.
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
        let wanted = |place: &&InboxPlace| filter.takes(place.shelf) && !large.contains_key(&place.id);
        let places = desk.order.range((start, Bound::Unbounded)).filter(wanted).copied();
        (places.take(limit + 1).collect(), large)
    }

    /// Whether the last look spoke for this conversation, and the tables do not. Of what changed since, they still do.
    pub fn knows(&self, user: &UserId, id: ConversationId) -> bool {
        self.shard(user).get(user).is_some_and(|desk| desk.seen.contains_key(&id))
    }
}
