//! A bounded, sharded map from a user or address to its limit state. It drops entries that carry no
//! information.
//!
//! Callers wait while their shard is swept. A sweep therefore covers one of many shards, and a full
//! shard is swept at most once per `SWEEP_INTERVAL_MS`.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use bluetick_core::Timestamp;
use parking_lot::{Mutex, MutexGuard};

/// Number of shards. With fewer shards, each sweep takes longer and blocks more callers.
const SHARDS: usize = 64;
/// Number of entries in a shard at which the first sweep runs, and minimum capacity of a shard. A
/// larger value keeps more idle entries.
const FIRST_SWEEP: usize = 16;
/// Minimum time between two sweeps of a full shard, in milliseconds. If it is too short, every new
/// key at a full table pays for a sweep.
const SWEEP_INTERVAL_MS: i64 = 1_000;

/// A sharded map with a bounded number of entries. New keys of a full shard share one entry.
pub(super) struct LimitTable<K, V> {
    shards: Vec<Mutex<TableShard<K, V>>>,
    hasher: RandomState,
    /// Maximum number of entries in a shard. Above it, new keys share `shared`.
    max_entries: usize,
    shared: Arc<V>,
}

struct TableShard<K, V> {
    entries: HashMap<K, Arc<V>>,
    /// Number of entries at which the next sweep runs.
    sweep_at: usize,
    /// Time of the last sweep.
    last_sweep: Option<Timestamp>,
}

impl<K: Clone + Eq + Hash, V: Default> LimitTable<K, V> {
    /// Creates a table of about `max_entries` entries in total.
    pub fn new(max_entries: usize) -> LimitTable<K, V> {
        let shard = || TableShard { entries: HashMap::new(), sweep_at: FIRST_SWEEP, last_sweep: None };
        LimitTable {
            shards: (0..SHARDS).map(|_| Mutex::new(shard())).collect(),
            hasher: RandomState::new(),
            max_entries: (max_entries / SHARDS).max(FIRST_SWEEP),
            shared: Arc::default(),
        }
    }

    /// Returns the entry of a key, and creates it if needed. A sweep keeps entries that a caller
    /// still holds and entries that are not `is_droppable`.
    pub fn of(&self, key: &K, now: Timestamp, is_droppable: impl Fn(&V) -> bool) -> Arc<V> {
        let mut shard = self.shard(key);
        if let Some(entry) = shard.entries.get(key) {
            return Arc::clone(entry);
        }
        if shard.should_sweep(self.max_entries, now) {
            shard.entries.retain(|_, entry| Arc::strong_count(entry) > 1 || !is_droppable(entry));
            shard.sweep_at = (shard.entries.len() * 2).clamp(FIRST_SWEEP, self.max_entries);
            shard.last_sweep = Some(now);
        }
        if shard.entries.len() >= self.max_entries {
            return Arc::clone(&self.shared);
        }
        let entry = Arc::<V>::default();
        shard.entries.insert(key.clone(), Arc::clone(&entry));
        entry
    }

    fn shard(&self, key: &K) -> MutexGuard<'_, TableShard<K, V>> {
        let number = usize::try_from(self.hasher.hash_one(key) % SHARDS as u64);
        let shard = &self.shards[number.expect("a remainder is below its divisor")];
        shard.lock()
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().entries.len()).sum()
    }

    #[cfg(test)]
    pub fn contains_key(&self, key: &K) -> bool {
        self.shard(key).entries.contains_key(key)
    }
}

impl<K, V> TableShard<K, V> {
    /// Returns whether the shard is large enough for a sweep. A full shard must also not have been
    /// swept within `SWEEP_INTERVAL_MS`.
    fn should_sweep(&self, max_entries: usize, now: Timestamp) -> bool {
        let was_just_swept = self
            .last_sweep
            .is_some_and(|last_sweep| last_sweep <= now && now < last_sweep.plus_millis(SWEEP_INTERVAL_MS));
        let len = self.entries.len();
        len >= self.sweep_at && (len < max_entries || !was_just_swept)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn full_table_is_swept_at_most_once_per_interval() {
        const MOST: usize = 1 << 12;
        let (table, now) = (LimitTable::<u32, ()>::new(MOST), Timestamp::from_millis(1_000_000));
        let looked = Cell::new(0);
        let busy = |_: &()| {
            looked.set(looked.get() + 1);
            false
        };
        let mut last = 0;
        while table.len() < MOST {
            table.of(&last, now, busy);
            last += 1;
        }
        looked.set(0);
        for stranger in 0..10_000 {
            table.of(&(last + stranger), now, busy);
        }
        assert!(looked.get() <= MOST, "{} for 10,000 new keys", looked.get());
        assert_eq!(table.len(), MOST);
        looked.set(0);
        table.of(&u32::MAX, now.plus_millis(SWEEP_INTERVAL_MS), busy);
        assert_eq!(looked.get(), MOST / SHARDS);
    }

    #[test]
    fn sweep_drops_idle_entries_and_keeps_held_entries() {
        let (table, now) = (LimitTable::<u32, ()>::new(1 << 12), Timestamp::from_millis(1_000_000));
        let held = table.of(&7, now, |_| true);
        for stranger in 100..100_000 {
            table.of(&stranger, now, |_| true);
        }
        assert!(table.len() <= 2 * SHARDS * FIRST_SWEEP, "{}", table.len());
        assert!(table.contains_key(&7));
        drop(held);
    }
}
