//! From the store to every device: who is connected, and how what is committed reaches them in order.
//!
//! Invariant: one at a time puts live messages into outboxes, in commit order. So every connection sees every
//! conversation in seq order, and the ack of its own message in the place of that message. Usually that is a thread of its
//! own; when it has nothing to do and there is little to deliver, whoever reports it does so on the spot, and nobody has to
//! be woken. It waits for nobody: what needs the store is handed to workers. Sockets do not belong here.

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

use bluetick_core::ports::{Change, CommitListener, Committed, Fleet, Whisper};
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

/// Orders for the fan-out: batches from the store and acks of resends. When that many wait, the committer and the
/// connections wait too, so a server that cannot keep up with its own deliveries takes in less.
const WAITING_ORDERS: usize = 1_024;

/// What goes to no more people than this is delivered by whoever reports it, when the thread has nothing to do. Waking it
/// would take longer.
const FEW_RECEIVERS: usize = 32;

enum Order {
    Deliver(Vec<Committed>),
    Tell(Vec<Change>),
    /// The ack of a message that was stored before: behind everything that was committed before it is given.
    Acknowledge(Arc<Session>, AckAgain),
    /// Answered when everything ordered before has been put into the outboxes.
    Flush(oneshot::Sender<()>),
    Stop,
}

/// The ack of a message that is found in its place already.
pub(crate) struct AckAgain {
    pub conversation: ConversationId,
    pub seq: Seq,
    pub frame: Frame,
}

/// How many orders were given, and how many of them are done. Whoever finds nothing undone need not ask the thread.
#[derive(Default)]
struct Progress {
    /// Counted before the order is given.
    ordered: AtomicU64,
    done: AtomicU64,
}

impl Progress {
    fn order(&self) {
        self.ordered.fetch_add(1, Ordering::AcqRel);
    }

    /// It was not given after all.
    fn take_back(&self) {
        self.ordered.fetch_sub(1, Ordering::AcqRel);
    }

    fn finish(&self) {
        self.done.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether everything that was ordered before this is asked has been done.
    fn is_idle(&self) -> bool {
        let ordered = self.ordered.load(Ordering::Acquire);
        self.done.load(Ordering::Acquire) >= ordered
    }
}

/// The listener that is handed to the store at its opening.
pub struct Hub {
    orders: SyncSender<Order>,
    fanout: Arc<Fanout>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// What waits for whoever takes the steps, where there is no thread.
    waiting: Option<Mutex<Receiver<Order>>>,
    sessions: Arc<Sessions>,
    metrics: Arc<Metrics>,
    errands: Errands,
    typing: Typing,
    known_revocations: Arc<KnownRevocations>,
}

impl Hub {
    /// Starts the fan-out thread, which ends with [`Server::drain`](crate::Server::drain) or with the hub.
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

    /// Without a thread: what is not delivered on the spot waits for [`Hub::step`], so that a simulation decides when.
    pub fn in_steps(metrics: Arc<Metrics>) -> Arc<Hub> {
        let (mut hub, waiting) = Hub::idle(metrics);
        hub.waiting = Some(Mutex::new(waiting));
        Arc::new(hub)
    }

    /// Delivers the next of what waits, in a hub without a thread. Returns whether there was something.
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

    /// What is held of revocations, and forgotten as they are heard of.
    pub(crate) fn known_revocations(&self) -> Arc<KnownRevocations> {
        Arc::clone(&self.known_revocations)
    }

    /// Where everybody is, here and at the other nodes.
    pub(crate) fn whereabouts(&self, fleet: Arc<dyn Fleet>) -> Whereabouts {
        Whereabouts::new(Arc::clone(&self.sessions), fleet)
    }

    /// Starts what needs the store as well. Once.
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

    /// Puts an ack into the session's outbox, behind everything committed so far. A client that hears of a seq has
    /// then heard of all those below it, also when the message was stored by an earlier attempt.
    pub(crate) async fn acknowledge(&self, session: Arc<Session>, ack: AckAgain) {
        self.order(Order::Acknowledge(session, ack)).await;
    }

    /// Waits for a place without holding up the runtime. After `stop`, orders are forgotten.
    async fn order(&self, mut order: Order) {
        loop {
            self.fanout.progress.order();
            let Err(refused) = self.orders.try_send(order) else { return };
            // Whoever waits may give up, so nothing is counted meanwhile.
            self.fanout.progress.take_back();
            match refused {
                mpsc::TrySendError::Full(waiting) => order = waiting,
                mpsc::TrySendError::Disconnected(_) => return,
            }
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }

    /// Tells the other members who are here that this one is writing. Returns whether it was time to.
    pub(crate) fn typing(&self, view: &ConversationView, user: &UserId) -> bool {
        self.typing.tell(&self.sessions, &self.metrics, view.conversation.id, &view.members, user)
    }

    /// The user's first connection has come.
    pub(crate) fn came(&self, user: &UserId) {
        self.announce(PresenceChange::Came(user.clone()));
    }

    /// The user's last connection has gone.
    pub(crate) fn went(&self, user: &UserId) {
        self.announce(PresenceChange::Went(user.clone()));
    }

    /// The user has switched between showing and hiding whether it is there: the others are told what they may know
    /// now.
    pub(crate) fn presence_changed(&self, user: &UserId) {
        self.announce(PresenceChange::Switched(user.clone()));
    }

    fn announce(&self, change: PresenceChange) {
        if self.errands.presence.try_send(change).is_err() {
            self.metrics.dropped(Dropped::Presence, 1);
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
        if batch.is_empty() {
            return;
        }
        // Counted here, since whoever sent it may be gone by now.
        let sent_here = batch.iter().filter(|committed| committed.is_stored_here && is_sent(committed));
        self.metrics.stored(sent_here.count());
        let receivers: usize = batch.iter().map(|committed| committed.members.len()).sum();
        self.give(Order::Deliver(batch), receivers);
    }

    fn changed(&self, batch: Vec<Change>) {
        // At once, and not in the order of messages: whoever revoked a token waits for this. First what is held is
        // forgotten, so that a connection that is just being made finds out, or is found here.
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
                Change::Overlooked { user } => {
                    self.sessions.each_of(user, &mut |session| session.end(CloseCode::InternalError));
                }
                Change::Moved(_) | Change::Joined { .. } | Change::Preferred { .. } => {}
            }
        }
        if !batch.is_empty() {
            let receivers = batch.len();
            self.give(Order::Tell(batch), receivers);
        }
    }

    fn whispered(&self, whisper: Whisper) {
        match whisper {
            Whisper::Typing { conversation, user, members } => {
                self.typing.tell(&self.sessions, &self.metrics, conversation, &members, &user);
            }
            // It has come here since, and word of that is on its way.
            Whisper::Presence { user, online: false, .. } if self.sessions.is_online(&user) => {}
            Whisper::Presence { user, online, profile, to } => {
                presence::tell(&self.sessions, &self.metrics, &to, encode_presence(&user, online, &profile));
            }
        }
    }
}

impl Hub {
    /// Carries an order out on the spot, or gives it to the thread.
    fn give(&self, order: Order, receivers: usize) {
        let order = match receivers <= FEW_RECEIVERS {
            true => match self.fanout.at_once(order) {
                None => return,
                Some(order) => order,
            },
            false => order,
        };
        self.fanout.progress.order();
        // Refused only after `stop`, when no connection is left to hear of it.
        let _ = self.orders.send(order);
    }
}

/// What puts messages into outboxes.
struct Fanout {
    sessions: Arc<Sessions>,
    metrics: Arc<Metrics>,
    progress: Progress,
    /// Held by whoever carries out an order.
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

    /// Gives the order back when another one is being carried out, or waits.
    fn at_once(&self, order: Order) -> Option<Order> {
        let Ok(_turn) = self.turn.try_lock() else { return Some(order) };
        if !self.progress.is_idle() {
            return Some(order);
        }
        // Counted like the others: whoever asks for a flush now waits for it.
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

    /// A fault with one message must not end the deliveries of all others.
    fn deliver(&self, committed: &Committed) -> u64 {
        let delivered = catch_unwind(AssertUnwindSafe(|| {
            if committed.members.len() > changes::SMALL_GROUP {
                self.senders.note(&committed.message);
            }
            let pushes = fanout::deliver(committed, &self.sessions);
            self.changes.delivered(committed);
            if committed.departed.is_some() {
                // Whoever was furthest behind may be the one who left.
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

/// Whether a client sent it; notices and voids are the server's own.
fn is_sent(committed: &Committed) -> bool {
    !matches!(committed.message.content_type, ContentType::System | ContentType::Void)
}
