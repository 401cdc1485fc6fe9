//! Errors of the store ports. A [`Refusal`] means that a rule forbids the request; the other
//! variants of [`StoreError`] are operational failures.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use crate::{Seq, UserId};

/// The request is valid, but a rule forbids it. Nothing was written.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    /// The user is not a member, or the conversation does not exist. Both get the same answer, so
    /// that non-members learn nothing.
    #[error("no such conversation")]
    NotAMember,
    #[error("message_id was used for a different message, which has seq {first_seq}")]
    MessageIdReused { first_seq: Seq },
    #[error("there is no such message, or none that you can see")]
    NoSuchMessage,
    #[error("the members of a direct conversation never change")]
    DirectIsFixed,
    #[error("only an admin of the group removes other members")]
    NotAnAdmin,
    #[error("that user is not a member")]
    NoSuchMember,
    #[error("a group holds at most {limit} members")]
    GroupFull { limit: usize },
    #[error("this user_id, or one that looks like it, is taken")]
    UserExists,
    #[error("no such user")]
    NoSuchUser,
    /// A request names an unknown user while conversations accept only known users.
    #[error("there is no user {user}")]
    UnknownUser { user: UserId },
}

/// The error behind a [`StoreError`]: an error of a lower layer, or a text. Keeps its source chain
/// for logs.
#[derive(Clone)]
pub struct Cause(Arc<dyn StdError + Send + Sync>);

impl Cause {
    pub fn of(error: impl StdError + Send + Sync + 'static) -> Cause {
        Cause(Arc::new(error))
    }
}

impl From<String> for Cause {
    fn from(text: String) -> Cause {
        Cause(Box::<dyn StdError + Send + Sync>::from(text).into())
    }
}

impl From<&str> for Cause {
    fn from(text: &str) -> Cause {
        Cause::from(text.to_owned())
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl StdError for Cause {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source()
    }
}

/// The error of a store call.
#[derive(Clone, Debug, Error)]
pub enum StoreError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Nothing was written. Reads still work, and the store retries writing by itself.
    #[error("the store cannot write now: {0}")]
    ReadOnly(#[source] Cause),
    /// Nothing was written: the store's write queue is full.
    #[error("the write queue of the store is full")]
    Overloaded,
    #[error("the store is closing")]
    Closing,
    /// Stored data does not match its checksum. The store never returns such data.
    #[error("stored data is damaged: {0}")]
    Damaged(#[source] Cause),
    /// The archive does not answer, or the messages are being moved. A retry may succeed.
    #[error("the archive cannot be read now: {0}")]
    Unavailable(#[source] Cause),
    /// The storage engine is overloaded, unavailable or timed out. The write may have been applied;
    /// a retry with the same message_id is safe.
    #[error("the store did not answer: {0}")]
    NoAnswer(#[source] Cause),
    /// A read failed, or a write failed with an unknown outcome. A retry with the same message_id
    /// is safe.
    #[error("the store failed: {0}")]
    Failed(#[source] Cause),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Error)]
    #[error("cannot sync the log")]
    struct SyncFailed(#[source] std::io::Error);

    #[test]
    fn store_error_keeps_the_chain_of_its_sources() {
        let disk = SyncFailed(std::io::Error::other("disk full"));
        let error = StoreError::Failed(Cause::of(disk));
        assert_eq!(error.to_string(), "the store failed: cannot sync the log");
        let mut chain = Vec::new();
        let mut next = StdError::source(&error);
        while let Some(source) = next {
            chain.push(source.to_string());
            next = source.source();
        }
        assert_eq!(chain, ["cannot sync the log", "disk full"]);
    }
}
