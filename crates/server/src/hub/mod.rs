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

use bluetick_core::ContentType;
use bluetick_core::ports::{CommitListener, Committed};
use tokio::sync::oneshot;

pub(crate) use outbox::{Batch, Frame, Outbox};
#[cfg(test)]
pub(crate) use sessions::Registration;
pub(crate) use sessions::{Session, SessionId, Sessions};

use crate::metrics::Metrics;

/// Orders for the fan-out: batches from the store and acks of resends. When that many wait, the committer and the
/// connections wait too, so a server that cannot keep up with its own deliveries takes in less.
const WAITING_ORDERS: usize = 1_024;

enum Order {
    Deliver(Vec<Committed>),
    /// The ack of a message that was stored before: behind everything that was committed before it is given.
    Acknowledge(Arc<Session>, Frame),
    /// Answered when everything ordered before has been put into the outboxes.
    Flush(oneshot::Sender<()>),
    Stop,
}

/// The listener that is handed to the store at its opening.
pub struct Hub {
    orders: SyncSender<Order>,
    thread: Mutex<Option<JoinHandle<()>>>,
    sessions: Arc<Sessions>,
    metrics: Arc<Metrics>,
}

impl Hub {
    /// Starts the fan-out thread, which ends with [`Server::drain`](crate::Server::drain) or with the hub.
    pub fn new(metrics: Arc<Metrics>) -> Arc<Hub> {
        let sessions = Arc::new(Sessions::default());
        let (orders, waiting) = mpsc::sync_channel(WAITING_ORDERS);
        let thread = std::thread::Builder::new()
            .name("bluetick-fanout".into())
            .spawn({
                let (sessions, metrics) = (Arc::clone(&sessions), Arc::clone(&metrics));
                move || run(&waiting, &sessions, &metrics)
            })
            .expect("a process that cannot start a thread cannot serve");
        Arc::new(Hub { orders, thread: Mutex::new(Some(thread)), sessions, metrics })
    }

    pub(crate) fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Returns when everything committed so far is in the outboxes.
    pub(crate) async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        self.order(Order::Flush(done)).await;
        let _ = flushed.await;
    }

    /// Puts an ack into the session's outbox, behind everything committed so far. A client that hears of a seq has
    /// then heard of all those below it, also when the message was stored by an earlier attempt.
    pub(crate) async fn acknowledge(&self, session: Arc<Session>, ack: Frame) {
        self.order(Order::Acknowledge(session, ack)).await;
    }

    /// Waits for a place without holding up the runtime. After `stop`, orders are forgotten.
    async fn order(&self, mut order: Order) {
        while let Err(refused) = self.orders.try_send(order) {
            match refused {
                mpsc::TrySendError::Full(waiting) => order = waiting,
                mpsc::TrySendError::Disconnected(_) => return,
            }
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
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
        // Counted here, since whoever sent it may be gone by now.
        self.metrics.stored(batch.iter().filter(|committed| is_sent(committed)).count());
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
            Order::Acknowledge(session, ack) => session.outbox.push(ack),
            Order::Flush(done) => {
                let _ = done.send(());
            }
            Order::Stop => return,
        }
    }
}

/// Whether a client sent it; the server writes the notices itself.
fn is_sent(committed: &Committed) -> bool {
    committed.message.content_type != ContentType::System
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
