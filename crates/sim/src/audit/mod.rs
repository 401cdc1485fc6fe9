//! The auditor: compares the clients' requests with the answers and frames they receive. It knows
//! nothing of the servers' internals. A contradiction of one of the first ten guarantees in
//! docs/explanation/guarantees.md is a finding; the first finding ends the run.

mod members;
mod messages;
mod ticks;
mod unread;

use std::collections::BTreeMap;
use std::fmt;

use bluetick_core::{ConversationId, UserId};
use serde::{Deserialize, Serialize};

use members::MembershipAudit;
pub use members::MembershipNotice;
pub use messages::ReceivedMessage;
use ticks::TickAudit;
pub use ticks::{ReadState, ReadStates};

/// The guarantees, by their number in docs/explanation/guarantees.md.
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
            Guarantee::Dense => "no gap",
            Guarantee::TicksForward => "ticks only move forward",
            Guarantee::UnreadExact => "unread is exact",
            Guarantee::DeliveredByDevice => "delivered means that the device reported it",
            Guarantee::OnceInTheView => "the view has every message once, in order",
            Guarantee::Private => "private",
        };
        write!(f, "guarantee {} ({name})", *self as u8)
    }
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct AuditFinding {
    pub guarantee: Guarantee,
    pub what: String,
    /// The conversation of the finding, used to select trace lines.
    pub conversation: Option<String>,
}

#[derive(Default)]
pub struct Auditor {
    finding: Option<AuditFinding>,
    conversations: BTreeMap<ConversationId, ObservedConversation>,
    members: BTreeMap<(ConversationId, UserId), MembershipAudit>,
    ticks: TickAudit,
    now: Moment,
}

/// State of a conversation as clients observed it.
#[derive(Default)]
struct ObservedConversation {
    /// The message at each seq, as first seen.
    cells: BTreeMap<u64, ReceivedMessage>,
    /// The seq of each message by sender and message id, as seen in an ack, a push or a page.
    places: BTreeMap<(UserId, String), u64>,
    /// Content and time of the first send attempt of each message.
    attempts: BTreeMap<(UserId, String), (String, Moment)>,
    /// The highest seq that a client received in an ack.
    acknowledged: u64,
    /// Delivered ticks at seqs that no client had seen yet, with the time each was first published.
    /// Some message at or above the tick must have been sent before that time.
    claims: BTreeMap<u64, Moment>,
    /// Seqs that must turn out to hold a message of the given user: nothing else explains a
    /// published tick just below. The moment is when that tick was first published.
    owed: BTreeMap<u64, (UserId, Moment)>,
}

/// Logical time: a counter of the events reported to the auditor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Auditor {
    pub fn finding(&self) -> Option<&AuditFinding> {
        self.finding.as_ref()
    }

    pub fn find(&mut self, guarantee: Guarantee, conversation: Option<ConversationId>, what: String) {
        let conversation = conversation.map(|id| id.to_string());
        self.finding.get_or_insert(AuditFinding { guarantee, what, conversation });
    }

    /// Advances the logical clock and returns the new time.
    pub fn moment(&mut self) -> Moment {
        self.now.0 += 1;
        self.now
    }

    fn known(&mut self, id: ConversationId) -> &mut ObservedConversation {
        self.conversations.entry(id).or_default()
    }

    pub fn conversations(&self) -> Vec<ConversationId> {
        self.conversations.keys().copied().collect()
    }

    /// Reports that a user without access to the conversation was not refused.
    pub fn intruded(&mut self, id: ConversationId, user: &UserId, what: &str) {
        self.find(
            Guarantee::Private,
            Some(id),
            format!("{user} is not a member of {id} and was allowed to {what}"),
        );
    }
}
