//! The block cache: bounded in bytes, and it lets concurrent readers share a fetch in progress.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use parking_lot::{Mutex, MutexGuard};
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::segment::Block;
use crate::{BlockRef, ObjectArchiveError, SegmentName};

type BlockKey = (SegmentName, BlockRef);
type BlockResult = Result<Arc<Block>, ObjectArchiveError>;
/// A fetch in progress.
type Flight = BoxFuture<'static, BlockResult>;

/// Weighs a block by its memory, including its cache entry.
#[derive(Clone)]
struct Bytes;

/// Estimated overhead of a cache entry, in bytes. If it is too small, the cache exceeds its bound.
const ENTRY_BYTES: usize = 2 * size_of::<BlockKey>();

impl Weighter<BlockKey, Arc<Block>> for Bytes {
    fn weight(&self, _key: &BlockKey, block: &Arc<Block>) -> u64 {
        (block.weight() + ENTRY_BYTES) as u64
    }
}

/// Minimum capacity of a shard, in bytes. A block larger than its shard is never cached.
const SHARD_BYTES: u64 = 8 << 20;
/// Maximum number of shards. Fewer shards increase lock contention; more make each shard, and so
/// the largest cached block, smaller.
const MAX_SHARDS: u64 = 16;
/// Typical size of a block, in bytes. Used only to estimate the number of entries; a wrong value
/// wastes memory or makes the table grow.
const TYPICAL_BYTES: u64 = 32 << 10;

/// The block cache.
pub(crate) struct BlockCache {
    shared: Arc<CacheState>,
}

/// The state that fetches in progress share with the cache.
struct CacheState {
    cache: Cache<BlockKey, Arc<Block>, Bytes>,
    /// Fetches in progress. The references are weak, so that a fetch without readers is dropped.
    flights: Mutex<Flights>,
}

/// Fetches in progress by block. The number tells a fetch from a later one of the same block.
#[derive(Default)]
struct Flights {
    under_way: HashMap<BlockKey, (u64, WeakShared<Flight>)>,
    next: u64,
}

impl BlockCache {
    /// Creates a cache of `capacity_bytes`. A capacity of 0 caches nothing, but readers still share
    /// fetches.
    pub(crate) fn new(capacity_bytes: u64) -> BlockCache {
        let options = OptionsBuilder::new()
            .weight_capacity(capacity_bytes)
            .estimated_items_capacity(
                usize::try_from(capacity_bytes / TYPICAL_BYTES).unwrap_or(usize::MAX).max(1),
            )
            .shards(usize::try_from((capacity_bytes / SHARD_BYTES).clamp(1, MAX_SHARDS)).unwrap_or(1))
            .build()
            .expect("all required options are set");
        let cache =
            Cache::with_options(options, Bytes, DefaultHashBuilder::default(), DefaultLifecycle::default());
        BlockCache { shared: Arc::new(CacheState { cache, flights: Mutex::default() }) }
    }

    /// Returns the block, and whether the cache or a fetch in progress provided it. Otherwise runs
    /// `fetch`. The fetch ends early only if all its readers drop their futures.
    pub(crate) async fn get(
        &self,
        name: SegmentName,
        block: BlockRef,
        fetch: impl Future<Output = BlockResult> + Send + 'static,
    ) -> (BlockResult, bool) {
        let key = (name, block);
        if let Some(block) = self.shared.cache.get(&key) {
            return (Ok(block), true);
        }
        let (flight, joined) = match self.shared.board(key, fetch) {
            Boarded::Landed(block) => return (Ok(block), true),
            Boarded::Joined(flight) => (flight, true),
            Boarded::Started(flight) => (flight, false),
        };
        (flight.await, joined)
    }

    /// Evicts all blocks of a segment. A fetch in progress still reaches its readers, but its
    /// result is not cached.
    pub(crate) fn forget(&self, name: &SegmentName) {
        let mut flights = self.shared.flights();
        flights.under_way.retain(|(of, _), _| of != name);
        self.shared.cache.retain(|(of, _), _| of != name);
    }

    #[cfg(test)]
    pub(crate) fn weight(&self) -> u64 {
        self.shared.cache.weight()
    }
}

/// How a reader gets a block: from the cache, from a fetch in progress, or from its own fetch.
enum Boarded {
    Landed(Arc<Block>),
    Joined(Shared<Flight>),
    Started(Shared<Flight>),
}

impl CacheState {
    fn flights(&self) -> MutexGuard<'_, Flights> {
        self.flights.lock()
    }

    /// Joins or starts the fetch of a block, under the lock.
    fn board(
        self: &Arc<Self>,
        key: BlockKey,
        fetch: impl Future<Output = BlockResult> + Send + 'static,
    ) -> Boarded {
        let mut flights = self.flights();
        // The fetch may have finished since the caller checked the cache.
        if let Some(block) = self.cache.get(&key) {
            return Boarded::Landed(block);
        }
        if let Some(flight) = flights.under_way.get(&key).and_then(|(_, flight)| flight.upgrade()) {
            return Boarded::Joined(flight);
        }
        let number = flights.next;
        flights.next += 1;
        let entry = FlightEntry { state: Arc::clone(self), key, number };
        let flight = async move {
            let answer = fetch.await;
            entry.land(&answer);
            answer
        };
        let flight = flight.boxed().shared();
        if let Some(weak) = flight.downgrade() {
            flights.under_way.insert(key, (number, weak));
        }
        Boarded::Started(flight)
    }
}

/// The entry of a fetch in progress. Dropping it removes the entry, also if all readers have gone.
struct FlightEntry {
    state: Arc<CacheState>,
    key: BlockKey,
    number: u64,
}

impl FlightEntry {
    /// Caches the result, unless the segment was evicted during the fetch.
    fn land(&self, answer: &BlockResult) {
        let mut flights = self.state.flights();
        if self.is_listed(&flights) {
            flights.under_way.remove(&self.key);
            if let Ok(block) = answer {
                self.state.cache.insert(self.key, Arc::clone(block));
            }
        }
    }

    /// Returns whether this fetch is still registered.
    fn is_listed(&self, flights: &Flights) -> bool {
        flights.under_way.get(&self.key).is_some_and(|(number, _)| *number == self.number)
    }
}

impl Drop for FlightEntry {
    fn drop(&mut self) {
        let mut flights = self.state.flights();
        if self.is_listed(&flights) {
            flights.under_way.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests;
