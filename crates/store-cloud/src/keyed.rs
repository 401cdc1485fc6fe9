//! Small helpers for what is done one at a time, in turn, or side by side.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex};

use futures_util::{StreamExt, stream};
use tokio::sync::{OwnedMutexGuard, oneshot};

/// Awaits all of them, so many side by side, and gives the answers in their order.
pub(crate) async fn side_by_side<Output>(
    at_once: usize,
    futures: Vec<impl Future<Output = Output>>,
) -> Vec<Output> {
    stream::iter(futures).buffered(at_once).collect().await
}

/// One at a time for each key, in no particular order.
pub(crate) struct OneAtATime<Key>(Mutex<HashMap<Key, Arc<tokio::sync::Mutex<()>>>>);

impl<Key> Default for OneAtATime<Key> {
    fn default() -> Self {
        OneAtATime(Mutex::default())
    }
}

/// Above this many keys, those that nobody holds are forgotten.
const MANY: usize = 10_000;

impl<Key: Hash + Eq + Clone> OneAtATime<Key> {
    pub async fn enter(&self, key: &Key) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.0.lock().expect("nothing panics while it holds the lock");
            if locks.len() >= MANY {
                locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            }
            Arc::clone(locks.entry(key.clone()).or_default())
        };
        lock.lock_owned().await
    }
}

/// Queues, one for each key: who joins before another one is served before it.
pub(crate) struct Lanes<Key>(Mutex<HashMap<Key, (u64, oneshot::Receiver<()>)>>);

impl<Key> Default for Lanes<Key> {
    fn default() -> Self {
        Lanes(Mutex::default())
    }
}

/// A place in a queue. Dropping it lets the next one in.
pub(crate) struct Turn {
    before: Option<oneshot::Receiver<()>>,
    #[expect(dead_code, reason = "held for its drop")]
    next: oneshot::Sender<()>,
    number: u64,
}

impl<Key: Hash + Eq + Clone> Lanes<Key> {
    pub fn join(&self, key: &Key) -> Turn {
        let (next, done) = oneshot::channel();
        let mut lanes = self.0.lock().expect("nothing panics while it holds the lock");
        match lanes.get_mut(key) {
            Some((number, last)) => {
                *number += 1;
                Turn { before: Some(std::mem::replace(last, done)), next, number: *number }
            }
            None => {
                lanes.insert(key.clone(), (0, done));
                Turn { before: None, next, number: 0 }
            }
        }
    }

    /// The queue is forgotten when nobody joined behind.
    pub fn leave(&self, key: &Key, turn: Turn) {
        let mut lanes = self.0.lock().expect("nothing panics while it holds the lock");
        if lanes.get(key).is_some_and(|(last, _)| *last == turn.number) {
            lanes.remove(key);
        }
    }
}

impl Turn {
    pub async fn wait(&mut self) {
        if let Some(before) = self.before.take() {
            // An error is the one before being dropped, which is what is waited for.
            let _ended = before.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_joins_first_is_served_first_and_an_empty_lane_is_forgotten() {
        let lanes = Lanes::default();
        let (mut first, mut second) = (lanes.join(&"a"), lanes.join(&"a"));
        lanes.join(&"b").wait().await;
        first.wait().await;
        let waiting = tokio::time::timeout(std::time::Duration::from_millis(5), second.wait());
        assert!(waiting.await.is_err(), "the first is not done");
        let mut third = lanes.join(&"a");
        lanes.leave(&"a", first);
        drop(second);
        third.wait().await;
        lanes.leave(&"a", third);
        assert!(!lanes.0.lock().unwrap().contains_key("a"));
    }
}
