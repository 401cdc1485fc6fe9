//! Frames in memory: a cache bounded by bytes, and fetches under way that later readers join.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::segment::Frame;
use crate::{FrameRef, SegmentName, VaultError};

type Key = (SegmentName, FrameRef);
type Answer = Result<Arc<Frame>, VaultError>;
type Flight = BoxFuture<'static, Answer>;

/// A frame weighs what it takes in memory, its entry included.
#[derive(Clone)]
struct Bytes;

const ENTRY_BYTES: usize = 2 * size_of::<Key>();

impl Weighter<Key, Arc<Frame>> for Bytes {
    fn weight(&self, _key: &Key, frame: &Arc<Frame>) -> u64 {
        (frame.weight() + ENTRY_BYTES) as u64
    }
}

/// How much a shard holds at least, so that a large frame still fits one.
const SHARD_BYTES: u64 = 8 << 20;
const MAX_SHARDS: u64 = 16;
/// About what a frame takes.
const TYPICAL_BYTES: u64 = 32 << 10;

pub(crate) struct Frames {
    shared: Arc<Held>,
}

struct Held {
    cache: Cache<Key, Arc<Frame>, Bytes>,
    /// Fetches under way, each with a number of its own. Weak: one that nobody waits for any more is gone.
    flights: Mutex<Flights>,
}

#[derive(Default)]
struct Flights {
    under_way: HashMap<Key, (u64, WeakShared<Flight>)>,
    next: u64,
}

impl Frames {
    pub(crate) fn new(capacity_bytes: u64) -> Frames {
        let options = OptionsBuilder::new()
            .weight_capacity(capacity_bytes)
            .estimated_items_capacity(
                usize::try_from(capacity_bytes / TYPICAL_BYTES).unwrap_or(usize::MAX).max(1),
            )
            .shards(usize::try_from((capacity_bytes / SHARD_BYTES).clamp(1, MAX_SHARDS)).unwrap_or(1))
            .build()
            .expect("all that is needed is given");
        let cache =
            Cache::with_options(options, Bytes, DefaultHashBuilder::default(), DefaultLifecycle::default());
        Frames { shared: Arc::new(Held { cache, flights: Mutex::default() }) }
    }

    /// The frame, and whether it came from memory or a fetch that was under way. Otherwise `fetch` brings it.
    pub(crate) async fn get(
        &self,
        name: SegmentName,
        frame: FrameRef,
        fetch: impl Future<Output = Answer> + Send + 'static,
    ) -> (Answer, bool) {
        let key = (name, frame);
        if let Some(frame) = self.shared.cache.get(&key) {
            return (Ok(frame), true);
        }
        let (flight, joined) = match self.shared.board(key, fetch) {
            Boarded::Landed(frame) => return (Ok(frame), true),
            Boarded::Joined(flight) => (flight, true),
            Boarded::Started(flight) => (flight, false),
        };
        (flight.await, joined)
    }

    /// Drops what is in memory of a segment. What is being fetched of it still reaches those who wait, and is not kept.
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

enum Boarded {
    Landed(Arc<Frame>),
    Joined(Shared<Flight>),
    Started(Shared<Flight>),
}

impl Held {
    fn flights(&self) -> MutexGuard<'_, Flights> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn board(self: &Arc<Self>, key: Key, fetch: impl Future<Output = Answer> + Send + 'static) -> Boarded {
        let mut flights = self.flights();
        // It may have landed between the look into the cache and this one.
        if let Some(frame) = self.cache.get(&key) {
            return Boarded::Landed(frame);
        }
        if let Some(flight) = flights.under_way.get(&key).and_then(|(_, flight)| flight.upgrade()) {
            return Boarded::Joined(flight);
        }
        let number = flights.next;
        flights.next += 1;
        let seat = Seat { held: Arc::clone(self), key, number };
        let flight = async move {
            let answer = fetch.await;
            seat.land(&answer);
            answer
        };
        let flight = flight.boxed().shared();
        if let Some(weak) = flight.downgrade() {
            flights.under_way.insert(key, (number, weak));
        }
        Boarded::Started(flight)
    }
}

/// A flight's own entry among those under way, taken back when it ends, also when all who waited went away.
struct Seat {
    held: Arc<Held>,
    key: Key,
    number: u64,
}

impl Seat {
    /// Keeps what was fetched, unless the segment was forgotten meanwhile.
    fn land(&self, answer: &Answer) {
        let mut flights = self.held.flights();
        if self.is_listed(&flights) {
            flights.under_way.remove(&self.key);
            if let Ok(frame) = answer {
                self.held.cache.insert(self.key, Arc::clone(frame));
            }
        }
    }

    fn is_listed(&self, flights: &Flights) -> bool {
        flights.under_way.get(&self.key).is_some_and(|(number, _)| *number == self.number)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut flights = self.held.flights();
        if self.is_listed(&flights) {
            flights.under_way.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests;
