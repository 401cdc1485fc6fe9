//! The state of a client and the rules by which frames change it. It has no sockets, files or
//! clocks: callers pass in frames and times. It leaves the resulting work in `PendingWork` for the
//! driver.

pub mod ephemeral;
mod eviction;
pub mod inbox;
pub mod outbox;
pub mod people;
mod receipts;
#[cfg(test)]
mod test_support;
#[cfg(test)]
mod tests;
pub mod timeline;
#[cfg(test)]
mod timeline_properties;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use bluetick_types::{ConversationId, ConversationKind, ReceiptKind, Seq, Timestamp, UserId};
use tokio::time::Instant;

use self::ephemeral::Signals;
use self::inbox::{Inbox, RowUpdate};
use self::outbox::{Outbox, OutboxItem};
use self::people::People;
use self::timeline::Timeline;
use crate::wire::bodies::{InboxEntry, Message, Notice};
use crate::wire::codes::CloseCode;
use crate::wire::frames::{Ack, Backlog, Position, ServerFrame, Status};

/// Maximum number of rows that are stored, reloaded after a reconnect, and listed in `hello`. A
/// larger value makes reconnects more expensive.
pub const KEPT_ROWS: usize = 200;
/// Number of messages that are stored per conversation and left when an unwatched one is trimmed.
/// It bounds storage and memory; with fewer, a reopened conversation loads a page first.
pub const KEPT_MESSAGES: usize = 100;
/// Number of conversations whose messages are stored and held in memory. It bounds both. Watched
/// ones are never evicted.
pub const KEPT_TIMELINES: usize = 50;
/// Maximum number of messages that pushes may accumulate in a watched conversation. It bounds
/// memory.
const MOST_SHOWN: usize = 5_000;

/// The phase of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Phase {
    /// Not connected; waiting for the next attempt or stopped.
    #[default]
    Offline,
    /// Connecting, or waiting for `welcome`.
    Connecting,
    /// The server has sent `welcome`.
    Online,
    /// The server refused the token and no other one is available. The client does not reconnect.
    LoggedOut,
    /// The token belongs to another user. The client does not reconnect.
    OtherUser,
}

/// A snapshot of the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionState {
    pub phase: Phase,
    /// When the phase began, by the client's clock.
    pub since: Timestamp,
    /// The close code of the last connection, if the server sent one. `None` while connecting or
    /// online.
    pub close_code: Option<CloseCode>,
    /// Whether catch-up is complete. From then on, frames are live.
    pub caught_up: bool,
}

/// A one-time event, for sounds and notifications. Draw the screen from the state, not from events.
#[derive(Clone, Debug)]
pub enum Event {
    /// Another user sent a message just now.
    Message(Arc<Message>),
    /// A problem that the user must know of, as English text.
    Trouble(String),
    /// The user is no longer a member of this conversation.
    Gone(ConversationId),
    /// Unsent messages to a group that the user is no longer a member of. The client removed them
    /// from the outbox.
    GivenUp(Vec<OutboxItem>),
    LoggedOut,
    /// The token belongs to this other user. The client does not reconnect.
    OtherUser(UserId),
}

/// Work that the state leaves for the driver.
#[derive(Default)]
pub struct PendingWork {
    /// Receipts to send, at most one kind per conversation. `Read` covers both.
    pub acks: BTreeMap<ConversationId, ReceiptKind>,
    /// Conversations with messages to fetch.
    pub missing: VecDeque<ConversationId>,
    /// Conversations whose row to fetch.
    pub refresh: BTreeSet<ConversationId>,
    /// Whether to fetch the inbox and the archive again.
    pub reload: bool,
    /// Outbox items to remove from the storage: acknowledged or given up.
    pub settled: Vec<OutboxItem>,
    /// Events to publish.
    pub events: Vec<Event>,
}

/// Cursors of the next inbox page and the next archive page. `None` means no further page.
#[derive(Default)]
pub struct Cursors {
    pub inbox: Option<String>,
    pub archive: Option<String>,
}

/// The state of a client.
pub struct State {
    pub user: UserId,
    /// The store epoch from the last `welcome`. `None` before the first one.
    pub epoch: Option<u64>,
    /// Server time of the last `welcome`. Messages received by the server since then are live even
    /// during catch-up.
    live_since: Timestamp,
    pub connection: ConnectionState,
    pub inbox: Inbox,
    pub cursors: Cursors,
    pub timelines: HashMap<ConversationId, Timeline>,
    /// Number of watchers per conversation; no entry means zero.
    pub watched: HashMap<ConversationId, usize>,
    pub outbox: Outbox,
    /// Texts that were written and not sent.
    pub drafts: HashMap<ConversationId, String>,
    pub signals: Signals,
    pub people: People,
    pub todo: PendingWork,
    /// Conversations that differ from the storage.
    pub dirty: HashSet<ConversationId>,
    /// Conversations that frames mentioned on this connection. A reload that started earlier must
    /// not remove them.
    told: HashSet<ConversationId>,
    /// Conversations without a row that the server pushed messages of: the seq up to which they are
    /// contiguous.
    strangers: HashMap<ConversationId, Seq>,
    /// Conversations without a row that have a backlog to fetch.
    behind: HashSet<ConversationId>,
    /// Status frames of conversations whose row is still being fetched, the latest per user. The
    /// row may be older than the status.
    early: HashMap<ConversationId, HashMap<UserId, Status>>,
    /// Counter for `Timeline::touched`.
    looks: u64,
}

impl State {
    pub fn new(user: UserId) -> State {
        State {
            epoch: None,
            live_since: Timestamp::from_millis(i64::MAX),
            connection: ConnectionState::default(),
            inbox: Inbox::new(user.clone()),
            cursors: Cursors::default(),
            timelines: HashMap::new(),
            watched: HashMap::new(),
            outbox: Outbox::default(),
            drafts: HashMap::new(),
            signals: Signals::default(),
            people: People::default(),
            todo: PendingWork::default(),
            dirty: HashSet::new(),
            told: HashSet::new(),
            strangers: HashMap::new(),
            early: HashMap::new(),
            behind: HashSet::new(),
            looks: 0,
            user,
        }
    }

    /// The device's positions for `hello`. Empty before the first `welcome`.
    pub fn positions(&self) -> BTreeMap<String, Position> {
        let Some(epoch) = self.epoch else { return BTreeMap::new() };
        let rows = self.inbox.latest(KEPT_ROWS);
        rows.iter()
            .map(|row| (row.entry.conversation_id.to_string(), Position { epoch, seq: row.have_seq }))
            .collect()
    }

    /// Handles `welcome`. Returns whether the store epoch changed. If it changed, drops all rows,
    /// messages and receipts, because they may not exist in the restored store.
    pub fn welcome(&mut self, epoch: u64, server_time: Timestamp) -> bool {
        self.live_since = server_time;
        let is_another = self.epoch.is_some_and(|known| known != epoch);
        self.epoch = Some(epoch);
        self.told.clear();
        self.strangers.clear();
        self.behind.clear();
        self.early.clear();
        self.todo.missing.clear();
        if is_another {
            let all: Vec<ConversationId> = self.inbox.rows().map(|row| row.entry.conversation_id).collect();
            self.dirty.extend(all);
            self.inbox.clear();
            self.timelines.clear();
            self.todo.acks.clear();
        }
        is_another
    }

    /// Resets the state that depends on a connection. Unsent messages return to the queue.
    pub fn connection_lost(&mut self) {
        self.connection.caught_up = false;
        self.outbox.connection_lost();
        self.signals.clear();
        self.todo.missing.clear();
        self.todo.refresh.clear();
        self.todo.reload = false;
    }

    /// Applies a frame. Ignores `welcome`, `error` and `come_back`, which the driver handles.
    pub fn hear(&mut self, frame: ServerFrame, now: Instant) {
        match frame {
            ServerFrame::CaughtUp => self.caught_up(),
            ServerFrame::Message(message) => self.received(Arc::new(message), MessageArrival::Pushed),
            ServerFrame::Ack(ack) => self.acknowledged(&ack),
            ServerFrame::Status(status) => self.take_status(status),
            ServerFrame::ReceiptCounts(all) => {
                self.inbox.take_receipts(all.conversation_id, all.marks);
                self.changed(all.conversation_id);
            }
            ServerFrame::Typing(typing) => {
                self.people.want(&typing.user_id);
                self.signals.somebody_types(typing.conversation_id, typing.user_id, now);
            }
            ServerFrame::Presence(presence) => self.signals.learn_presence(presence),
            ServerFrame::Conversation(entry) => {
                self.told.insert(entry.conversation_id);
                self.learn(*entry);
            }
            ServerFrame::Backlog(backlog) => self.is_behind(&backlog),
            ServerFrame::Gone(gone) => self.gone(gone.conversation_id),
            ServerFrame::Welcome(_)
            | ServerFrame::Error(_)
            | ServerFrame::ComeBack(_)
            | ServerFrame::Pong
            | ServerFrame::Unknown => {}
        }
    }

    /// Ends catch-up: requests a reload, all missing messages, and the rows that unsent messages
    /// need.
    fn caught_up(&mut self) {
        self.connection.caught_up = true;
        // Catch-up contains no ticks, settings or members. Only the inbox has their current values.
        self.todo.reload = true;
        let behind: Vec<ConversationId> = self.inbox.rows().map(|row| row.entry.conversation_id).collect();
        behind.into_iter().for_each(|id| self.want_missing(id));
        self.todo.refresh.extend(self.behind.iter().copied());
        let written_to: BTreeSet<ConversationId> =
            self.outbox.items().map(|item| item.conversation_id).collect();
        written_to.into_iter().for_each(|id| self.find_if_written_to(id));
    }

    /// Takes over an inbox row from the server. Queues receipts for what the server does not know
    /// yet, and applies early status frames.
    pub fn learn(&mut self, mut entry: InboxEntry) {
        let (id, told) = (entry.conversation_id, entry.my_status);
        if let Some(presence) = entry.peer_presence.take() {
            self.signals.learn_presence(presence);
        }
        if let Some(user) = entry.peer.as_ref().or(entry.last_message.as_ref().map(|last| &last.sender_id)) {
            self.people.want(user);
        }
        let row = self.inbox.learn(entry, self.timelines.get(&id));
        if let Some(end) = self.strangers.remove(&id) {
            row.have_seq = row.have_seq.max(end);
        }
        let (have, read) = (row.have_seq, row.entry.my_status.last_read_seq);
        if read > told.last_read_seq {
            self.ack(id, ReceiptKind::Read);
        } else if have > told.last_delivered_seq {
            self.ack(id, ReceiptKind::Delivered);
        }
        self.behind.remove(&id);
        self.want_missing(id);
        self.changed(id);
        let early = self.early.remove(&id).unwrap_or_default();
        early.into_values().for_each(|status| self.take_status(status));
    }

    /// Forgets rows that are not in `confirmed` and that no frame of this connection mentioned.
    pub fn forget_unconfirmed(&mut self, confirmed: &HashSet<ConversationId>) {
        let unknown: Vec<ConversationId> = self
            .inbox
            .rows()
            .map(|row| row.entry.conversation_id)
            .filter(|id| !confirmed.contains(id) && !self.told.contains(id))
            .collect();
        for id in unknown {
            self.forget(id);
            self.find_if_written_to(id);
        }
    }

    /// Requests the row of a conversation that has unsent messages but no row. The answer shows the
    /// messages or reports that the conversation is gone.
    fn find_if_written_to(&mut self, id: ConversationId) {
        let is_written_to = self.outbox.items().any(|item| item.conversation_id == id);
        if is_written_to && self.inbox.get(id).is_none() {
            self.todo.refresh.insert(id);
        }
    }

    fn forget(&mut self, id: ConversationId) {
        self.inbox.remove(id);
        self.timelines.remove(&id);
        self.told.remove(&id);
        self.strangers.remove(&id);
        self.behind.remove(&id);
        self.early.remove(&id);
        self.todo.acks.remove(&id);
        self.changed(id);
    }

    /// Removes a conversation that the user is no longer a member of. In a group, gives up its
    /// unsent messages.
    pub fn gone(&mut self, id: ConversationId) {
        if self.inbox.get(id).is_some() {
            self.todo.events.push(Event::Gone(id));
        }
        self.forget(id);
        self.drafts.remove(&id);
        // A direct conversation has no membership to lose. If it does not exist yet, it can be
        // created.
        if id.kind() == ConversationKind::Group {
            let given_up = self.outbox.give_up(id);
            if !given_up.is_empty() {
                self.todo.settled.extend(given_up.iter().cloned());
                self.todo.events.push(Event::GivenUp(given_up));
            }
        }
    }

    /// Takes over a message, however it arrived: updates the row, the timeline, the outbox and the
    /// receipts.
    pub fn received(&mut self, message: Arc<Message>, origin: MessageArrival) {
        let (id, seq) = (message.conversation_id, message.seq);
        let own = message.is_by(&self.user);
        self.told.insert(id);
        let is_new = self.inbox.get(id).is_none_or(|row| seq > row.entry.last_seq);
        // The row may already count a message that has not arrived yet.
        let is_here = self.inbox.get(id).is_some_and(|row| seq <= row.have_seq);
        let is_live = self.connection.caught_up || message.received_at >= self.live_since;
        let mut first_seq = Seq::FIRST;
        match self.inbox.take_message(&message) {
            Some(row) => {
                if seq == row.have_seq.next() {
                    row.have_seq = seq;
                }
                first_seq = row.entry.first_seq;
                self.want_missing(id);
            }
            None => {
                let end = self.strangers.entry(id).or_insert(seq.previous());
                if seq == end.next() {
                    *end = seq;
                }
                // During catch-up the server may push conversations far down the inbox; do not
                // fetch their rows. Later messages belong to the top of the inbox.
                if self.connection.caught_up {
                    self.todo.refresh.insert(id);
                }
            }
        }
        if origin != MessageArrival::SentHere {
            self.ack(id, ReceiptKind::Delivered);
        }
        self.put_into_timeline(&message, first_seq);
        if !message.is_void() {
            self.people.want(&message.sender_id);
            self.signals.stopped_typing(id, &message.sender_id);
        }
        if own {
            self.todo.settled.extend(self.outbox.settle(&message.message_id, seq));
        } else if origin == MessageArrival::Pushed && !is_here && is_live && message.is_said() {
            self.todo.events.push(Event::Message(Arc::clone(&message)));
        }
        self.changed(id);
        let leaves = match message.notice() {
            Some(Notice::MemberLeft { user_id } | Notice::MemberRemoved { user_id, .. }) => {
                user_id == self.user.as_str()
            }
            _ => false,
        };
        if leaves && is_new {
            self.gone(id);
        }
    }

    /// Handles an ack. On the connection that sent the message, the server sends no `message`
    /// frame, so build the message from the outbox item.
    fn acknowledged(&mut self, ack: &Ack) {
        let Some(item) = self.outbox.settle(&ack.message_id, ack.seq) else { return };
        self.todo.settled.push(item.clone());
        self.signals.sent_here(ack.conversation_id);
        let message = Message {
            conversation_id: ack.conversation_id,
            seq: ack.seq,
            message_id: item.message_id,
            sender_id: self.user.clone(),
            content: item.content,
            content_type: item.content_type.unwrap_or_else(|| "text".into()),
            timestamp: item.timestamp,
            received_at: ack.received_at,
        };
        self.received(Arc::new(message), MessageArrival::SentHere);
    }

    /// Applies a status frame, or keeps it until the row arrives.
    fn take_status(&mut self, status: Status) {
        let id = status.conversation_id;
        if self.inbox.get(id).is_none() {
            self.early.entry(id).or_default().insert(status.user_id.clone(), status);
            return;
        }
        let (user, timelines) = (&self.user, &self.timelines);
        let waits = |row: &inbox::Row| {
            let read = row.entry.peer_status.last_read_seq;
            let last = row.entry.last_message.as_ref();
            let held = timelines.get(&id).into_iter().flat_map(Timeline::messages).rev();
            last.is_some_and(|last| last.sender_id == *user && last.seq > read)
                || held.take_while(|message| message.seq > read).any(|message| message.is_by(user))
        };
        if self.inbox.take_status(&status, waits) == RowUpdate::Ask {
            self.todo.refresh.insert(id);
        }
        self.changed(id);
    }

    /// Handles a backlog frame: raises the known head and requests the missing messages.
    fn is_behind(&mut self, backlog: &Backlog) {
        let id = backlog.conversation_id;
        match self.inbox.get_mut(id) {
            Some(row) => row.entry.last_seq = row.entry.last_seq.max(backlog.head_seq),
            None => {
                self.behind.insert(id);
                // The messages pushed from now on follow a gap, so they must not extend the
                // contiguous range.
                let end = self.strangers.entry(id).or_insert(backlog.next_after_seq);
                *end = backlog.next_after_seq.min(*end);
                if self.connection.caught_up {
                    self.todo.refresh.insert(id);
                }
            }
        }
        self.want_missing(id);
        self.changed(id);
    }

    /// Requests the missing messages of a conversation. Does nothing during catch-up, because the
    /// backlog may still contain them.
    pub fn want_missing(&mut self, id: ConversationId) {
        let is_missing = self.inbox.get(id).is_some_and(|row| row.is_behind());
        if self.connection.caught_up && is_missing && !self.todo.missing.contains(&id) {
            self.todo.missing.push_back(id);
        }
    }

    /// Replaces the draft. Removes it if the text is empty or the conversation has no row, because
    /// the user could not find it again.
    pub fn set_draft(&mut self, id: ConversationId, text: &str) {
        if text.is_empty() || self.inbox.get(id).is_none() {
            self.drafts.remove(&id);
        } else {
            self.drafts.insert(id, text.to_owned());
        }
        self.changed(id);
    }

    /// Marks a conversation as different from the storage.
    pub fn changed(&mut self, id: ConversationId) {
        self.dirty.insert(id);
    }
}

/// How a message arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageArrival {
    /// A `message` frame.
    Pushed,
    /// A page that was fetched because the message was missing.
    Fetched,
    /// The ack of a message that this connection sent.
    SentHere,
}
