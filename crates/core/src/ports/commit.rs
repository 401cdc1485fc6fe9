//! Notifications from the store to the server about durable writes.

use std::sync::Arc;

use crate::ports::Ephemeral;
use crate::{ConversationId, Member, Members, Message, ReadState, Revocations, UserId};

/// The number of the connection that sent a request. Never stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Origin(pub u64);

/// A message that is durable and just became visible.
#[derive(Clone, Debug)]
pub struct Committed {
    pub message: Arc<Message>,
    /// The members after the call that stored the message. The server does not push it to members
    /// who joined later ([`Committed::concerns`]).
    pub members: Arc<Members>,
    /// The user whose departure this message announces. The user still receives it.
    pub departed: Option<UserId>,
    pub origin: Option<Origin>,
    /// Whether this node stored the message, not another node of the fleet.
    pub is_stored_here: bool,
}

impl Committed {
    /// Returns whether this member may see the message.
    pub fn concerns(&self, member: &Member) -> bool {
        member.joined_seq <= self.message.seq
    }
}

/// A durable advance of a member's read state.
#[derive(Clone, Debug)]
pub struct ReadStateMoved {
    pub conversation: ConversationId,
    pub user: UserId,
    pub members: Arc<Members>,
    /// The read state that the member's own devices see.
    pub own: ReadState,
    /// The read state that other members see; `None` when it did not change.
    pub shown: Option<ReadState>,
    /// The new unread count, if the store has it at hand.
    pub unread: Option<u64>,
    /// The connection that sent the receipt; `None` for a reply and for a request over HTTP.
    pub origin: Option<Origin>,
}

/// A change other than a message that the server pushes to devices immediately.
#[derive(Clone, Debug)]
pub enum CommittedChange {
    /// A receipt or a reply advanced a member's read state.
    ReadState(ReadStateMoved),
    /// The user joined a conversation. Not reported for a direct conversation that the user's inbox
    /// does not list yet ([`Conversation::is_listed_for`](crate::Conversation::is_listed_for)): its
    /// first message announces it.
    Joined { conversation: ConversationId, user: UserId },
    /// The user changed preferences for a conversation.
    PreferencesChanged { conversation: ConversationId, user: UserId },
    /// Tokens of the user were revoked. `revocations` may be incomplete, but every token it covers
    /// is revoked.
    Revoked { user: UserId, revocations: Revocations },
    /// A connected user missed a message, and later ones may have been pushed already. The listener
    /// closes the user's connections; after the reconnect, catch-up sends the message.
    ResyncRequired { user: UserId },
}

/// Receives every committed message and the changes that follow from it.
///
/// The store guarantees:
/// 1. It reports each newly stored message exactly once, and never a duplicate.
/// 2. Within a conversation, it reports messages in seq order without a gap since the store was
///    opened.
/// 3. It reports a message after it is durable and before the call that stored it returns.
/// 4. It reports a change after it is durable, before its call returns, and after the messages it
///    follows from. A receipt that moves nothing is not a change.
///
/// The store calls it on the commit path, so an implementation queues the batch and returns.
pub trait CommitListener: Send + Sync + 'static {
    fn committed(&self, batch: Vec<Committed>);

    /// Receives the changes of a batch, after [`CommitListener::committed`] for the same batch.
    fn changed(&self, _batch: Vec<CommittedChange>) {}

    /// Receives an ephemeral event from another node, for users who are connected to this one.
    fn received_ephemeral(&self, _whisper: Ephemeral) {}
}

/// A listener that ignores everything, for example in a command-line tool.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoListener;

impl CommitListener for NoListener {
    fn committed(&self, _: Vec<Committed>) {}
}
