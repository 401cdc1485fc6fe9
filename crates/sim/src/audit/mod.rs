//! The auditor: it sees what clients see and knows what they said, and nothing of the servers. Whatever contradicts one of
//! the ten guarantees of the design is a finding; the first one ends the run.

mod members;
mod messages;
mod ticks;
mod unread;

use std::collections::BTreeMap;
use std::fmt;

use bluetick_core::{ConversationId, UserId};
use serde::{Deserialize, Serialize};

use members::Membership;
pub use members::Notice;
pub use messages::Seen;
use ticks::Ticks;
pub use ticks::{Boundaries, Standings};

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
    members: BTreeMap<(ConversationId, UserId), Membership>,
    ticks: Ticks,
    now: Moment,
}

/// What is known of a conversation.
#[derive(Default)]
struct Known {
    /// Each place, as it was first seen.
    cells: BTreeMap<u64, Seen>,
    /// Where each text of a sender is, wherever that was said: an ack, a push or a page.
    places: BTreeMap<(UserId, String), u64>,
    /// What was attempted, with what content, and when that was first.
    attempts: BTreeMap<(UserId, String), (String, Moment)>,
    /// The newest place of which a client was told that it is stored.
    acknowledged: u64,
    /// Ticks at places that nobody had seen yet, and when they were first told. All up to there was stored by then.
    claims: BTreeMap<u64, Moment>,
    /// Whose message has to turn out to be in a place, since it alone accounts for a tick that was told, and when that was.
    owed: BTreeMap<u64, (UserId, Moment)>,
}

/// What the auditor was told one after the other, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Auditor {
    pub fn finding(&self) -> Option<&Finding> {
        self.finding.as_ref()
    }

    pub fn find(&mut self, guarantee: Guarantee, conversation: Option<ConversationId>, what: String) {
        let conversation = conversation.map(|id| id.to_string());
        self.finding.get_or_insert(Finding { guarantee, what, conversation });
    }

    /// A moment of its own, later than all before.
    pub fn moment(&mut self) -> Moment {
        self.now.0 += 1;
        self.now
    }

    fn known(&mut self, id: ConversationId) -> &mut Known {
        self.conversations.entry(id).or_default()
    }

    pub fn conversations(&self) -> Vec<ConversationId> {
        self.conversations.keys().copied().collect()
    }

    /// Somebody who may not see this conversation asked for something of it and was not refused.
    pub fn intruded(&mut self, id: ConversationId, user: &UserId, what: &str) {
        self.find(Guarantee::Private, Some(id), format!("{user} is not in {id} and was let {what}"));
    }
}
