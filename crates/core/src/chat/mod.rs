//! The use cases, one verb a file: what a person may do, in the order in which it is checked.

mod converse;
mod history;
mod inbox;
mod known;
mod send;
mod stand;

use std::sync::Arc;

pub use converse::InvalidConversation;
pub use send::{InvalidMessage, SendRequest};

use crate::ports::{Random, Store};
use crate::time::Clock;
use crate::{Refusal, StoreError};

/// Sizes the operator may set.
#[derive(Clone, Copy, Debug)]
pub struct ChatRules {
    pub max_content_bytes: usize,
    pub max_group_members: usize,
    pub max_members_per_call: usize,
    /// Conversations accept only known users. Set while sign-up is open: otherwise a stranger could
    /// sign up with a name that already receives messages.
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

/// What people do with conversations. Who they are was settled before.
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

/// Why a use case was not carried out.
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
