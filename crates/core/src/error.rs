//! Why something was not done. A [`Refusal`] is the rules speaking; the rest of [`StoreError`] is the world.

use thiserror::Error;

use crate::{Seq, UserId};

/// The request was understood and the rules forbid it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    /// Also the answer for a conversation that does not exist: a stranger learns nothing.
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
    /// A conversation names an unknown user, and conversations accept only known users.
    #[error("there is no user {user}")]
    UnknownUser { user: UserId },
}

#[derive(Clone, Debug, Error)]
pub enum StoreError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Nothing was written. Reads go on; the store tries by itself to write again.
    #[error("the store cannot write now: {0}")]
    ReadOnly(String),
    /// Nothing was written: more is waiting to be stored than the store accepts.
    #[error("too much is waiting to be written")]
    Overloaded,
    #[error("the store is closing")]
    Closing,
    /// What is stored does not match its checksum. Never served as truth.
    #[error("stored data is damaged: {0}")]
    Damaged(String),
    /// The messages are in the archive, which does not answer now. A retry may work.
    #[error("the archive cannot be read now: {0}")]
    Unavailable(String),
    /// The engine behind the store is overloaded, away or did not answer in time. A write may have been done; a retry
    /// with the same message_id is safe.
    #[error("the store did not answer: {0}")]
    NoAnswer(String),
    /// A read failed, or a write whose outcome is unknown; a retry with the same message_id is safe.
    #[error("the store failed: {0}")]
    Failed(String),
}
