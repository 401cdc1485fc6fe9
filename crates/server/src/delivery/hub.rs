//! The hub: receives commits, changes and ephemeral events from the store and the connections, and
//! hands them to the fan-out, the workers or the sessions.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::JoinHandle;

use bluetick_core::ports::{CommitListener, Committed, CommittedChange, Ephemeral, Fleet};
use bluetick_core::{Chat, ContentType, ConversationWithMembers, UserId};
use bluetick_wire::CloseCode;
use bluetick_wire::frame::encode_presence;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::changes::Changes;
use super::fanout::{CommandCounts, Fanout, FanoutCommand, RepeatedAck};
use super::presence::{self, PresenceChange};
use super::typing::TypingIndicators;
use super::workers::WorkerQueues;
use super::{PresenceDirectory, Sessions, WebSocketSession, Workers};
use crate::metrics::{Dropped, Metrics};
use crate::revocation_check::RevocationCache;

/// Capacity of the fan-out queue, in commands: committed batches, changes, acks of resends. When
/// the queue is full, the committer and the connections wait, so a server that falls behind on
/// deliveries accepts less work. A larger value lets deliveries lag further behind commits.
const QUEUED_COMMANDS: usize = 1_024;

/// Upper bound on the receivers of a command that the reporting thread delivers itself while the
/// fan-out is idle. Receivers are the members of the conversations; for a batch of changes, the
/// number of changes counts. Up to this bound, delivering takes less time than waking the fan-out
/// thread.
const MAX_INLINE_RECEIVERS: usize = 32;

/// The store's [`CommitListener`], passed to the store when it opens. It owns the fan-out.
pub struct Hub {
    commands: SyncSender<FanoutCommand>,
    fanout: Arc<Fanout>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The queued commands of a hub without a thread, which [`Hub::step`] runs.
    queue: Option<Mutex<Receiver<FanoutCommand>>>,
    sessions: Arc<Sessions>,
    metrics: Arc<Metrics>,
    queues: WorkerQueues,
    typing: TypingIndicators,
    revocation_cache: Arc<RevocationCache>,
}

impl Hub {
    /// Starts the fan-out thread, which ends with [`ChatServer::drain`](crate::ChatServer::drain)
    /// or when the hub is dropped. Panics if the thread cannot be started.
    pub fn new(metrics: Arc<Metrics>) -> Arc<Hub> {
        let (mut hub, waiting) = Hub::with_queue(metrics);
        let working = Arc::clone(&hub.fanout);
        let thread = std::thread::Builder::new()
            .name("bluetick-fanout".into())
            .spawn(move || working.run(&waiting))
            .expect("the server needs its fan-out thread; the process cannot continue without it");
        hub.thread = Mutex::new(Some(thread));
        Arc::new(hub)
    }

    /// Creates a hub without a fan-out thread. Commands that are not delivered immediately wait for
    /// [`Hub::step`], so that a simulation controls the timing.
    pub fn in_steps(metrics: Arc<Metrics>) -> Arc<Hub> {
        let (mut hub, waiting) = Hub::with_queue(metrics);
        hub.queue = Some(Mutex::new(waiting));
        Arc::new(hub)
    }

    /// Runs the next queued command of a hub without a thread. Returns whether there was one.
    pub fn step(&self) -> bool {
        let Some(queue) = &self.queue else { return false };
        let command = queue.lock().try_recv();
        let Ok(command) = command else { return false };
        let _running = self.fanout.running.lock();
        self.fanout.run_command(command);
        self.fanout.counts.finish();
        true
    }

    fn with_queue(metrics: Arc<Metrics>) -> (Hub, Receiver<FanoutCommand>) {
        let sessions = Arc::new(Sessions::default());
        let queues = WorkerQueues::new(Arc::clone(&metrics));
        let (commands, waiting) = mpsc::sync_channel(QUEUED_COMMANDS);
        let fanout = Arc::new(Fanout {
            changes: Changes {
                sessions: Arc::clone(&sessions),
                metrics: Arc::clone(&metrics),
                receipt_batches: Arc::clone(&queues.receipt_batches),
                entries: queues.entries.clone(),
            },
            senders: Arc::clone(&queues.senders),
            sessions: Arc::clone(&sessions),
            metrics: Arc::clone(&metrics),
            counts: CommandCounts::default(),
            running: Mutex::default(),
        });
        let (thread, typing, revocation_cache) = (Mutex::default(), TypingIndicators::new(), Arc::default());
        let hub = Hub {
            commands,
            fanout,
            thread,
            queue: None,
            sessions,
            metrics,
            queues,
            typing,
            revocation_cache,
        };
        (hub, waiting)
    }

    pub(crate) fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// The revocation cache. [`Hub::changed`](CommitListener::changed) invalidates a user's entry
    /// when it receives a revocation.
    pub(crate) fn revocation_cache(&self) -> Arc<RevocationCache> {
        Arc::clone(&self.revocation_cache)
    }

    /// Returns the presence directory of this node and the other nodes.
    pub(crate) fn presence_directory(&self, fleet: Arc<dyn Fleet>) -> PresenceDirectory {
        PresenceDirectory::new(Arc::clone(&self.sessions), fleet)
    }

    /// Starts the workers that need the store. Panics if called twice.
    pub(crate) fn start_workers(&self, chat: &Chat, presence_directory: &PresenceDirectory) -> Workers {
        self.queues.start(chat, presence_directory, &self.sessions, &self.metrics)
    }

    /// Returns when everything committed so far is in the outboxes.
    pub(crate) async fn flush(&self) {
        if self.fanout.counts.is_idle() {
            return;
        }
        let (done, flushed) = oneshot::channel();
        self.queue(FanoutCommand::Flush(done)).await;
        let _ = flushed.await;
    }

    /// Puts an ack into the session's outbox, behind everything committed so far. A client that
    /// receives a seq has therefore received all lower ones, also when an earlier attempt stored
    /// the message.
    pub(crate) async fn acknowledge(&self, session: Arc<WebSocketSession>, ack: RepeatedAck) {
        self.queue(FanoutCommand::Acknowledge(session, ack)).await;
    }

    /// Queues a command. Waits for space in the queue without blocking the runtime. After `stop`,
    /// commands are discarded.
    async fn queue(&self, mut command: FanoutCommand) {
        loop {
            self.fanout.counts.add();
            let Err(refused) = self.commands.try_send(command) else { return };
            // The caller may drop this future while it waits, so a refused command is not counted
            // meanwhile.
            self.fanout.counts.remove();
            match refused {
                mpsc::TrySendError::Full(unsent) => command = unsent,
                mpsc::TrySendError::Disconnected(_) => return,
            }
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }

    /// Announces to the other connected members that `user` is typing. Returns `false` if a rate
    /// limit dropped the event.
    pub(crate) fn typing(&self, view: &ConversationWithMembers, user: &UserId) -> bool {
        self.typing.push(&self.sessions, &self.metrics, view.conversation.id, &view.members, user)
    }

    /// Queues the announcement that the user is online, after its first connection. Dropped if the
    /// queue is full.
    pub(crate) fn user_connected(&self, user: &UserId) {
        self.announce(PresenceChange::Connected(user.clone()));
    }

    /// Queues the announcement that the user is offline, after its last connection. Dropped if the
    /// queue is full.
    pub(crate) fn user_disconnected(&self, user: &UserId) {
        self.announce(PresenceChange::Disconnected(user.clone()));
    }

    /// Queues an announcement after the user switched between showing and hiding its presence.
    pub(crate) fn presence_changed(&self, user: &UserId) {
        self.announce(PresenceChange::VisibilityChanged(user.clone()));
    }

    fn announce(&self, change: PresenceChange) {
        if self.queues.presence.try_send(change).is_err() {
            self.metrics.dropped(Dropped::Presence, 1);
        }
    }

    /// Ends the fan-out thread after it has run the queued commands. Later commits reach no
    /// session.
    pub(crate) async fn stop(&self) {
        let thread = self.thread.lock().take();
        let Some(thread) = thread else { return };
        let commands = self.commands.clone();
        let joined = tokio::task::spawn_blocking(move || {
            let _ = commands.send(FanoutCommand::Stop);
            thread.join()
        });
        if !matches!(joined.await, Ok(Ok(()))) {
            tracing::error!("fan-out thread panicked");
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
        self.run_or_queue(FanoutCommand::Deliver(batch), receivers);
    }

    fn changed(&self, batch: Vec<CommittedChange>) {
        // Apply revocations immediately and outside the message order, because the revoking caller
        // waits for this. Invalidate the cache first: a connection that is being established then
        // either reads the revocation or is already in `sessions`.
        for change in &batch {
            match change {
                CommittedChange::Revoked { user, revocations } => {
                    self.revocation_cache.evict(user);
                    self.sessions.each_of(user, &mut |session| {
                        if revocations.voids(&session.token) {
                            session.end(CloseCode::TokenRevoked);
                        }
                    });
                }
                CommittedChange::ResyncRequired { user } => {
                    self.sessions.each_of(user, &mut |session| session.end(CloseCode::InternalError));
                }
                CommittedChange::ReadState(_)
                | CommittedChange::Joined { .. }
                | CommittedChange::PreferencesChanged { .. } => {}
            }
        }
        if !batch.is_empty() {
            let receivers = batch.len();
            self.run_or_queue(FanoutCommand::Publish(batch), receivers);
        }
    }

    fn received_ephemeral(&self, ephemeral: Ephemeral) {
        match ephemeral {
            Ephemeral::Typing { conversation, user, members } => {
                self.typing.push(&self.sessions, &self.metrics, conversation, &members, &user);
            }
            // The user has connected to this node since, and that announcement is on its way.
            Ephemeral::Presence { user, online: false, .. } if self.sessions.is_online(&user) => {}
            Ephemeral::Presence { user, online, profile, to } => {
                presence::push_presence(
                    &self.sessions,
                    &self.metrics,
                    &to,
                    encode_presence(&user, online, &profile),
                );
            }
        }
    }
}

impl Hub {
    /// Delivers a small command immediately if the fan-out is idle; otherwise queues it. Blocks
    /// while the queue is full.
    fn run_or_queue(&self, command: FanoutCommand, receivers: usize) {
        let command = match receivers <= MAX_INLINE_RECEIVERS {
            true => match self.fanout.try_run_inline(command) {
                None => return,
                Some(command) => command,
            },
            false => command,
        };
        self.fanout.counts.add();
        // Fails only after `stop`, when no connection is left to receive the frames.
        let _ = self.commands.send(command);
    }
}

/// Whether a client sent the message. The server itself writes notices and voids.
fn is_sent(committed: &Committed) -> bool {
    !matches!(committed.message.content_type, ContentType::System | ContentType::Void)
}
