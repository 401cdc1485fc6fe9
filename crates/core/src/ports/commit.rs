//! What the store tells the rest of the server once something is durable.

use std::sync::Arc;

use crate::ports::Whisper;
use crate::{Boundaries, ConversationId, Member, Members, Message, Revocations, UserId};

/// The connection a message came in on, as the server numbers them. Never stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Origin(pub u64);

/// A message that is durable and has just become visible.
#[derive(Clone, Debug)]
pub struct Committed {
    pub message: Arc<Message>,
    /// The members once the call that stored it was done. Those who joined above this place do not hear of it: see
    /// [`Committed::concerns`].
    pub members: Arc<Members>,
    /// Someone who left by this very message and still hears of it.
    pub departed: Option<UserId>,
    pub origin: Option<Origin>,
    /// By this server, and not by another one of the fleet.
    pub is_stored_here: bool,
}

impl Committed {
    /// Whether this member may see it.
    pub fn concerns(&self, member: &Member) -> bool {
        member.joined_seq <= self.message.seq
    }
}

/// A member's boundaries that are durable and have just moved.
#[derive(Clone, Debug)]
pub struct Moved {
    pub conversation: ConversationId,
    pub user: UserId,
    pub members: Arc<Members>,
    /// As the member's own devices are told.
    pub own: Boundaries,
    /// As the others are told; `None` when nothing they can see has moved.
    pub shown: Option<Boundaries>,
    /// How many messages are unread now, where that was at hand.
    pub unread: Option<u64>,
    /// The connection that said so; `None` for a reply, which speaks for itself, and over HTTP.
    pub origin: Option<Origin>,
}

/// Something besides a message that the devices of some people should hear of at once.
#[derive(Clone, Debug)]
pub enum Change {
    /// The boundaries of a member have moved, by a device's word or by a reply.
    Moved(Moved),
    /// A conversation is new to this user. Not reported for a direct conversation that the user's inbox does not list yet
    /// ([`Conversation::is_listed_for`](crate::Conversation::is_listed_for)): its first message says the same.
    Joined { conversation: ConversationId, user: UserId },
    /// The user set something about a conversation.
    Preferred { conversation: ConversationId, user: UserId },
    /// Tokens of the user are void now: what is void may be more than is said here, and never less.
    Revoked { user: UserId, revocations: Revocations },
    /// Something is owed to somebody who is connected, and its place on the connection may be past. Whoever comes again
    /// gets it.
    Overlooked { user: UserId },
}

/// Hears of every committed message and of what follows from it.
///
/// The store promises:
/// 1. each newly stored message is reported exactly once, duplicates never;
/// 2. within a conversation, in seq order and without a gap since the store was opened;
/// 3. only after it is durable and before the call that stored it returns;
/// 4. changes as well: each when it is durable and before its call returns, behind the messages they follow from. A mark
///    that moves nothing is no change.
///
/// It is called on the commit path: an implementation hands the batch on and returns.
pub trait CommitListener: Send + Sync + 'static {
    fn committed(&self, batch: Vec<Committed>);

    /// What changed besides, after [`CommitListener::committed`] of the same batch.
    fn changed(&self, _batch: Vec<Change>) {}

    /// Something that passes, heard on another node for people who are connected to this one.
    fn whispered(&self, _whisper: Whisper) {}
}

/// For stores nobody listens to, such as the one a command-line tool opens.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoListener;

impl CommitListener for NoListener {
    fn committed(&self, _: Vec<Committed>) {}
}
