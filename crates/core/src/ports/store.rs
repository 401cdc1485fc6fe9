//! Where conversations live.

use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;

use crate::ports::Origin;
use crate::{
    ContentType, ConversationId, ConversationView, Epoch, MessageId, Page, PageRequest, Seq, StoreError,
    Timestamp, Title, User, UserId,
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
    /// Refused with [`Refusal::UserExists`](crate::Refusal::UserExists) when the id is taken; of two at once, one wins.
    async fn create_user(&self, user: User) -> Result<(), StoreError>;

    /// Refused with [`Refusal::NoSuchUser`](crate::Refusal::NoSuchUser) when there is no such user.
    async fn update_user(&self, update: UserUpdate) -> Result<(), StoreError>;

    async fn user(&self, id: &UserId) -> Result<Option<User>, StoreError>;

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

/// A message that has its turn. Resolves when it is durable, or refused.
pub type Accepted = Pin<Box<dyn Future<Output = Result<Appended, StoreError>> + Send>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    pub seq: Seq,
    pub received_at: Timestamp,
    /// It was stored by an earlier call.
    pub duplicate: bool,
}
