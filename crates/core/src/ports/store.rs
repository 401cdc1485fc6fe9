//! The storage port.

use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;

use crate::ports::Origin;
use crate::{
    ContentType, ConversationId, ConversationWithMembers, Epoch, InboxEntry, InboxPage, InboxRequest,
    MessageId, NamePrefix, Page, PageRequest, Person, PreferenceChange, Profile, ProfileUpdate, ReadState,
    ReceiptCounts, ReceiptKind, Seq, StoreError, Timestamp, Title, User, UserId,
};

/// The durable store. Each method is one use case. Every adapter guarantees:
///
/// 1. **Durable.** When a write returns `Ok`, its effects survive `kill -9` and power loss.
/// 2. **Atomic.** The effects of one call become durable and visible together or not at all.
/// 3. **Ordered.** Messages of a conversation get the seqs 1, 2, 3, … without a gap. A reader never
///    sees a message without all those before it.
/// 4. **Idempotent.** Two calls of [`Store::append`] with the same (conversation, sender,
///    message_id) store one message. This also holds for concurrent calls, on different nodes, or
///    with a crash in between. After the dedupe window, the resend must set
///    [`Append::retry_after`].
/// 5. **Write-once.** A stored message never changes and never moves to another seq. Only
///    [`Archive::erase`](super::Archive::erase) and retention remove its content.
/// 6. **Private.** A call on behalf of a non-member fails with [`Refusal::NotAMember`], exactly as
///    for a conversation that does not exist, and has no effect.
/// 7. **Clean refusal.** [`StoreError::Refused`], [`StoreError::ReadOnly`] and
///    [`StoreError::Overloaded`] mean that nothing was written. After [`StoreError::NoAnswer`] and
///    [`StoreError::Failed`] the outcome is unknown and a retry is safe.
///
/// [`Refusal::NotAMember`]: crate::Refusal::NotAMember
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Creates an account. Fails with [`Refusal::UserExists`](crate::Refusal::UserExists) if an
    /// account has this id, or a look-alike id (an equal [`Skeleton`](crate::Skeleton)). Of two
    /// concurrent calls with such ids, one succeeds.
    async fn create_user(&self, user: User) -> Result<(), StoreError>;

    /// Creates a user without a password, unless a user has this id. Look-alike ids are not checked
    /// here, but [`Store::create_user`] refuses them from then on.
    async fn reserve_name(&self, id: UserId, at: Timestamp) -> Result<(), StoreError>;

    /// Updates an account. Fails with [`Refusal::NoSuchUser`](crate::Refusal::NoSuchUser) if it
    /// does not exist.
    async fn update_user(&self, update: UserUpdate) -> Result<(), StoreError>;

    async fn user(&self, id: &UserId) -> Result<Option<User>, StoreError>;

    /// Returns the accounts among `ids`, in the same order.
    async fn people(&self, ids: Vec<UserId>) -> Result<Vec<Person>, StoreError>;

    /// Finds users with a search term ([`name_terms`](crate::people::name_terms)) that starts with
    /// `prefix`. Each user appears once, sorted by the first matching term, then by id. The cost
    /// does not grow with the number of users.
    async fn find_people(&self, prefix: &NamePrefix, limit: usize) -> Result<Vec<Person>, StoreError>;

    /// Creates a conversation, or returns the existing one. Of two concurrent calls with one id,
    /// one creates it and both return the same. A group starts with a notice at seq 1; a direct
    /// conversation starts empty.
    async fn open_conversation(&self, new: NewConversation) -> Result<OpenedConversation, StoreError>;

    async fn conversation(
        &self,
        id: ConversationId,
        reader: &UserId,
    ) -> Result<ConversationWithMembers, StoreError>;

    /// Adds the users who are not members yet, each with its own notice. A new member sees messages
    /// from that notice on.
    async fn add_members(&self, add: AddMembers) -> Result<ConversationWithMembers, StoreError>;

    /// Removes a member, or lets one leave, with a notice. Returns the conversation after the
    /// removal.
    async fn remove_member(&self, remove: RemoveMember) -> Result<ConversationWithMembers, StoreError>;

    /// Stores a message at the next seq, or finds the message stored earlier under the same id.
    ///
    /// The call has two steps, so that a connection can have many messages in flight and keep their
    /// order. The call itself fixes the order; awaiting the returned [`Accepted`] gives the
    /// outcome. If one call returns before another to the same conversation starts, its message
    /// gets the lower seq.
    ///
    /// Guarantee 1 holds only after [`Accepted`] resolves. The listener has received the message by
    /// then. Dropping [`Accepted`] does not cancel the message.
    async fn append(&self, append: Append) -> Result<Accepted, StoreError>;

    /// Returns one page of the messages that the reader may see. It includes every message
    /// acknowledged before the call.
    async fn page(&self, request: PageRequest) -> Result<Page, StoreError>;

    /// Applies a cumulative receipt to a member's read state and returns the new state. The read
    /// state only moves forward, up to the head. A late, repeated or too high receipt is not an
    /// error.
    ///
    /// A message advances its sender's read state as part of [`Store::append`]
    /// ([`MemberState::reply`](crate::MemberState::reply)).
    async fn apply_receipt(&self, receipt: Receipt) -> Result<ReadState, StoreError>;

    /// Returns the read state of each member as other members see it, and the reader's own in full.
    async fn statuses(&self, id: ConversationId, reader: &UserId) -> Result<Statuses, StoreError>;

    /// Returns the receipt counts of the message at `seq`. The cost does not grow with the group.
    /// Notices and erased messages have receipts. Fails with
    /// [`Refusal::NoSuchMessage`](crate::Refusal::NoSuchMessage) above the head, below the reader's
    /// first visible seq, and at a void.
    async fn receipt_counts(
        &self,
        id: ConversationId,
        reader: &UserId,
        seq: Seq,
    ) -> Result<ReceiptCounts, StoreError>;

    /// Changes a member's preferences and returns the member's inbox entry.
    async fn set_preferences(&self, prefer: SetPreferences) -> Result<InboxEntry, StoreError>;

    /// Returns one page of the user's conversations, in the order of
    /// [`InboxKey`](crate::InboxKey). The cost does not grow with their number. It includes
    /// every message acknowledged before the call.
    ///
    /// A conversation that moves up during paging is on no later page; every other one is on
    /// exactly one page. A direct conversation without messages is listed for its creator only
    /// ([`Conversation::is_listed_for`](crate::Conversation::is_listed_for)).
    async fn inbox(&self, request: InboxRequest) -> Result<InboxPage, StoreError>;

    /// Returns whether the user is a member of any conversation, including those that its inbox
    /// does not list yet.
    async fn is_member(&self, user: &UserId) -> Result<bool, StoreError>;

    /// Returns one inbox entry of the reader, whether or not the inbox lists it.
    async fn inbox_entry(&self, id: ConversationId, reader: &UserId) -> Result<InboxEntry, StoreError>;

    /// Returns what a reconnecting device misses, each conversation once, latest activity first:
    /// - For each conversation with a position: the messages above it.
    /// - For other conversations: the pending messages, which only receipts clear. Without pending
    ///   messages: the newest page, if there was activity after the newest position.
    ///
    /// A position above the head is invalid for this conversation and is ignored.
    async fn behind(&self, user: &UserId, positions: Vec<Position>) -> Result<Missed, StoreError>;

    /// Returns the profile of a user, or the default for an unknown user.
    async fn profile(&self, user: &UserId) -> Result<Profile, StoreError>;

    /// Updates a profile. Reports revoked tokens to the listener after they are durable and before
    /// this returns. In a fleet, the other nodes get the report as well.
    async fn update_profile(&self, update: ProfileUpdate) -> Result<Profile, StoreError>;

    fn epoch(&self) -> Epoch;

    fn health(&self) -> Health;

    /// Finishes accepted writes, rejects new calls with [`StoreError::Closing`], and releases the
    /// files.
    async fn close(&self);
}

/// Whether the store accepts writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    Writable,
    /// Reads work, writes fail. The text is the reason.
    ReadOnly(String),
}

/// A partial update of an account. `None` keeps the current value.
#[derive(Clone, Debug)]
pub struct UserUpdate {
    pub id: UserId,
    pub display_name: Option<Arc<str>>,
    pub password_hash: Option<Arc<str>>,
}

#[derive(Clone, Debug)]
pub struct NewConversation {
    pub id: ConversationId,
    pub creation: Creation,
    pub created_by: UserId,
    pub created_at: Timestamp,
}

#[derive(Clone, Debug)]
pub enum Creation {
    Direct { peer: UserId },
    Group { title: Title, members: Vec<UserId> },
}

/// A conversation, and whether the call created it.
#[derive(Clone, Debug)]
pub struct OpenedConversation {
    pub view: ConversationWithMembers,
    pub created: bool,
}

/// A request to add users to a group.
#[derive(Clone, Debug)]
pub struct AddMembers {
    pub conversation: ConversationId,
    pub actor: UserId,
    pub users: Vec<UserId>,
    pub member_limit: usize,
    pub at: Timestamp,
}

/// A request to remove a member, or to leave if `user` is the actor.
#[derive(Clone, Debug)]
pub struct RemoveMember {
    pub conversation: ConversationId,
    pub actor: UserId,
    pub user: UserId,
    pub at: Timestamp,
}

/// A message to store.
#[derive(Clone, Debug)]
pub struct Append {
    pub conversation: ConversationId,
    pub sender: UserId,
    pub message_id: MessageId,
    pub content_type: ContentType,
    pub content: Arc<str>,
    pub timestamp: Timestamp,
    pub received_at: Timestamp,
    /// Set on a resend: the highest seq that the client knew at its first attempt. The store then
    /// searches for the message above this seq, and not only in the dedupe window.
    pub retry_after: Option<Seq>,
    pub origin: Option<Origin>,
}

/// A cumulative receipt: a device of `user` received or read everything up to `seq`.
#[derive(Clone, Debug)]
pub struct Receipt {
    pub conversation: ConversationId,
    pub user: UserId,
    pub kind: ReceiptKind,
    pub seq: Seq,
    pub origin: Option<Origin>,
}

/// A change of a member's preferences.
#[derive(Clone, Debug)]
pub struct SetPreferences {
    pub conversation: ConversationId,
    pub user: UserId,
    pub change: PreferenceChange,
}

/// The read state of one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    pub user: UserId,
    pub read_state: ReadState,
    /// The member's first visible seq. Messages below it do not count for this member.
    pub joined: Seq,
}

/// The read states of all members of a conversation.
#[derive(Clone, Debug)]
pub struct Statuses {
    pub head: Seq,
    /// Sorted by user id.
    pub members: Vec<MemberStatus>,
}

/// The position of a device in a conversation: it has every message up to `seq`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub conversation: ConversationId,
    pub seq: Seq,
}

/// The conversations that a reconnecting device must update.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    pub behind: Vec<Behind>,
    /// Conversations with a position that the user is not a member of, whether or not they exist.
    pub gone: Vec<ConversationId>,
}

/// A conversation in which a device misses messages, or whose position is a new acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behind {
    pub conversation: ConversationId,
    /// The device misses the messages above this seq.
    pub after: Seq,
    pub head: Seq,
    /// No device had acknowledged everything up to `after`. This device's position now does, so the
    /// server records it as a receipt.
    pub unacknowledged: bool,
}

/// A message with a fixed order. Resolves when the message is durable or refused.
pub type Accepted = Pin<Box<dyn Future<Output = Result<Appended, StoreError>> + Send>>;

/// The outcome of [`Store::append`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    pub seq: Seq,
    pub received_at: Timestamp,
    /// An earlier call stored the message.
    pub duplicate: bool,
}
