//! Fan-out: delivers committed messages and changes to the outboxes of connected devices, in order.
//!
//! Invariant: one thread at a time pushes live messages, in commit order. Every connection
//! therefore sees each conversation in seq order, and gets the ack of its own message at that
//! message's seq. Usually the fan-out thread does this. When that thread is idle and a batch has
//! few receivers, the thread that reports the batch delivers it, which saves a wake-up. The fan-out
//! never waits for the store: work that needs the store goes to the workers. Socket I/O does not
//! belong here.

mod catch_up;
mod changes;
mod entries;
mod fanout;
mod frame;
mod outbox;
mod presence;
mod receipts;
mod senders;
mod sessions;
mod typing;
mod whereabouts;
mod workers;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use bluetick_core::ports::{Change, CommitListener, Committed, Ephemeral, Fleet};
use bluetick_core::{Chat, ContentType, ConversationId, ConversationView, Seq, UserId};
use bluetick_wire::CloseCode;
use bluetick_wire::frame::encode_presence;
use tokio::sync::oneshot;

pub(crate) use catch_up::{CatchUp, Kept, Missing, Poured, Then};
pub(crate) use frame::Frame;
pub(crate) use outbox::{Outbox, Overflowed, cost};
#[cfg(test)]
pub(crate) use sessions::Registration;
pub(crate) use sessions::{Session, SessionId, Sessions};
pub(crate) use typing::Paces;
pub(crate) use whereabouts::Whereabouts;
pub(crate) use workers::Workers;

use crate::gate::KnownRevocations;
use crate::metrics::{Dropped, Metrics};
use changes::Changes;
use presence::PresenceChange;
use senders::Senders;
use typing::Typing;
use workers::{Errands, guarded};

/// Capacity of the fan-out queue, in orders: committed batches, changes, acks of resends. When the
/// queue is full, the committer and the connections wait, so a server that falls behind on
/// deliveries accepts less work. A larger value lets deliveries lag further behind commits.
const WAITING_ORDERS: usize = 1_024;

/// Upper bound on the receivers of an order that the reporting thread delivers itself while the
/// fan-out is idle. Receivers are the members of the conversations; for a batch of changes, the
/// number of changes counts. Up to this bound, delivering takes less time than waking the fan-out
/// thread.
const FEW_RECEIVERS: usize = 32;

/// A unit of work for the fan-out.
enum Order {
    Deliver(Vec<Committed>),
    Tell(Vec<Change>),
    /// Push the ack of a message that was stored earlier, behind everything committed before this
    /// order.
    Acknowledge(Arc<Session>, AckAgain),
    /// Answered when the frames of all earlier orders are in the outboxes.
    Flush(oneshot::Sender<()>),
    Stop,
}

/// The ack of a resend: the message is already stored at `seq`.
pub(crate) struct AckAgain {
    pub conversation: ConversationId,
    pub seq: Seq,
    pub frame: Frame,
}

/// Counts orders and finished orders. When all are finished, a flush need not ask the fan-out
/// thread.
#[derive(Default)]
struct Progress {
    /// Incremented before the order is queued.
    ordered: AtomicU64,
    done: AtomicU64,
}

impl Progress {
    fn order(&self) {
        self.ordered.fetch_add(1, Ordering::AcqRel);
    }

    /// Reverts [`Progress::order`] for an order that was not queued.
    fn take_back(&self) {
        self.ordered.fetch_sub(1, Ordering::AcqRel);
    }

    fn finish(&self) {
        self.done.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns whether every order counted before this call is done.
    fn is_idle(&self) -> bool {
        let ordered = self.ordered.load(Ordering::Acquire);
        self.done.load(Ordering::Acquire) >= ordered
    }
}

/// The store's [`CommitListener`], passed to the store when it opens. It owns the fan-out.
pub struct Hub {
    orders: SyncSender<Order>,
    fanout: Arc<Fanout>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The queued orders of a hub without a thread, which [`Hub::step`] carries out.
    waiting: Option<Mutex<Receiver<Order>>>,
    sessions: Arc<Sessions>,
    metrics: Arc<Metrics>,
    errands: Errands,
    typing: Typing,
    known_revocations: Arc<KnownRevocations>,
}

impl Hub {
    /// Starts the fan-out thread, which ends with [`Server::drain`](crate::Server::drain) or when
    /// the hub is dropped. Panics if the thread cannot be started.
    pub fn new(metrics: Arc<Metrics>) -> Arc<Hub> {
        let (mut hub, waiting) = Hub::idle(metrics);
        let working = Arc::clone(&hub.fanout);
        let thread = std::thread::Builder::new()
            .name("bluetick-fanout".into())
            .spawn(move || working.run(&waiting))
            .expect("a process that cannot start a thread cannot serve");
        hub.thread = Mutex::new(Some(thread));
        Arc::new(hub)
    }

    /// Creates a hub without a fan-out thread. Orders that are not delivered immediately wait for
    /// [`Hub::step`], so that a simulation controls the timing.
    pub fn in_steps(metrics: Arc<Metrics>) -> Arc<Hub> {
        let (mut hub, waiting) = Hub::idle(metrics);
        hub.waiting = Some(Mutex::new(waiting));
        Arc::new(hub)
    }

    /// Carries out the next queued order of a hub without a thread. Returns whether there was one.
    pub fn step(&self) -> bool {
        let Some(waiting) = &self.waiting else { return false };
        let order = waiting.lock().expect("nothing panics while it holds the lock").try_recv();
        let Ok(order) = order else { return false };
        let _turn = self.fanout.turn.lock().expect("an order that panics does so inside a guard");
        self.fanout.carry_out(order);
        self.fanout.progress.finish();
        true
    }

    fn idle(metrics: Arc<Metrics>) -> (Hub, Receiver<Order>) {
        let sessions = Arc::new(Sessions::default());
        let errands = Errands::new(Arc::clone(&metrics));
        let (orders, waiting) = mpsc::sync_channel(WAITING_ORDERS);
        let fanout = Arc::new(Fanout {
            changes: Changes {
                sessions: Arc::clone(&sessions),
                metrics: Arc::clone(&metrics),
                gathering: Arc::clone(&errands.gathering),
                entries: errands.entries.clone(),
            },
            senders: Arc::clone(&errands.senders),
            sessions: Arc::clone(&sessions),
            metrics: Arc::clone(&metrics),
            progress: Progress::default(),
            turn: Mutex::default(),
        });
        let (thread, typing, known_revocations) = (Mutex::default(), Typing::new(), Arc::default());
        let hub = Hub {
            orders,
            fanout,
            thread,
            waiting: None,
            sessions,
            metrics,
            errands,
            typing,
            known_revocations,
        };
        (hub, waiting)
    }

    pub(crate) fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// The revocation cache. [`Hub::changed`](CommitListener::changed) invalidates a user's entry
    /// when it receives a revocation.
    pub(crate) fn known_revocations(&self) -> Arc<KnownRevocations> {
        Arc::clone(&self.known_revocations)
    }

    /// Returns the presence directory of this node and the other nodes.
    pub(crate) fn whereabouts(&self, fleet: Arc<dyn Fleet>) -> Whereabouts {
        Whereabouts::new(Arc::clone(&self.sessions), fleet)
    }

    /// Starts the workers that need the store. Panics if called twice.
    pub(crate) fn start_workers(&self, chat: &Chat, whereabouts: &Whereabouts) -> Workers {
        self.errands.start(chat, whereabouts, &self.sessions, &self.metrics)
    }

    /// Returns when everything committed so far is in the outboxes.
    pub(crate) async fn flush(&self) {
        if self.fanout.progress.is_idle() {
            return;
        }
        let (done, flushed) = oneshot::channel();
        self.order(Order::Flush(done)).await;
        let _ = flushed.await;
    }

    /// Puts an ack into the session's outbox, behind everything committed so far. A client that
    /// receives a seq has therefore received all lower ones, also when an earlier attempt stored
    /// the message.
    pub(crate) async fn acknowledge(&self, session: Arc<Session>, ack: AckAgain) {
        self.order(Order::Acknowledge(session, ack)).await;
    }

    /// Queues an order. Waits for space in the queue without blocking the runtime. After `stop`,
    /// orders are discarded.
    async fn order(&self, mut order: Order) {
        loop {
            self.fanout.progress.order();
            let Err(refused) = self.orders.try_send(order) else { return };
            // The caller may drop this future while it waits, so a refused order is not counted
            // meanwhile.
            self.fanout.progress.take_back();
            match refused {
                mpsc::TrySendError::Full(waiting) => order = waiting,
                mpsc::TrySendError::Disconnected(_) => return,
            }
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }

    /// Announces to the other connected members that `user` is typing. Returns `false` if a rate
    /// limit dropped the event.
    pub(crate) fn typing(&self, view: &ConversationView, user: &UserId) -> bool {
        self.typing.tell(&self.sessions, &self.metrics, view.conversation.id, &view.members, user)
    }

    /// Queues the announcement that the user is online, after its first connection. Dropped if the
    /// queue is full.
    pub(crate) fn user_connected(&self, user: &UserId) {
        self.announce(PresenceChange::Came(user.clone()));
    }

    /// Queues the announcement that the user is offline, after its last connection. Dropped if the
    /// queue is full.
    pub(crate) fn user_disconnected(&self, user: &UserId) {
        self.announce(PresenceChange::Went(user.clone()));
    }

    /// Queues an announcement after the user switched between showing and hiding its presence.
    pub(crate) fn presence_changed(&self, user: &UserId) {
        self.announce(PresenceChange::Switched(user.clone()));
    }

    fn announce(&self, change: PresenceChange) {
        if self.errands.presence.try_send(change).is_err() {
            self.metrics.dropped(Dropped::Presence, 1);
        }
    }

    /// Ends the fan-out thread after it has carried out the queued orders. Later commits reach no
    /// session.
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
        if batch.is_empty() {
            return;
        }
        // Counted here, because the connection that sent the message may have ended by now.
        let sent_here = batch.iter().filter(|committed| committed.is_stored_here && is_sent(committed));
        self.metrics.stored(sent_here.count());
        let receivers: usize = batch.iter().map(|committed| committed.members.len()).sum();
        self.give(Order::Deliver(batch), receivers);
    }

    fn changed(&self, batch: Vec<Change>) {
        // Apply revocations immediately and outside the message order, because the revoking caller
        // waits for this. Invalidate the cache first: a connection that is being established then
        // either reads the revocation or is already in `sessions`.
        for change in &batch {
            match change {
                Change::Revoked { user, revocations } => {
                    self.known_revocations.forget(user);
                    self.sessions.each_of(user, &mut |session| {
                        if revocations.voids(&session.token) {
                            session.end(CloseCode::TokenRevoked);
                        }
                    });
                }
                Change::ResyncRequired { user } => {
                    self.sessions.each_of(user, &mut |session| session.end(CloseCode::InternalError));
                }
                Change::ReadState(_) | Change::Joined { .. } | Change::PreferencesChanged { .. } => {}
            }
        }
        if !batch.is_empty() {
            let receivers = batch.len();
            self.give(Order::Tell(batch), receivers);
        }
    }

    fn received_ephemeral(&self, ephemeral: Ephemeral) {
        match ephemeral {
            Ephemeral::Typing { conversation, user, members } => {
                self.typing.tell(&self.sessions, &self.metrics, conversation, &members, &user);
            }
            // The user has connected to this node since, and that announcement is on its way.
            Ephemeral::Presence { user, online: false, .. } if self.sessions.is_online(&user) => {}
            Ephemeral::Presence { user, online, profile, to } => {
                presence::tell(&self.sessions, &self.metrics, &to, encode_presence(&user, online, &profile));
            }
        }
    }
}

impl Hub {
    /// Delivers a small order immediately if the fan-out is idle; otherwise queues it. Blocks while
    /// the queue is full.
    fn give(&self, order: Order, receivers: usize) {
        let order = match receivers <= FEW_RECEIVERS {
            true => match self.fanout.at_once(order) {
                None => return,
                Some(order) => order,
            },
            false => order,
        };
        self.fanout.progress.order();
        // Fails only after `stop`, when no connection is left to receive the order.
        let _ = self.orders.send(order);
    }
}

/// Puts messages and changes into the outboxes. The fan-out thread and the reporting threads share
/// it.
struct Fanout {
    sessions: Arc<Sessions>,
    metrics: Arc<Metrics>,
    progress: Progress,
    /// Held while an order is carried out, so that one thread at a time delivers.
    turn: Mutex<()>,
    changes: Changes,
    senders: Arc<Senders>,
}

impl Fanout {
    fn run(&self, orders: &Receiver<Order>) {
        while let Ok(order) = orders.recv() {
            let _turn = self.turn.lock().expect("an order that panics does so inside a guard");
            if matches!(order, Order::Stop) {
                return;
            }
            self.carry_out(order);
            self.progress.finish();
        }
    }

    /// Carries out the order in the calling thread. Returns the order if another one is running or
    /// queued.
    fn at_once(&self, order: Order) -> Option<Order> {
        let Ok(_turn) = self.turn.try_lock() else { return Some(order) };
        if !self.progress.is_idle() {
            return Some(order);
        }
        // Counted like queued orders, so that a concurrent flush waits for it.
        self.progress.order();
        self.carry_out(order);
        self.progress.finish();
        None
    }

    fn carry_out(&self, order: Order) {
        match order {
            Order::Deliver(batch) => {
                let pushes = batch.iter().map(|committed| self.deliver(committed)).sum();
                self.metrics.pushes.inc_by(pushes);
            }
            Order::Tell(batch) => batch.into_iter().for_each(|change| self.tell(change)),
            Order::Acknowledge(session, AckAgain { conversation, seq, frame }) => {
                let catch_up = &session.catch_up;
                if !catch_up.is_watching() || catch_up.arrive_again(conversation, seq, &frame) {
                    session.outbox.push(frame);
                }
            }
            Order::Flush(done) => {
                let _ = done.send(());
            }
            Order::Stop => {}
        }
    }

    /// Delivers one message and returns the number of pushes. Catches panics, so that a faulty
    /// message does not end all other deliveries.
    fn deliver(&self, committed: &Committed) -> u64 {
        let delivered = catch_unwind(AssertUnwindSafe(|| {
            if committed.members.len() > changes::SMALL_GROUP {
                self.senders.note(&committed.message);
            }
            let pushes = fanout::deliver(committed, &self.sessions);
            self.changes.delivered(committed);
            if committed.departed.is_some() {
                // The member who left may have had the lowest read state, so the lowest may rise.
                self.changes.gathering.touch(committed.message.conversation, &committed.members);
            }
            pushes
        }));
        delivered.unwrap_or_else(|_| {
            let (conversation, seq) = (committed.message.conversation, committed.message.seq);
            tracing::error!(%conversation, %seq, "a message could not be delivered to everybody");
            0
        })
    }

    fn tell(&self, change: Change) {
        if catch_unwind(AssertUnwindSafe(|| self.changes.tell(change))).is_err() {
            tracing::error!("a change could not be told to everybody");
        }
    }
}

/// Whether a client sent the message. The server itself writes notices and voids.
fn is_sent(committed: &Committed) -> bool {
    !matches!(committed.message.content_type, ContentType::System | ContentType::Void)
}
