//! From the store to every device: who is connected, and how a committed message reaches them in order.
//!
//! Invariant: one thread puts messages into outboxes, in commit order. So every connection sees every conversation
//! in seq order, and the ack of its own message in the place of that message. Sockets do not belong here.

mod fanout;
mod outbox;
mod sessions;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use bluetick_core::ports::{CommitListener, Committed};
use tokio::sync::oneshot;

pub(crate) use outbox::{Batch, Frame, Outbox};
#[cfg(test)]
pub(crate) use sessions::Registration;
pub(crate) use sessions::{Session, SessionId, Sessions};

use crate::metrics::Metrics;

/// Batches between the store and the fan-out. When that many wait, the committer waits too, so a server that cannot
/// keep up with its own deliveries takes in less.
const WAITING_BATCHES: usize = 1_024;

enum Order {
    Deliver(Vec<Committed>),
    /// Answered when everything ordered before has been put into the outboxes.
    Flush(oneshot::Sender<()>),
    Stop,
}

/// The listener that is handed to the store at its opening.
pub struct Hub {
    orders: SyncSender<Order>,
    thread: Mutex<Option<JoinHandle<()>>>,
    sessions: Arc<Sessions>,
}

impl Hub {
    /// Starts the fan-out thread, which ends with [`Server::drain`](crate::Server::drain) or with the hub.
    pub fn new(metrics: Arc<Metrics>) -> Arc<Hub> {
        let sessions = Arc::new(Sessions::default());
        let (orders, waiting) = mpsc::sync_channel(WAITING_BATCHES);
        let thread = std::thread::Builder::new()
            .name("bluetick-fanout".into())
            .spawn({
                let sessions = Arc::clone(&sessions);
                move || run(&waiting, &sessions, &metrics)
            })
            .expect("a process that cannot start a thread cannot serve");
        Arc::new(Hub { orders, thread: Mutex::new(Some(thread)), sessions })
    }

    pub(crate) fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Returns when everything committed so far is in the outboxes.
    pub(crate) async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        let mut order = Order::Flush(done);
        while let Err(refused) = self.orders.try_send(order) {
            match refused {
                mpsc::TrySendError::Full(waiting) => order = waiting,
                mpsc::TrySendError::Disconnected(_) => return,
            }
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        let _ = flushed.await;
    }

    /// The fan-out finishes what it was given and ends; what is committed later reaches nobody.
    pub(crate) async fn stop(&self) {
        let thread = self.thread.lock().expect("nothing panics while it holds the lock").take();
        let Some(thread) = thread else { return };
        let orders = self.orders.clone();
        let joined = tokio::task::spawn_blocking(move || {
            let _ = orders.send(Order::Stop);
            thread.join()
        });
        if !matches!(joined.await, Ok(Ok(()))) {
            tracing::error!("the fan-out thread failed");
        }
    }
}

impl CommitListener for Hub {
    fn committed(&self, batch: Vec<Committed>) {
        // Refused only after `stop`, when no connection is left to hear of it.
        let _ = self.orders.send(Order::Deliver(batch));
    }
}

fn run(orders: &Receiver<Order>, sessions: &Sessions, metrics: &Metrics) {
    while let Ok(order) = orders.recv() {
        match order {
            Order::Deliver(batch) => {
                let pushes = batch.iter().map(|committed| deliver(committed, sessions)).sum();
                metrics.pushes.inc_by(pushes);
            }
            Order::Flush(done) => {
                let _ = done.send(());
            }
            Order::Stop => return,
        }
    }
}

/// A fault with one message must not end the deliveries of all others.
fn deliver(committed: &Committed, sessions: &Sessions) -> u64 {
    let delivered = catch_unwind(AssertUnwindSafe(|| fanout::deliver(committed, sessions)));
    delivered.unwrap_or_else(|_| {
        let (conversation, seq) = (committed.message.conversation, committed.message.seq);
        tracing::error!(%conversation, %seq, "a message could not be delivered to everybody");
        0
    })
}
