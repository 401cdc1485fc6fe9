//! The domain rules of Bluetick, without sockets, disks or clocks.
//!
//! This crate defines the identifiers, the order of a conversation, the access rules, the read
//! state and the paging of history. It reaches the outside world only through the traits in
//! [`ports`]. Serialization for clients belongs to `bluetick-wire`, storage to the store crates.

pub mod chat;
pub mod conversation;
pub mod decide;
pub mod error;
pub mod inbox;
pub mod members;
pub mod message;
pub mod names;
pub mod notice;
pub mod paging;
pub mod people;
pub mod ports;
pub mod presence;
pub mod read_state;
pub mod receipts;
pub mod revocation;
pub mod user;

pub use bluetick_types::{
    ConversationId, ConversationKind, Epoch, InvalidId, MessageId, ReadState, ReceiptKind, Seq, Tick,
    Timestamp, UserId, ids, seq, tick_state, ticks, time,
};
pub use chat::Chat;
pub use conversation::{Conversation, ConversationWithMembers, Title};
pub use error::{Cause, Refusal, StoreError};
pub use inbox::{InboxEntry, InboxFilter, InboxKey, InboxPage, InboxRequest, InboxSection, LastMessage};
pub use members::{Member, Members, Role};
pub use message::{ContentType, Message};
pub use names::Skeleton;
pub use paging::{Page, PageFrom, PageLimit, PageRequest};
pub use people::{NamePrefix, Person};
pub use presence::{Profile, ProfileUpdate};
pub use read_state::{MemberState, PreferenceChange, Preferences};
pub use receipts::ReceiptCounts;
pub use revocation::{Revocations, Revoke, Revoked, TokenFacts, TokenPrint};
pub use user::User;
