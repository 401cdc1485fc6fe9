//! The auditor: it sees what clients see and knows what they said, and nothing of the servers. Whatever contradicts one of
//! the ten guarantees of the design is a finding; the first one ends the run.

mod messages;
mod ticks;
mod unread;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bluetick_core::{ConversationId, UserId};
use serde::{Deserialize, Serialize};

pub use messages::Seen;
pub use ticks::Boundaries;
use ticks::Ticks;

/// The guarantees, by their numbers in the design.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub enum Guarantee {
    Order = 1,
    NoLoss,
    NoDuplicate,
    NoOverwrite,
    Dense,
    TicksForward,
    UnreadExact,
    DeliveredByDevice,
    OnceInTheView,
    Private,
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Guarantee::Order => "order",
            Guarantee::NoLoss => "no loss",
            Guarantee::NoDuplicate => "no duplicate",
            Guarantee::NoOverwrite => "no overwrite",
            Guarantee::Dense => "dense",
            Guarantee::TicksForward => "ticks only move forward",
            Guarantee::UnreadExact => "unread is exact",
            Guarantee::DeliveredByDevice => "delivered means that the device said so",
            Guarantee::OnceInTheView => "every message, in order, once in the view",
            Guarantee::Private => "private",
        };
        write!(f, "guarantee {} ({name})", *self as u8)
    }
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Finding {
    pub guarantee: Guarantee,
    pub what: String,
    /// Whose conversation it is about, for choosing lines of the trace.
    pub conversation: Option<String>,
}

#[derive(Default)]
pub struct Auditor {
    finding: Option<Finding>,
    conversations: BTreeMap<ConversationId, Known>,
    /// Who may be let in, from the moment somebody asks for it.
    may_see: BTreeSet<(ConversationId, UserId)>,
    /// Who is in a conversation from its beginning on.
    founders: BTreeSet<(ConversationId, UserId)>,
    ticks: Ticks,
}

/// What is known of a conversation.
#[derive(Default)]
struct Known {
    /// Each place, as it was first seen.
    cells: BTreeMap<u64, Seen>,
    /// Where each text of a sender is, wherever that was said: an ack, a push or a page.
    places: BTreeMap<(UserId, String), u64>,
    /// What was attempted, and with what content.
    attempts: BTreeMap<(UserId, String), String>,
    /// The newest place of which a client was told that it is stored.
    acknowledged: u64,
}

impl Auditor {
    pub fn finding(&self) -> Option<&Finding> {
        self.finding.as_ref()
    }

    pub fn find(&mut self, guarantee: Guarantee, conversation: Option<ConversationId>, what: String) {
        let conversation = conversation.map(|id| id.to_string());
        self.finding.get_or_insert(Finding { guarantee, what, conversation });
    }

    fn known(&mut self, id: ConversationId) -> &mut Known {
        self.conversations.entry(id).or_default()
    }

    /// Somebody asks for this person to be let in.
    pub fn invited(&mut self, id: ConversationId, user: &UserId) {
        self.may_see.insert((id, user.clone()));
    }

    pub fn founded(&mut self, id: ConversationId, user: &UserId) {
        self.known(id);
        self.invited(id, user);
        self.founders.insert((id, user.clone()));
    }

    pub fn may_see(&self, id: ConversationId, user: &UserId) -> bool {
        self.may_see.contains(&(id, user.clone()))
    }

    pub fn is_founder(&self, id: ConversationId, user: &UserId) -> bool {
        self.founders.contains(&(id, user.clone()))
    }

    pub fn conversations(&self) -> Vec<ConversationId> {
        self.conversations.keys().copied().collect()
    }

    /// Somebody who may not see this conversation asked for something of it and was not refused.
    pub fn intruded(&mut self, id: ConversationId, user: &UserId, what: &str) {
        self.find(Guarantee::Private, Some(id), format!("{user} is not in {id} and was let {what}"));
    }
}
