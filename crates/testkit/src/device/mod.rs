//! A client as a good library is: it keeps what it has and what it still has to send over every disconnect, asks for
//! what it misses, and holds everything it hears against the contract.
//!
//! What it does by chance is in `habits`, what it hears in `hearing`. What happens to the server, and the comparison of
//! many devices with each other, do not belong here.

mod connection;
mod gaps;
mod habits;
mod hearing;
mod record;
mod storm;
#[cfg(test)]
mod tests;
mod trouble;
mod view;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

pub use habits::{Habits, Reader};
pub use record::{Happened, Record};
pub use trouble::{Boundaries, Trouble, Violation};
pub use view::{Seen, Step, View};

use crate::checker::{ClientLog, Event};
use crate::client::Socket;
use crate::dice::Dice;
use crate::meter::Meter;
use crate::names::{ConversationName, DeviceName, Seat, UserName};

/// What a device is from the first day on.
#[derive(Clone, Debug)]
pub struct Identity {
    pub name: DeviceName,
    pub user: UserName,
    pub token: String,
    /// Of the whole run.
    pub seed: u64,
    /// Who comes and goes during the run, and where.
    pub unsteady: Arc<BTreeSet<Seat>>,
}

/// A message on its way: under one id until somebody says where it is.
#[derive(Clone, Debug)]
struct Attempt {
    conversation: ConversationName,
    message_id: String,
    content: String,
    content_type: Option<&'static str>,
    /// What the device had at the first attempt.
    after_seq: u64,
    tried: bool,
}

#[derive(Debug)]
pub struct Device {
    pub identity: Identity,
    pub habits: Habits,
    pub record: Record,
    dice: Dice,
    epoch: Option<u64>,
    views: BTreeMap<ConversationName, View>,
    outbox: VecDeque<Attempt>,
    sent: u64,
    /// See [`Device::patient`].
    is_patient: bool,
    meter: Arc<Meter>,
    /// When the server that went away wanted to see it again.
    come_back_ms: Option<u64>,
    /// Sockets it has walked away from without a word; the server does not know yet.
    abandoned: VecDeque<Socket>,
}

impl Device {
    pub fn new(identity: Identity, habits: Habits, dice: Dice) -> Device {
        let log = ClientLog { sender: identity.user.as_str().to_owned(), events: Vec::new() };
        Device {
            identity,
            habits,
            record: Record::new(log),
            dice,
            epoch: None,
            views: BTreeMap::new(),
            outbox: VecDeque::new(),
            sent: 0,
            is_patient: false,
            meter: Arc::default(),
            come_back_ms: None,
            abandoned: VecDeque::new(),
        }
    }

    /// One that is ready for an engine behind the server that is away at times: what is refused for the moment it sends
    /// again under the same message_id, it has one message on its way at a time so that none overtakes a refused one, and
    /// a server that closes or goes away to come back is no breach. Without this, each of those is a violation.
    pub fn patient(mut self) -> Device {
        self.is_patient = true;
        self
    }

    /// What it hears is counted there, beside what others hear.
    pub fn counted_by(mut self, meter: &Arc<Meter>) -> Device {
        self.meter = Arc::clone(meter);
        self
    }

    pub fn view(&self, conversation: &ConversationName) -> Option<&View> {
        self.views.get(conversation)
    }

    pub fn has_unsent(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// How many messages were pushed to it so far.
    pub fn received(&self) -> usize {
        let pushes = |event: &&Event| matches!(event, Event::Received { .. });
        self.record.log.events.iter().filter(pushes).count()
    }

    /// Puts a new message into the outbox. It goes with the next connection at the latest.
    pub fn write(&mut self, conversation: &ConversationName) {
        self.sent += 1;
        let message_id = format!("{}-{}", self.identity.name, self.sent);
        let filler = "and so on ".repeat(self.dice.below(20) as usize);
        let after_seq = self.views.get(conversation).map_or(0, View::end);
        let content_type = self.dice.one_in(8).then_some("note");
        self.outbox.push_back(Attempt {
            conversation: conversation.clone(),
            content: format!("{message_id} {filler}"),
            message_id,
            content_type,
            after_seq,
            tried: false,
        });
    }

    /// A trouble, with the last frames beside it.
    pub fn violation(&self, conversation: Option<&ConversationName>, trouble: Trouble) -> Violation {
        Violation {
            seed: self.identity.seed,
            device: self.identity.name.clone(),
            conversation: conversation.cloned(),
            trouble,
            last_frames: self.record.last_frames(),
        }
    }

    fn is_steady(&self, conversation: &ConversationName, user: &UserName) -> bool {
        !self.identity.unsteady.contains(&(conversation.clone(), user.clone()))
    }

    /// Whether the user itself may be thrown out of this conversation.
    fn may_be_out(&self, conversation: &ConversationName) -> bool {
        !self.is_steady(conversation, &self.identity.user)
    }

    fn may_be_out_somewhere(&self) -> bool {
        self.identity.unsteady.iter().any(|(_, user)| *user == self.identity.user)
    }

    fn view_mut(&mut self, conversation: &ConversationName) -> &mut View {
        let owner = &self.identity.user;
        self.views.entry(conversation.clone()).or_insert_with(|| View::new(owner.clone()))
    }

    /// The user is no member any more: nothing more is expected of the conversation, and nothing new is written to it.
    fn drop_conversation(&mut self, conversation: &ConversationName) {
        if let Some(view) = self.views.get_mut(conversation) {
            view.leave();
        }
    }
}
