//! A well-behaved client. It keeps its messages and its outbox across disconnects, fetches missing
//! messages, and checks everything it receives against the contract.
//!
//! `actions` holds its random actions and `frames` handles received frames. Faults of the server
//! and comparisons between devices do not belong here.

mod actions;
mod connection;
mod frames;
mod gaps;
mod lifecycle;
mod record;
#[cfg(test)]
mod tests;
mod view;
mod violation;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

pub use actions::{Habits, ReadingHabit};
pub use record::{DeviceCounts, DeviceRecord};
pub use view::{MembershipStep, ReceivedMessage, View};
pub use violation::{ReadState, Trouble, ViolationReport};

use crate::checker::{ClientEvent, ClientLog};
use crate::client::Socket;
use crate::dice::Dice;
use crate::meter::Meter;
use crate::names::{ConversationName, DeviceName, Membership, UserName};

/// The fixed properties of a device.
#[derive(Clone, Debug)]
pub struct DeviceIdentity {
    pub name: DeviceName,
    pub user: UserName,
    pub token: String,
    /// The seed of the whole run.
    pub seed: u64,
    /// Members who are removed and added during the run.
    pub unsteady: Arc<BTreeSet<Membership>>,
}

/// An unacknowledged message. It keeps its message id until the server answers.
#[derive(Clone, Debug)]
struct Attempt {
    conversation: ConversationName,
    message_id: String,
    content: String,
    content_type: Option<&'static str>,
    /// The end of the view when the message was written.
    after_seq: u64,
    tried: bool,
}

#[derive(Debug)]
pub struct Device {
    pub identity: DeviceIdentity,
    pub habits: Habits,
    pub record: DeviceRecord,
    dice: Dice,
    epoch: Option<u64>,
    views: BTreeMap<ConversationName, View>,
    outbox: VecDeque<Attempt>,
    sent: u64,
    /// See [`Device::patient`].
    is_patient: bool,
    meter: Arc<Meter>,
    /// The reconnect delay that the draining server asked for, in milliseconds.
    come_back_ms: Option<u64>,
    /// Sockets that the device stopped reading without closing them.
    abandoned: VecDeque<Socket>,
}

impl Device {
    pub fn new(identity: DeviceIdentity, habits: Habits, dice: Dice) -> Device {
        let log = ClientLog { sender: identity.user.as_str().to_owned(), events: Vec::new() };
        Device {
            identity,
            habits,
            record: DeviceRecord::new(log),
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

    /// Makes the device tolerate an engine that is unavailable at times. It resends temporarily
    /// refused messages under the same message_id. It keeps one message in flight, so that none
    /// overtakes a refused one. It reconnects after a server shuts down or fails. Otherwise each of
    /// these is a violation.
    pub fn patient(mut self) -> Device {
        self.is_patient = true;
        self
    }

    /// Counts the received acks and messages in a shared meter.
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

    /// Returns the number of messages pushed to the device so far.
    pub fn received(&self) -> usize {
        let pushes = |event: &&ClientEvent| matches!(event, ClientEvent::Received { .. });
        self.record.log.events.iter().filter(pushes).count()
    }

    /// Adds a new message to the outbox. The current or the next connection sends it.
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

    /// Builds a violation with the last frames.
    pub fn violation(&self, conversation: Option<&ConversationName>, trouble: Trouble) -> ViolationReport {
        ViolationReport {
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

    /// Returns whether the user may be removed from this conversation during the run.
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

    /// Marks the conversation as left: the device expects nothing more from it and writes nothing
    /// new to it.
    fn drop_conversation(&mut self, conversation: &ConversationName) {
        if let Some(view) = self.views.get_mut(conversation) {
            view.leave();
        }
    }
}
