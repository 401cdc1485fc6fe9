//! Copying another store into the tables: the same rows that the engine itself would have written, so that it finds
//! nothing unusual about them.
//!
//! Nobody may serve the tables meanwhile, and the copy does not rely on that for what is written once. A conversation is
//! claimed by a conditional write of its room's row before anything else is; its members come last, and without them
//! nobody reads or writes it. Everything may be done again: what is there and equal is left alone.

mod compare;
mod copy;
mod marker;
mod rows;

use std::sync::Arc;

use bluetick_core::{Conversation, Member, MemberState, Profile, StoreError, User, UserId};
use thiserror::Error;

pub use compare::{Comparison, RoomComparison};
pub use copy::{Copied, RoomCopy};
pub use marker::Marker;

use crate::people::in_common;
use crate::rows::{Damaged, Rows, RowsError};

/// Somebody: an account, or only what is kept of a user of the operator's own product.
#[derive(Clone, Debug)]
pub struct ImportedPerson {
    pub id: UserId,
    pub account: Option<User>,
    pub profile: Option<Profile>,
}

/// A conversation without its messages, which come one by one.
#[derive(Clone, Debug)]
pub struct ImportedRoom {
    pub conversation: Conversation,
    pub members: Vec<(Member, MemberState)>,
}

#[derive(Clone, Debug, Error)]
pub enum ImportError {
    #[error("{0}")]
    Rows(#[from] RowsError),
    /// Something else is where a row belongs; the sentence names it, and holds nothing that anybody wrote.
    #[error("{0}")]
    Conflict(String),
    #[error("{0}")]
    Damaged(String),
}

impl From<Damaged> for ImportError {
    fn from(damaged: Damaged) -> ImportError {
        ImportError::Damaged(damaged.to_string())
    }
}

impl From<StoreError> for ImportError {
    fn from(error: StoreError) -> ImportError {
        match error {
            StoreError::NoAnswer(why) => RowsError::NoAnswer(why.to_string()).into(),
            other => ImportError::Damaged(other.to_string()),
        }
    }
}

/// The tables, as somebody fills them who is no node.
#[derive(Clone)]
pub struct Importer {
    rows: Arc<dyn Rows>,
}

impl Importer {
    pub fn new(rows: Arc<dyn Rows>) -> Importer {
        Importer { rows }
    }

    /// A text that all nodes will have in common. `false`: they have another one already.
    pub async fn share(&self, name: &str, text: &str) -> Result<bool, ImportError> {
        Ok(&*in_common(&*self.rows, name, text).await? == text)
    }
}
