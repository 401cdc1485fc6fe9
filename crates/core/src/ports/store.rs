//! Where conversations live.

use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;

use crate::ports::Origin;
use crate::{
    Boundaries, ContentType, ConversationId, ConversationView, Epoch, InboxEntry, InboxPage, InboxRequest,
    MarkKind, MessageId, NamePrefix, Page, PageRequest, Person, PreferenceChange, Profile, ProfileUpdate,
    Receipts, Seq, StoreError, Timestamp, Title, User, UserId,
};

/// Everything durable. Each method is one use case, and this is what every adapter promises:
///
/// 1. **Durable.** When a call that writes returns `Ok`, its effects survive `kill -9` and power loss.
/// 2. **Whole.** The effects of one call become durable and visible together or not at all.
/// 3. **Ordered.** Messages of a conversation get the seqs 1, 2, 3, … without a gap; a reader never sees a
///    message without all those before it.
/// 4. **Once.** Two calls of [`Store::append`] with one (conversation, sender, message_id) store one message,
///    also when they run at the same time, on another node, or with a crash between them.
/// 5. **Write-once.** A stored message never changes and never moves.
/// 6. **Private.** A call on behalf of somebody who is not a member answers [`Refusal::NotAMember`], exactly as
///    for a conversation that does not exist, and has no effect.
/// 7. **Refusal is clean.** [`StoreError::Refused`], [`StoreError::ReadOnly`] and [`StoreError::Overloaded`] mean
///    that nothing was written. After [`StoreError::Failed`] the outcome is unknown and a retry is safe.
///
/// [`Refusal::NotAMember`]: crate::Refusal::NotAMember
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Refused with [`Refusal::UserExists`](crate::Refusal::UserExists) when there is a user with
    /// this id, or with another id that looks like it (an equal [`Skeleton`](crate::Skeleton)). Of
    /// two such calls at once, one wins.
    async fn create_user(&self, user: User) -> Result<(), StoreError>;

    /// Makes a user without a password, unless there is one with this id. Ids that look like it make
    /// no difference here, but [`Store::create_user`] refuses them from then on.
    async fn reserve_name(&self, id: UserId, at: Timestamp) -> Result<(), StoreError>;

    /// Refused with [`Refusal::NoSuchUser`](crate::Refusal::NoSuchUser) when there is no such user.
    async fn update_user(&self, update: UserUpdate) -> Result<(), StoreError>;

    async fn user(&self, id: &UserId) -> Result<Option<User>, StoreError>;

    /// Those of `ids` that are known here, in the same order.
    async fn people(&self, ids: Vec<UserId>) -> Result<Vec<Person>, StoreError>;

    /// People of whom a term ([`name_terms`](crate::people::name_terms)) begins so, each once, sorted by the first such
    /// term and then by id, at a cost that does not grow with the number of people.
    async fn find_people(&self, prefix: &NamePrefix, limit: usize) -> Result<Vec<Person>, StoreError>;

    /// Makes a conversation, or finds it: of two calls with one id, one creates and both see the same.
    /// A group starts with the notice of its making at seq 1; a direct conversation starts empty.
    async fn open_conversation(&self, new: NewConversation) -> Result<Opened, StoreError>;

    async fn conversation(&self, id: ConversationId, reader: &UserId)
    -> Result<ConversationView, StoreError>;

    /// Adds those who are not members yet, each with a notice of its own; the new member sees from that notice on.
    async fn add_members(&self, add: AddMembers) -> Result<ConversationView, StoreError>;

    /// Removes a member, or lets one leave, with a notice. Returns what is left.
    async fn remove_member(&self, remove: RemoveMember) -> Result<ConversationView, StoreError>;

    /// Stores a message at the next place, or finds the one stored before under the same id.
    ///
    /// In two steps, so that a connection can have many on their way and keep its order: this call settles the
    /// message's turn, and awaiting what it returns tells the outcome. Of two messages to one conversation, the one
    /// whose call returned before the other was made gets the lower place. The outcome is not known, and promise 1
    /// does not hold, before [`Accepted`] is awaited; the listener has heard of the message by then. Letting go of
    /// it does not take the message back.
    async fn append(&self, append: Append) -> Result<Accepted, StoreError>;

    /// One page of what the reader may see. It includes every message acknowledged before the call.
    async fn page(&self, request: PageRequest) -> Result<Page, StoreError>;

    /// Moves a member's boundaries by what one of its devices said, however many messages that covers. Forward only,
    /// clamped to the head; whatever is late, repeated or beyond the head is no error and moves what it can.
    /// Returns where the member stands then.
    ///
    /// A message moves its sender's boundaries in the same way, as part of [`Store::append`]
    /// ([`Standing::reply`](crate::Standing::reply)).
    async fn mark(&self, mark: Mark) -> Result<Boundaries, StoreError>;

    /// How far each member has come, as the others are told; the reader's own as it is.
    async fn statuses(&self, id: ConversationId, reader: &UserId) -> Result<Statuses, StoreError>;

    /// How many have the message at `seq`, at a cost that does not grow with the group. Notices and erased messages have
    /// receipts. Refused with [`Refusal::NoSuchMessage`](crate::Refusal::NoSuchMessage) where the reader can see no
    /// message: above the head, before the reader joined, and at a void, which is not a message.
    async fn receipts(&self, id: ConversationId, reader: &UserId, seq: Seq) -> Result<Receipts, StoreError>;

    /// Changes what a member set for itself, and returns its entry.
    async fn prefer(&self, prefer: Prefer) -> Result<InboxEntry, StoreError>;

    /// One page of the user's conversations, in the order of [`InboxPlace`](crate::InboxPlace), at a cost that does
    /// not grow with their number. It includes every message acknowledged before the call. A conversation that moves up
    /// while somebody pages is on no later page; all others are on exactly one. A direct conversation without messages
    /// is on the pages of its creator alone ([`Conversation::is_listed_for`](crate::Conversation::is_listed_for)).
    async fn inbox(&self, request: InboxRequest) -> Result<InboxPage, StoreError>;

    /// Whether the user is a member of any conversation, also of one that its inbox does not list yet.
    async fn is_member(&self, user: &UserId) -> Result<bool, StoreError>;

    /// One entry of the reader's inbox, whether the inbox lists it or not.
    async fn inbox_entry(&self, id: ConversationId, reader: &UserId) -> Result<InboxEntry, StoreError>;

    /// What a device that comes back has to be sent, each conversation once, the latest activity first:
    /// - of each conversation at a position: what lies above it;
    /// - of others: what no device of the user has acknowledged (a pending delivery, which only acks clear), or else
    ///   the newest page where there was activity after the newest position.
    ///
    /// A position above the head is none of this conversation's and counts as none.
    async fn behind(&self, user: &UserId, positions: Vec<Position>) -> Result<Missed, StoreError>;

    /// Of somebody nothing is known of: the default.
    async fn profile(&self, user: &UserId) -> Result<Profile, StoreError>;

    /// Tokens that are made void are reported to the listener, when that is durable and before this returns; by one node
    /// of a fleet, also to the others.
    async fn update_profile(&self, update: ProfileUpdate) -> Result<Profile, StoreError>;

    fn epoch(&self) -> Epoch;

    fn health(&self) -> Health;

    /// Finishes what was accepted, refuses the rest with [`StoreError::Closing`], and lets go of the files.
    async fn close(&self);
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    Writable,
    /// Reads go on. The text says why writes do not.
    ReadOnly(String),
}

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

#[derive(Clone, Debug)]
pub struct Opened {
    pub view: ConversationView,
    pub created: bool,
}

#[derive(Clone, Debug)]
pub struct AddMembers {
    pub conversation: ConversationId,
    pub actor: UserId,
    pub users: Vec<UserId>,
    pub member_limit: usize,
    pub at: Timestamp,
}

#[derive(Clone, Debug)]
pub struct RemoveMember {
    pub conversation: ConversationId,
    pub actor: UserId,
    pub user: UserId,
    pub at: Timestamp,
}

#[derive(Clone, Debug)]
pub struct Append {
    pub conversation: ConversationId,
    pub sender: UserId,
    pub message_id: MessageId,
    pub content_type: ContentType,
    pub content: Arc<str>,
    pub timestamp: Timestamp,
    pub received_at: Timestamp,
    /// The client marks this as a resend and knew everything up to here at its first attempt: look for the
    /// message from there on, however long ago that was, and not only in the dedupe window.
    pub retry_after: Option<Seq>,
    pub origin: Option<Origin>,
}

#[derive(Clone, Debug)]
pub struct Mark {
    pub conversation: ConversationId,
    pub user: UserId,
    pub kind: MarkKind,
    pub seq: Seq,
    pub origin: Option<Origin>,
}

#[derive(Clone, Debug)]
pub struct Prefer {
    pub conversation: ConversationId,
    pub user: UserId,
    pub change: PreferenceChange,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    pub user: UserId,
    pub boundaries: Boundaries,
    /// What lies below does not concern the member.
    pub joined: Seq,
}

#[derive(Clone, Debug)]
pub struct Statuses {
    pub head: Seq,
    /// Sorted by user.
    pub members: Vec<MemberStatus>,
}

/// What a device says it has of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub conversation: ConversationId,
    pub seq: Seq,
}

/// What a device that comes back should know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    pub behind: Vec<Behind>,
    /// Positions in conversations the user is not in, whether there are such or not.
    pub gone: Vec<ConversationId>,
}

/// A conversation of which a device misses something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behind {
    pub conversation: ConversationId,
    /// It misses what lies above.
    pub after: Seq,
    pub head: Seq,
    /// No device has said yet that it has everything up to `after`, and this one just did by its position.
    pub unacknowledged: bool,
}

/// A message that has its turn. Resolves when it is durable, or refused.
pub type Accepted = Pin<Box<dyn Future<Output = Result<Appended, StoreError>> + Send>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    pub seq: Seq,
    pub received_at: Timestamp,
    /// It was stored by an earlier call.
    pub duplicate: bool,
}
