//! All resident conversations.

use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bluetick_core::{ConversationId, StoreError};
use parking_lot::{Mutex, MutexGuard};

use super::{ConversationState, ResidentConversation};

/// The number of locks over which conversations are spread. With fewer, a load from disk blocks
/// more conversations. At most 256, because one byte of the id selects the shard.
const SHARDS: usize = 64;

/// Hashes conversation ids. They are hashes or random bits already, so a multiplication is enough.
/// Its random key keeps clients from choosing ids that collide.
#[derive(Clone)]
pub struct IdHashing {
    key: u64,
}

impl Default for IdHashing {
    fn default() -> IdHashing {
        IdHashing { key: RandomState::new().hash_one(0) | 1 }
    }
}

impl BuildHasher for IdHashing {
    type Hasher = IdHasher;

    fn build_hasher(&self) -> IdHasher {
        IdHasher { key: self.key, state: 0 }
    }
}

pub struct IdHasher {
    key: u64,
    state: u64,
}

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        for word in bytes.chunks(8) {
            let mut eight = [0; 8];
            eight[..word.len()].copy_from_slice(word);
            let product = u128::from(self.state ^ u64::from_le_bytes(eight)) * u128::from(self.key);
            self.state = (product as u64) ^ (product >> 64) as u64;
        }
    }

    fn finish(&self) -> u64 {
        self.state
    }
}

type ResidentShard = HashMap<ConversationId, Arc<ResidentConversation>, IdHashing>;

/// All resident conversations.
///
/// Invariants: a conversation that is not in here is completely in the tables. A conversation never
/// has two states in memory.
pub struct ResidentConversations {
    shards: [Mutex<ResidentShard>; SHARDS],
    count: AtomicUsize,
    /// Counts evictions ([`ResidentConversations::evict`]); measures how recently a conversation
    /// was used.
    tick: AtomicU64,
}

impl Default for ResidentConversations {
    fn default() -> ResidentConversations {
        ResidentConversations {
            shards: std::array::from_fn(|_| Mutex::default()),
            count: AtomicUsize::new(0),
            tick: AtomicU64::new(1),
        }
    }
}

impl ResidentConversations {
    fn shard(&self, id: ConversationId) -> MutexGuard<'_, ResidentShard> {
        // The bytes of an id are random already.
        let shard = usize::from(id.as_bytes()[15]) % SHARDS;
        self.shards[shard].lock()
    }

    /// Returns the number of resident conversations.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub fn get(&self, id: ConversationId) -> Option<Arc<ResidentConversation>> {
        let resident = Arc::clone(self.shard(id).get(&id)?);
        resident.touch(self.tick.load(Ordering::Relaxed));
        Some(resident)
    }

    /// Returns the conversation state, and calls `load` if it is not resident. Concurrent callers
    /// get the same state. Holds the shard's lock during `load`.
    pub fn get_or_load(
        &self,
        id: ConversationId,
        load: impl FnOnce() -> Result<ConversationState, StoreError>,
    ) -> Result<Arc<ResidentConversation>, StoreError> {
        if let Some(resident) = self.get(id) {
            return Ok(resident);
        }
        // Load under the shard's lock. Otherwise another thread could load the state, write to it,
        // checkpoint it and evict it in between, and the older state would win.
        match self.shard(id).entry(id) {
            Entry::Occupied(found) => Ok(Arc::clone(found.get())),
            Entry::Vacant(vacant) => {
                let resident = Arc::new(ResidentConversation::new(id, load()?));
                resident.touch(self.tick.load(Ordering::Relaxed));
                self.count.fetch_add(1, Ordering::Relaxed);
                Ok(Arc::clone(vacant.insert(resident)))
            }
        }
    }

    fn weight(&self) -> usize {
        let shards = self.shards.iter().map(|shard| shard.lock());
        shards.map(|shard| shard.values().map(|resident| resident.state().weight()).sum::<usize>()).sum()
    }

    /// Evicts conversation states until the total weight is at most `keep`. Evicts only states that
    /// are clean and not referenced elsewhere, the least recently used first.
    pub fn evict(&self, keep: usize) {
        let now = self.tick.fetch_add(1, Ordering::Relaxed);
        let mut spare = self.weight().saturating_sub(keep);
        for age in [8, 4, 2, 1, 0] {
            for shard in &self.shards {
                if spare == 0 {
                    return;
                }
                let mut shard = shard.lock();
                let before = shard.len();
                shard.retain(|_, resident| {
                    let wanted = spare == 0
                        || Arc::strong_count(resident) > 1
                        || now.saturating_sub(resident.last_used()) < age
                        || !resident.state().is_clean();
                    if !wanted {
                        spare = spare.saturating_sub(resident.state().weight());
                    }
                    wanted
                });
                self.count.fetch_sub(before - shard.len(), Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u8) -> ConversationId {
        ConversationId::group([number; 15])
    }

    #[test]
    fn referenced_or_unwritten_conversations_are_not_evicted() {
        let residents = ResidentConversations::default();
        for number in 0..10 {
            residents.get_or_load(id(number), || Ok(ConversationState::absent())).unwrap();
        }
        let held = residents.get(id(3)).unwrap();
        residents.get(id(4)).unwrap().state().reserved = bluetick_core::Seq::FIRST;
        residents.evict(0);
        assert_eq!(residents.count(), 2);
        assert!(Arc::ptr_eq(&held, &residents.get(id(3)).unwrap()));
        assert!(residents.get(id(4)).is_some());
    }

    #[test]
    fn ids_that_differ_in_one_bit_get_different_hashes() {
        let hashing = IdHashing::default();
        let hashes: std::collections::HashSet<u64> = (0..120)
            .map(|bit| {
                let mut bits = [0; 15];
                bits[bit / 8] = 1 << (bit % 8);
                hashing.hash_one(ConversationId::group(bits))
            })
            .collect();
        assert_eq!(hashes.len(), 120);
    }

    #[test]
    fn large_group_weighs_as_much_as_many_conversations() {
        let residents = ResidentConversations::default();
        let person = |number: usize| format!("user{number}").parse().unwrap();
        let others: Vec<_> = (1..10_000).map(person).collect();
        let conversation = bluetick_core::Conversation {
            id: id(1),
            title: None,
            created_by: person(0),
            created_at: Default::default(),
            head: bluetick_core::Seq::FIRST,
            last_at: Default::default(),
        };
        let large = ConversationState::stored(
            crate::codec::rows::StoredConversation {
                conversation,
                newest_at: Default::default(),
                notices: 1,
            },
            Arc::new(bluetick_core::Members::founding(&person(0), &others)),
            vec![Default::default(); 10_000],
        );
        assert!(large.weight() > 100);
        residents.get_or_load(id(1), || Ok(large)).unwrap();
        residents.evict(100);
        assert_eq!(residents.count(), 0);
    }

    #[test]
    fn recently_used_conversations_are_evicted_last() {
        let residents = ResidentConversations::default();
        residents.get_or_load(id(1), || Ok(ConversationState::absent())).unwrap();
        for _ in 0..3 {
            residents.evict(10);
        }
        residents.get_or_load(id(2), || Ok(ConversationState::absent())).unwrap();
        residents.evict(1);
        assert!(residents.get(id(1)).is_none());
        assert!(residents.get(id(2)).is_some());
    }
}
