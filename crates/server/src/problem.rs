//! Maps internal errors to API errors: an error code and a message.

use std::borrow::Cow;
use std::time::Duration;

use bluetick_core::chat::{ChatError, InvalidMessage};
use bluetick_core::ports::ArchiveError;
use bluetick_core::{Refusal, StoreError};
use bluetick_wire::{BadInput, ErrorCode};

/// An error as the client sees it, over HTTP and WebSocket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub code: ErrorCode,
    pub message: Cow<'static, str>,
    /// Time after which a retry can succeed, if known.
    pub retry_after: Option<Duration>,
}

impl Problem {
    pub fn new(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Problem {
        Problem { code, message: message.into(), retry_after: None }
    }

    pub fn rate_limited(wait: Duration) -> Problem {
        let retry_after = Some(wait);
        Problem { code: ErrorCode::RateLimited, message: "too many requests".into(), retry_after }
    }

    pub fn too_many_wrong_keys(wait: Duration) -> Problem {
        let message = "too many wrong admin keys from this address".into();
        Problem { code: ErrorCode::RateLimited, message, retry_after: Some(wait) }
    }

    pub fn draining() -> Problem {
        let retry_after = Some(Duration::from_secs(1));
        Problem { code: ErrorCode::Draining, message: "the server is shutting down".into(), retry_after }
    }

    pub fn overloaded() -> Problem {
        let retry_after = Some(Duration::from_secs(1));
        Problem { code: ErrorCode::Overloaded, message: "a queue of the server is full".into(), retry_after }
    }

    /// The error for a conversation that does not exist, and for one the caller is not a member of.
    /// It does not reveal which.
    pub fn no_such_conversation() -> Problem {
        Refusal::NotAMember.into()
    }
}

impl From<BadInput> for Problem {
    fn from(bad: BadInput) -> Problem {
        Problem::new(ErrorCode::InvalidRequest, bad.to_string())
    }
}

impl From<ChatError> for Problem {
    fn from(error: ChatError) -> Problem {
        match error {
            ChatError::Message(invalid @ InvalidMessage::TooLarge { .. }) => {
                Problem::new(ErrorCode::ContentTooLarge, invalid.to_string())
            }
            ChatError::Message(invalid) => Problem::new(ErrorCode::InvalidRequest, invalid.to_string()),
            ChatError::Conversation(invalid) => Problem::new(ErrorCode::InvalidRequest, invalid.to_string()),
            ChatError::Store(error) => error.into(),
        }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Problem {
        let code = match refusal {
            Refusal::NotAMember => ErrorCode::ConversationNotFound,
            Refusal::MessageIdReused { .. } => ErrorCode::MessageIdConflict,
            Refusal::NoSuchMessage => ErrorCode::MessageNotFound,
            Refusal::DirectIsFixed => ErrorCode::DirectIsFixed,
            Refusal::NotAnAdmin => ErrorCode::NotAnAdmin,
            Refusal::NoSuchMember => ErrorCode::MemberNotFound,
            Refusal::GroupFull { .. } => ErrorCode::GroupFull,
            Refusal::UserExists => ErrorCode::UserExists,
            Refusal::NoSuchUser => ErrorCode::UserNotFound,
            Refusal::UnknownUser { .. } => ErrorCode::UnknownUser,
        };
        Problem::new(code, refusal.to_string())
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        match error {
            StoreError::Refused(refusal) => refusal.into(),
            // The reason is for the operator only; `/readyz` reports it.
            StoreError::ReadOnly(_) => Problem {
                retry_after: Some(Duration::from_secs(5)),
                ..Problem::new(ErrorCode::StoreUnavailable, "the store cannot write now")
            },
            StoreError::Unavailable(_) => Problem {
                retry_after: Some(Duration::from_secs(5)),
                ..Problem::new(ErrorCode::ArchiveUnavailable, "older messages cannot be read now")
            },
            StoreError::NoAnswer(_) => Problem {
                retry_after: Some(Duration::from_secs(1)),
                ..Problem::new(ErrorCode::StoreUnavailable, "the store did not answer in time; try again")
            },
            StoreError::Overloaded => Problem::overloaded(),
            StoreError::Closing => Problem::draining(),
            StoreError::Damaged(_) | StoreError::Failed(_) => {
                tracing::error!(%error, "store request failed");
                Problem::new(ErrorCode::Internal, "the server failed")
            }
        }
    }
}

/// These errors go to the operator only, so the message includes the cause.
impl From<ArchiveError> for Problem {
    fn from(error: ArchiveError) -> Problem {
        let code = match error {
            ArchiveError::Off => ErrorCode::ArchiveOff,
            ArchiveError::Busy => ErrorCode::ArchiveBusy,
            ArchiveError::NoSuchConversation => ErrorCode::ConversationNotFound,
            ArchiveError::Unavailable(_) => ErrorCode::ArchiveUnavailable,
            ArchiveError::Damaged(_) => ErrorCode::Internal,
            ArchiveError::Refused(_) => ErrorCode::InvalidRequest,
            ArchiveError::Stopped => return Problem::draining(),
            ArchiveError::Store(error) => return error.into(),
        };
        Problem::new(code, error.to_string())
    }
}
