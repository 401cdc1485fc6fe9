//! The use cases of the chat: each validates its input against the limits, then calls the store.

mod converse;
mod history;
mod inbox;
mod known;
mod receipts;
mod send;

use std::sync::Arc;

pub use converse::InvalidConversation;
pub use send::{InvalidMessage, SendRequest};

use crate::ports::{Random, Store};
use crate::time::Clock;
use crate::{Refusal, StoreError};

/// Limits and rules that the operator configures.
#[derive(Clone, Copy, Debug)]
pub struct ChatRules {
    /// Upper bound on the content of a message, in bytes.
    pub max_content_bytes: usize,
    /// Upper bound on the members of a group, the creator included.
    pub max_group_members: usize,
    /// Upper bound on the users that one call adds to a group.
    pub max_members_per_call: usize,
    /// Conversations accept only known users. Enabled while sign-up is open: otherwise a stranger
    /// could sign up with a name that already receives messages.
    pub known_people_only: bool,
}

impl Default for ChatRules {
    fn default() -> Self {
        ChatRules {
            max_content_bytes: 64 * 1024,
            max_group_members: 10_000,
            max_members_per_call: 1_000,
            known_people_only: false,
        }
    }
}

/// The use cases that users perform on conversations. The caller has already authenticated the
/// user.
#[derive(Clone)]
pub struct Chat {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    rules: ChatRules,
}

impl Chat {
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        rules: ChatRules,
    ) -> Chat {
        Chat { store, clock, random, rules }
    }
}

/// The error of a use case.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ChatError {
    #[error(transparent)]
    Message(#[from] InvalidMessage),
    #[error(transparent)]
    Conversation(#[from] InvalidConversation),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<Refusal> for ChatError {
    fn from(refusal: Refusal) -> ChatError {
        ChatError::Store(refusal.into())
    }
}
