//! Reads that several ask for at the same time are done once.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use bluetick_core::StoreError;
use futures_util::FutureExt;
use futures_util::future::Shared;
use tokio::sync::oneshot;

/// Whether what is being read already will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// What is asked for does not change any more.
    Running,
    /// Only a read that begins after it was asked for has everything that was acknowledged before: all who ask while one
    /// runs share the one after it.
    Next,
}

type Answer<Value> = Result<Arc<Value>, StoreError>;
type Waiting<Value> = Shared<oneshot::Receiver<Answer<Value>>>;

struct Flight<Value> {
    running: Waiting<Value>,
    next: Option<(oneshot::Sender<Answer<Value>>, Waiting<Value>)>,
}

pub(super) struct SharedReads<Key, Value> {
    flights: Mutex<HashMap<Key, Flight<Value>>>,
    /// Answers that cost nobody a read.
    coalesced: AtomicU64,
}

impl<Key, Value> Default for SharedReads<Key, Value> {
    fn default() -> Self {
        SharedReads { flights: Mutex::default(), coalesced: AtomicU64::new(0) }
    }
}

impl<Key, Value> SharedReads<Key, Value>
where
    Key: Clone + Eq + Hash + Send + 'static,
    Value: Send + Sync + 'static,
{
    pub fn coalesced(&self) -> u64 {
        self.coalesced.load(Ordering::Relaxed)
    }

    fn flights(&self) -> MutexGuard<'_, HashMap<Key, Flight<Value>>> {
        self.flights.lock().expect("nothing panics while it holds the lock")
    }

    /// A read that is begun goes to its end, whoever stops waiting for it.
    pub async fn read<Reading>(
        self: &Arc<Self>,
        key: Key,
        join: Join,
        read: impl Fn() -> Reading + Clone + Send + 'static,
    ) -> Answer<Value>
    where
        Reading: Future<Output = Result<Value, StoreError>> + Send + 'static,
    {
        let waiting = {
            let mut flights = self.flights();
            match flights.get_mut(&key) {
                None => {
                    let (done, waiting) = channel();
                    flights.insert(key.clone(), Flight { running: waiting.clone(), next: None });
                    tokio::spawn(Arc::clone(self).fly(key.clone(), read.clone(), done));
                    waiting
                }
                Some(flight) if join == Join::Running => {
                    self.coalesced.fetch_add(1, Ordering::Relaxed);
                    flight.running.clone()
                }
                Some(flight) => match &flight.next {
                    Some((_, waiting)) => {
                        self.coalesced.fetch_add(1, Ordering::Relaxed);
                        waiting.clone()
                    }
                    None => flight.next.insert(channel()).1.clone(),
                },
            }
        };
        match waiting.await {
            Ok(answer) => answer,
            Err(_) => {
                // Whoever was reading is gone: it has panicked, or its runtime ends.
                self.flights().remove(&key);
                read().await.map(Arc::new)
            }
        }
    }

    async fn fly<Reading>(
        self: Arc<Self>,
        key: Key,
        read: impl Fn() -> Reading + Send + 'static,
        mut done: oneshot::Sender<Answer<Value>>,
    ) where
        Reading: Future<Output = Result<Value, StoreError>> + Send + 'static,
    {
        loop {
            let answer = read().await.map(Arc::new);
            let next = {
                let mut flights = self.flights();
                let next = flights.get_mut(&key).and_then(|flight| {
                    let (done, waiting) = flight.next.take()?;
                    flight.running = waiting;
                    Some(done)
                });
                if next.is_none() {
                    flights.remove(&key);
                }
                next
            };
            let _nobody_waits = done.send(answer);
            match next {
                Some(next) => done = next,
                None => return,
            }
        }
    }
}

fn channel<Value>() -> (oneshot::Sender<Answer<Value>>, Waiting<Value>) {
    let (done, waiting) = oneshot::channel();
    (done, waiting.shared())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::Semaphore;

    /// Each read gives how many were begun before it and itself, when it is let through.
    struct Desk {
        reads: Arc<SharedReads<u8, u64>>,
        begun: Arc<AtomicU64>,
        may_end: Arc<Semaphore>,
    }

    impl Desk {
        fn new() -> Desk {
            let may_end = Arc::new(Semaphore::new(0));
            Desk { reads: Arc::default(), begun: Arc::default(), may_end }
        }

        fn ask(&self, join: Join) -> tokio::task::JoinHandle<u64> {
            let (reads, begun, may_end) =
                (Arc::clone(&self.reads), Arc::clone(&self.begun), Arc::clone(&self.may_end));
            tokio::spawn(async move {
                let read = move || {
                    let (number, may_end) = (begun.fetch_add(1, Ordering::SeqCst) + 1, Arc::clone(&may_end));
                    async move {
                        may_end.acquire().await.expect("it stays open").forget();
                        Ok(number)
                    }
                };
                *reads.read(7, join, read).await.expect("it reads")
            })
        }

        async fn settle(&self) {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
        }
    }

    #[tokio::test]
    async fn what_does_not_change_is_read_once_for_all_who_ask_meanwhile() {
        let desk = Desk::new();
        let asked: Vec<_> = (0..10).map(|_| desk.ask(Join::Running)).collect();
        desk.settle().await;
        desk.may_end.add_permits(1);
        for answer in asked {
            assert_eq!(answer.await.unwrap(), 1);
        }
        assert_eq!(desk.reads.coalesced(), 9);
    }

    #[tokio::test]
    async fn who_needs_the_newest_waits_for_a_read_that_begins_later_and_shares_that() {
        let desk = Desk::new();
        let first = desk.ask(Join::Next);
        desk.settle().await;
        let later: Vec<_> = (0..10).map(|_| desk.ask(Join::Next)).collect();
        desk.settle().await;
        desk.may_end.add_permits(2);
        assert_eq!(first.await.unwrap(), 1);
        for answer in later {
            assert_eq!(answer.await.unwrap(), 2);
        }
        assert_eq!((desk.begun.load(Ordering::SeqCst), desk.reads.coalesced()), (2, 9));
        assert!(desk.reads.flights().is_empty());
    }

    #[tokio::test]
    async fn who_stops_waiting_does_not_stop_the_others() {
        let desk = Desk::new();
        let first = desk.ask(Join::Running);
        desk.settle().await;
        let second = desk.ask(Join::Running);
        desk.settle().await;
        first.abort();
        desk.may_end.add_permits(1);
        assert_eq!(second.await.unwrap(), 1);
    }
}
