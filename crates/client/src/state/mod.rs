//! Everything a client knows, and how what it hears changes that. No sockets, no files, no clocks: frames and moments
//! come in, and what is to be done about them is left in `Todo` for the driver.

mod holding;
pub mod inbox;
mod marks;
pub mod outbox;
pub mod people;
pub mod signals;
#[cfg(test)]
mod test_support;
#[cfg(test)]
mod tests;
pub mod timeline;
#[cfg(test)]
mod timeline_properties;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use bluetick_core::{ConversationId, ConversationKind, MarkKind, Seq, Timestamp, UserId};
use tokio::time::Instant;

use self::inbox::{Enough, Inbox};
use self::outbox::{Outbox, OutboxItem};
use self::people::People;
use self::signals::Signals;
use self::timeline::Timeline;
use crate::wire::bodies::{InboxEntry, Message, Notice};
use crate::wire::codes::CloseCode;
use crate::wire::frames::{Ack, Backlog, Position, ServerFrame, Status};

/// Lines that are kept, asked for again after a pause, and named in a hello.
pub const KEPT_ROWS: usize = 200;
/// Messages of a conversation that nobody looks at.
pub const KEPT_MESSAGES: usize = 100;
/// Conversations of which messages are held.
pub const KEPT_TIMELINES: usize = 50;
/// Messages of a conversation that somebody looks at.
const MOST_SHOWN: usize = 5_000;

/// Whether the server can be talked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Phase {
    #[default]
    Offline,
    Connecting,
    Online,
    /// The token is not good any more and no other could be had.
    LoggedOut,
    /// The token is good, and not this user's.
    OtherUser,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionState {
    pub phase: Phase,
    /// Since when it is in this phase, by the client's clock.
    pub since: Timestamp,
    /// How the last connection ended, where the server said so.
    pub close_code: Option<CloseCode>,
    /// What was missed is here; what comes now is live.
    pub caught_up: bool,
}

/// Something that happened once. What is shown is read from the state; these are for sounds and notifications.
#[derive(Clone, Debug)]
pub enum Event {
    /// Somebody else has just said something.
    Message(Arc<Message>),
    /// For the person to read.
    Trouble(String),
    /// One is not in this conversation any more.
    Gone(ConversationId),
    /// These were waiting for a group one is not in any more. They were not sent, and are not kept any longer.
    GivenUp(Vec<OutboxItem>),
    LoggedOut,
    /// The token belongs to this user; the client has ended.
    OtherUser(UserId),
}

/// What the driver is to do.
#[derive(Default)]
pub struct Todo {
    /// What to tell the server of each conversation.
    pub acks: BTreeMap<ConversationId, MarkKind>,
    /// Of these something is missing.
    pub missing: VecDeque<ConversationId>,
    /// About these the server is to be asked.
    pub refresh: BTreeSet<ConversationId>,
    pub reload: bool,
    /// These are with the server or given up, and need not be kept any more.
    pub settled: Vec<OutboxItem>,
    pub events: Vec<Event>,
}

/// The next page of each part of the list.
#[derive(Default)]
pub struct Cursors {
    pub inbox: Option<String>,
    pub archive: Option<String>,
}

pub struct State {
    pub user: UserId,
    pub epoch: Option<u64>,
    /// What was written since, by the server's clock, is live even before all that was missed is here.
    live_since: Timestamp,
    pub connection: ConnectionState,
    pub inbox: Inbox,
    pub cursors: Cursors,
    pub timelines: HashMap<ConversationId, Timeline>,
    /// How many look at a conversation.
    pub watched: HashMap<ConversationId, usize>,
    pub outbox: Outbox,
    /// What is being written and not sent.
    pub drafts: HashMap<ConversationId, String>,
    pub signals: Signals,
    pub people: People,
    pub todo: Todo,
    /// Conversations whose line or messages differ from what is kept.
    pub dirty: HashSet<ConversationId>,
    /// Conversations that frames told of since the connection stands: a page read earlier does not remove them.
    told: HashSet<ConversationId>,
    /// Conversations that were pushed and are not in the list: up to where, without a gap.
    strangers: HashMap<ConversationId, Seq>,
    /// Those of them of which more was missed than was pushed.
    behind: HashSet<ConversationId>,
    /// Statuses of conversations whose line is still on its way, the latest of each person: the line may be older.
    early: HashMap<ConversationId, HashMap<UserId, Status>>,
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
            todo: Todo::default(),
            dirty: HashSet::new(),
            told: HashSet::new(),
            strangers: HashMap::new(),
            early: HashMap::new(),
            behind: HashSet::new(),
            looks: 0,
            user,
        }
    }

    /// What this device has, for the hello.
    pub fn positions(&self) -> BTreeMap<String, Position> {
        let Some(epoch) = self.epoch else { return BTreeMap::new() };
        let rows = self.inbox.latest(KEPT_ROWS);
        rows.iter()
            .map(|row| (row.entry.conversation_id.to_string(), Position { epoch, seq: row.have_seq }))
            .collect()
    }

    /// Whether this is another life of the store: what this device remembers may never have been.
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

    pub fn connection_lost(&mut self) {
        self.connection.caught_up = false;
        self.outbox.connection_lost();
        self.signals.clear();
        self.todo.missing.clear();
        self.todo.refresh.clear();
        self.todo.reload = false;
    }

    /// Everything but `welcome`, `error` and `come_back`, which are about the connection.
    pub fn hear(&mut self, frame: ServerFrame, now: Instant) {
        match frame {
            ServerFrame::CaughtUp => self.caught_up(),
            ServerFrame::Message(message) => self.received(Arc::new(message), Origin::Pushed),
            ServerFrame::Ack(ack) => self.acknowledged(&ack),
            ServerFrame::Status(status) => self.take_status(status),
            ServerFrame::Receipts(all) => {
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

    fn caught_up(&mut self) {
        self.connection.caught_up = true;
        // Ticks, settings and members that moved meanwhile are told by the list alone.
        self.todo.reload = true;
        let behind: Vec<ConversationId> = self.inbox.rows().map(|row| row.entry.conversation_id).collect();
        behind.into_iter().for_each(|id| self.want_missing(id));
        self.todo.refresh.extend(self.behind.iter().copied());
        let written_to: BTreeSet<ConversationId> =
            self.outbox.items().map(|item| item.conversation_id).collect();
        written_to.into_iter().for_each(|id| self.find_if_written_to(id));
    }

    /// The server's word about a conversation: a line of its inbox.
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
            self.ack(id, MarkKind::Read);
        } else if have > told.last_delivered_seq {
            self.ack(id, MarkKind::Delivered);
        }
        self.behind.remove(&id);
        self.want_missing(id);
        self.changed(id);
        let early = self.early.remove(&id).unwrap_or_default();
        early.into_values().for_each(|status| self.take_status(status));
    }

    /// Lines of which neither the list nor a frame speaks any more.
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

    /// Where something waits to be sent, the person has to see it, or to hear that one is not in it any more.
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

    /// One is not in it any more.
    pub fn gone(&mut self, id: ConversationId) {
        if self.inbox.get(id).is_some() {
            self.todo.events.push(Event::Gone(id));
        }
        self.forget(id);
        self.drafts.remove(&id);
        // A direct conversation has no members to be removed; where there is none yet, there can be one.
        if id.kind() == ConversationKind::Group {
            let given_up = self.outbox.give_up(id);
            if !given_up.is_empty() {
                self.todo.settled.extend(given_up.iter().cloned());
                self.todo.events.push(Event::GivenUp(given_up));
            }
        }
    }

    /// A message is here, whichever way it came.
    pub fn received(&mut self, message: Arc<Message>, origin: Origin) {
        let (id, seq) = (message.conversation_id, message.seq);
        let own = message.is_by(&self.user);
        self.told.insert(id);
        let is_new = self.inbox.get(id).is_none_or(|row| seq > row.entry.last_seq);
        // The line may know of a message before the message comes.
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
                // The backlog may be of many conversations far down the list; what comes later belongs to its top.
                if self.connection.caught_up {
                    self.todo.refresh.insert(id);
                }
            }
        }
        if origin != Origin::SentHere {
            self.ack(id, MarkKind::Delivered);
        }
        self.put_into_timeline(&message, first_seq);
        if !message.is_void() {
            self.people.want(&message.sender_id);
            self.signals.stopped_typing(id, &message.sender_id);
        }
        if own {
            self.todo.settled.extend(self.outbox.settle(&message.message_id, seq));
        } else if origin == Origin::Pushed && !is_here && is_live && message.is_said() {
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

    /// On the connection a message was sent on, the ack stands in the message's place.
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
        self.received(Arc::new(message), Origin::SentHere);
    }

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
        if self.inbox.take_status(&status, waits) == Enough::Ask {
            self.todo.refresh.insert(id);
        }
        self.changed(id);
    }

    fn is_behind(&mut self, backlog: &Backlog) {
        let id = backlog.conversation_id;
        match self.inbox.get_mut(id) {
            Some(row) => row.entry.last_seq = row.entry.last_seq.max(backlog.head_seq),
            None => {
                self.behind.insert(id);
                // What is pushed from now on lies behind a gap.
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

    /// While the backlog comes in, what is missing may still be in it.
    pub fn want_missing(&mut self, id: ConversationId) {
        let is_missing = self.inbox.get(id).is_some_and(|row| row.is_behind());
        if self.connection.caught_up && is_missing && !self.todo.missing.contains(&id) {
            self.todo.missing.push_back(id);
        }
    }

    /// Of conversations that are in the list; nobody would find the others again.
    pub fn set_draft(&mut self, id: ConversationId, text: &str) {
        if text.is_empty() || self.inbox.get(id).is_none() {
            self.drafts.remove(&id);
        } else {
            self.drafts.insert(id, text.to_owned());
        }
        self.changed(id);
    }

    pub fn changed(&mut self, id: ConversationId) {
        self.dirty.insert(id);
    }
}

/// Which way a message came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Pushed,
    /// Paged, because it was missing.
    Fetched,
    /// This connection sent it.
    SentHere,
}
