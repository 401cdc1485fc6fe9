//! What the store tells the rest of the server once something is durable.

use std::sync::Arc;

use crate::{Member, Members, Message, UserId};

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
}

impl Committed {
    /// Whether this member may see it.
    pub fn concerns(&self, member: &Member) -> bool {
        member.joined_seq <= self.message.seq
    }
}

/// Hears of every committed message.
///
/// The store promises:
/// 1. each newly stored message is reported exactly once, duplicates never;
/// 2. within a conversation, in seq order and without a gap since the store was opened;
/// 3. only after it is durable and before the call that stored it returns.
///
/// It is called on the commit path: an implementation hands the batch on and returns.
pub trait CommitListener: Send + Sync + 'static {
    fn committed(&self, batch: Vec<Committed>);
}

/// For stores nobody listens to, such as the one a command-line tool opens.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoListener;

impl CommitListener for NoListener {
    fn committed(&self, _: Vec<Committed>) {}
}
