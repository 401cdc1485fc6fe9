//! The conversations of each user that changed since the last checkpoint. Inbox and pending
//! deliveries are read from here first, and from the tables for all other conversations.
//!
//! Each user has a `UserChanges`. A changed conversation is added to it unsorted, once, however
//! often it changes. The next inbox read sorts it in. A message therefore costs nothing here until
//! the user reads the inbox, and a read costs as much as has changed since the previous one.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeSet, HashMap};
use std::hash::BuildHasher;
use std::ops::Bound;
use std::sync::Arc;

use bluetick_core::inbox::{InboxFilter, InboxKey};
use bluetick_core::{ConversationId, UserId};

use super::ResidentConversation;
use crate::sync::{PanicMutex, PanicMutexGuard};

/// The number of locks over which users are spread. With fewer, writers and inbox readers wait for
/// each other more often.
const SHARDS: usize = 64;

#[derive(Default)]
struct UserChanges {
    fresh: HashMap<ConversationId, Arc<ResidentConversation>>,
    /// The conversations sorted in by a read, with their inbox position. `None` if the inbox does
    /// not list the conversation, for example because the user has left.
    seen: HashMap<ConversationId, (Arc<ResidentConversation>, Option<InboxKey>)>,
    order: BTreeSet<InboxKey>,
}

impl UserChanges {
    fn put(&mut self, resident: &Arc<ResidentConversation>, position: Option<InboxKey>) {
        self.remove(resident.id);
        self.order.extend(position);
        self.seen.insert(resident.id, (Arc::clone(resident), position));
    }

    fn remove(&mut self, id: ConversationId) {
        if let Some((_, Some(position))) = self.seen.remove(&id) {
            self.order.remove(&position);
        }
    }
}

type RecentShard = HashMap<UserId, UserChanges>;

/// The changed conversations of all users.
///
/// Invariant: a conversation that is not in here is in the tables, including its rows by user.
///
/// Lock order: lock the conversation state (`ResidentConversation`) first, then this.
pub struct Recent {
    shards: [PanicMutex<RecentShard>; SHARDS],
    hashing: RandomState,
    /// Changed conversations with too many members to note them one by one.
    large: PanicMutex<HashMap<ConversationId, Arc<ResidentConversation>>>,
}

impl Default for Recent {
    fn default() -> Recent {
        Recent {
            shards: std::array::from_fn(|_| PanicMutex::default()),
            hashing: RandomState::new(),
            large: PanicMutex::default(),
        }
    }
}

impl Recent {
    fn shard(&self, user: &UserId) -> PanicMutexGuard<'_, RecentShard> {
        let shard = self.hashing.hash_one(user) as usize % SHARDS;
        self.shards[shard].lock()
    }

    fn large(&self) -> PanicMutexGuard<'_, HashMap<ConversationId, Arc<ResidentConversation>>> {
        self.large.lock()
    }

    /// Lists the conversation as changed for `user`. The caller holds the lock of `resident`; the
    /// same holds for the methods up to [`Recent::forget_large`].
    pub fn note(&self, user: &UserId, resident: &Arc<ResidentConversation>) {
        let mut shard = self.shard(user);
        if !shard.contains_key(user) {
            shard.insert(user.clone(), UserChanges::default());
        }
        let changes = shard.get_mut(user).expect("the lines above insert a missing entry");
        changes.fresh.insert(resident.id, Arc::clone(resident));
    }

    pub fn forget(&self, user: &UserId, id: ConversationId) {
        let mut shard = self.shard(user);
        if let Some(changes) = shard.get_mut(user) {
            changes.fresh.remove(&id);
            changes.remove(id);
            if changes.fresh.is_empty() && changes.seen.is_empty() {
                shard.remove(user);
            }
        }
    }

    pub fn note_large(&self, resident: &Arc<ResidentConversation>) {
        self.large().insert(resident.id, Arc::clone(resident));
    }

    pub fn forget_large(&self, id: ConversationId) {
        self.large().remove(&id);
    }

    /// Returns every changed conversation of which the user may be a member.
    pub fn residents_of(&self, user: &UserId) -> Vec<Arc<ResidentConversation>> {
        let mut residents: Vec<_> = self.large().values().cloned().collect();
        if let Some(changes) = self.shard(user).get(user) {
            residents.extend(changes.fresh.values().cloned());
            residents.extend(changes.seen.values().map(|(resident, _)| Arc::clone(resident)));
        }
        residents
    }

    /// Sorts in the changed conversations and returns the first positions after `after`: up to
    /// `limit + 1`. Also returns the changed large conversations, which the caller must check
    /// itself.
    ///
    /// Locks conversation states, so the caller must not hold one.
    pub fn first_positions(
        &self,
        user: &UserId,
        after: Option<InboxKey>,
        filter: InboxFilter,
        limit: usize,
    ) -> (Vec<InboxKey>, HashMap<ConversationId, Arc<ResidentConversation>>) {
        let large = self.large().clone();
        // Entries stay fresh until they are sorted in: another device may read at the same time.
        let fresh: Vec<Arc<ResidentConversation>> = match self.shard(user).get(user) {
            Some(changes) => changes.fresh.values().cloned().collect(),
            None => return (Vec::new(), large),
        };
        for resident in fresh {
            let mut state = resident.state();
            // If a checkpoint has just written it to the tables, it does not belong here any more.
            if state.recent_listing.contains(user) {
                state.recent_listing.mark_sorted(user);
                let position = state.inbox_position(resident.id, user);
                let mut shard = self.shard(user);
                let changes = shard.entry(user.clone()).or_default();
                changes.fresh.remove(&resident.id);
                changes.put(&resident, position);
            }
        }
        let shard = self.shard(user);
        let Some(changes) = shard.get(user) else { return (Vec::new(), large) };
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let wanted = |position: &&InboxKey| filter.takes(position.shelf) && !large.contains_key(&position.id);
        let positions = changes.order.range((start, Bound::Unbounded)).filter(wanted).copied();
        (positions.take(limit + 1).collect(), large)
    }

    /// Returns whether the last `first_positions` sorted in this conversation, which overrides its
    /// row in the tables. If it changed for the first time after that `first_positions`, its row in
    /// the tables still counts.
    pub fn has_sorted(&self, user: &UserId, id: ConversationId) -> bool {
        self.shard(user).get(user).is_some_and(|changes| changes.seen.contains_key(&id))
    }
}
