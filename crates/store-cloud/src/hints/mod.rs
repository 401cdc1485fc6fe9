//! What makes it fast and may be lost at any moment: counters, recent ids, the order of inboxes, who is connected where.
//!
//! Redis is a hint, never the truth. Each answer is checked against the tables where it matters: a place that was handed
//! out twice meets a cell that is written once, an id that was forgotten is found in the rows when the counter is seeded
//! again, an index that is gone is built from the rows. [`Away`] is an ordinary answer to everything; the caller does
//! without.

pub mod memory;
pub mod redis;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bluetick_core::{
    ConversationId, Epoch, InboxFilter, InboxKey, InboxSection, MessageId, Seq, Timestamp, UserId,
};
use thiserror::Error;
use tokio::time::Instant;

use crate::NodeId;

#[async_trait]
pub trait Hints: Send + Sync + 'static {
    /// The next place of a conversation for this message, or the one that the same id was given before. One step, in one
    /// round trip.
    async fn reserve(&self, reserve: &Reserve) -> Result<Reserved, Away>;

    /// Tells what the tables say, of a conversation that is unknown here or known wrongly. The counter never goes back
    /// by this unless the conversation was unknown; ids are added.
    async fn seed(&self, seed: &Seed) -> Result<(), Away>;

    /// What is known of a conversation without reserving anything; `None`: unknown, which says nothing.
    async fn glance(&self, conversation: ConversationId) -> Result<Option<Glance>, Away>;

    /// The newest place that each of these has written to lately; [`Seq::ZERO`] where there is none. `None`: nothing is
    /// known of the conversation.
    async fn sent(&self, conversation: ConversationId, users: &[UserId]) -> Result<Option<Vec<Seq>>, Away>;

    /// Who is in the conversation has changed: the next [`Hints::reserve`] by any node says so. A version only goes up.
    async fn members_changed(&self, conversation: ConversationId, version: u64) -> Result<(), Away>;

    /// Where its messages lie has been decided further: the next [`Hints::reserve`] by a node that knows less says so. A copy
    /// only gives way to a later one. It is the tables' word: whoever calls this has read it there or was told that it is
    /// written.
    async fn registry_changed(&self, conversation: ConversationId, copy: &RegistryCopy) -> Result<(), Away>;

    /// Moves the conversation up in the inboxes of these users, and says of each where it is connected and whether it has
    /// a pending row for this conversation. Answers come in the order of the users.
    async fn touch(
        &self,
        conversation: ConversationId,
        at: Timestamp,
        users: &[UserId],
    ) -> Result<Vec<Touched>, Away>;

    /// The same without moving anything.
    async fn whereabouts(&self, conversation: ConversationId, users: &[UserId])
    -> Result<Vec<Touched>, Away>;

    /// There is a row for the user's offline spell in this conversation (or there is none any more), so that it is not
    /// written again with every message.
    async fn set_pending(
        &self,
        user: &UserId,
        conversation: ConversationId,
        pending: bool,
    ) -> Result<(), Away>;

    /// Puts a conversation into a place of an inbox, from wherever it was; `None` takes it out.
    async fn shelve(
        &self,
        user: &UserId,
        conversation: ConversationId,
        place: Option<(InboxSection, Timestamp)>,
    ) -> Result<(), Away>;

    /// The first places behind `after`, in order, at most `limit`. `None` when the index of this user is not complete;
    /// [`Hints::fill_inbox`] makes it so.
    async fn inbox(
        &self,
        user: &UserId,
        filter: InboxFilter,
        after: Option<InboxKey>,
        limit: usize,
    ) -> Result<Option<Vec<InboxKey>>, Away>;

    /// Everything in the inbox, as the rows have it. What was moved further up meanwhile stays there.
    async fn fill_inbox(&self, user: &UserId, places: &[InboxKey]) -> Result<(), Away>;

    /// The user is connected to this node; forgotten by itself when the node does not say so again within an hour.
    async fn connect(&self, user: &UserId, node: &NodeId) -> Result<(), Away>;

    async fn disconnect(&self, user: &UserId, node: &NodeId) -> Result<(), Away>;

    /// Conversations in which a place was reserved at or after this moment (the clock of whoever reserved it), at least
    /// for the last minutes.
    async fn recently_reserved(&self, since: Timestamp) -> Result<Vec<ConversationId>, Away>;
}

/// Redis cannot be used now: not reachable, too slow, or refusing.
#[derive(Clone, Debug, Error)]
#[error("redis is away: {0}")]
pub struct Away(pub String);

#[derive(Clone, Debug)]
pub struct Reserve {
    pub conversation: ConversationId,
    pub id: MessageKey,
    pub sender: UserId,
    pub now: Timestamp,
    /// The id was given this place before and the cell turned out to be somebody else's: give it another one. When
    /// another attempt has done so already, that one is the answer.
    pub instead_of: Option<Seq>,
    /// Every cell up to here is written, as this node knows.
    pub settled: Seq,
    /// The version of the registry that this node has at hand; 0: none.
    pub registry_version: u64,
}

/// A copy of the conversation's row in the registry of hot conversations ([`Registry`](crate::hot::Registry)), as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryCopy {
    /// The life of the tables that it was read in; copies of an earlier one do not count.
    pub epoch: Epoch,
    pub version: u64,
    pub text: Arc<str>,
}

impl RegistryCopy {
    pub fn is_later_than(&self, other: &RegistryCopy) -> bool {
        (self.epoch.get(), self.version) > (other.epoch.get(), other.version)
    }
}

/// A message id within its conversation, shortened: 64 bits of a hash of sender and id. Two ids that collide are told
/// apart by the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageKey(pub u64);

impl MessageKey {
    /// FNV-1a, then mixed: the same on every node and in every version.
    pub fn new(sender: &UserId, id: &MessageId) -> MessageKey {
        let id = id.to_string();
        let bytes = sender.as_str().bytes().chain([0]).chain(id.bytes());
        let mut hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        hash ^= hash >> 32;
        hash = hash.wrapping_mul(0xd6e8_feb8_6659_fd93);
        MessageKey(hash ^ (hash >> 32))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// Nothing is known of the conversation, or nothing that can be relied upon: Redis was emptied, restarted or failed
    /// over since. It has to be seeded.
    Unseeded,
    Place(Place),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub seq: Seq,
    /// The id had this place before.
    pub known: bool,
    /// The latest `now` of all who reserved, this one included: never goes back.
    pub last_at: Timestamp,
    pub members_version: u64,
    /// Every cell up to here is written.
    pub settled: Seq,
    /// How long ago the conversation was unknown and had to be seeded, where anybody could have been writing then, by a clock
    /// that all nodes have in common; and up to where every cell was written. What was being written at that moment, above
    /// or into a hole, is not among the ids.
    pub seeded_ago: Option<Duration>,
    pub seeded_head: Seq,
    /// Where there is one that is later than what the asker has.
    pub registry: Option<RegistryCopy>,
}

#[derive(Clone, Debug)]
pub struct Seed {
    pub conversation: ConversationId,
    /// All ids of the dedupe window are there. A part of them is added to what is known of the conversation; where nothing
    /// is, nothing is seeded, since the part would pass for all.
    pub is_whole: bool,
    /// When the tables were read; `None` where nobody was writing.
    pub read_at: Option<Instant>,
    /// The newest cell that is written.
    pub head: Seq,
    pub settled: Seq,
    pub last_at: Timestamp,
    pub members_version: u64,
    /// Which ids are where, with the moment they were received: all within the dedupe window, or all above the counter
    /// that turned out to be behind.
    pub ids: Vec<(MessageKey, Seq, Timestamp)>,
    /// Who has written where last, of those seen.
    pub sent: Vec<(UserId, Seq)>,
    /// What the seeding node has at hand.
    pub registry: Option<RegistryCopy>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glance {
    /// The newest place that was handed out. The cell may not be written yet.
    pub reserved: Seq,
    pub settled: Seq,
    pub members_version: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Where the user is connected, as far as the nodes said; dead ones included.
    pub nodes: Vec<NodeId>,
    pub pending: bool,
}
