//! What went wrong with one attempt: whether another may help, and whether the engine may have acted.
//!
//! No text of an answer is passed on: it can repeat what was asked, rows included.

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};

use super::super::RowsError;
use super::counters::Operation;

/// One attempt that failed.
pub enum Trouble<E> {
    /// Worth another attempt.
    Passing(Passing),
    /// The engine has decided, and would decide the same again.
    Said(E),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passing {
    /// Refused for now, and surely not done.
    Throttled,
    /// Refused for now for another reason, and surely not done.
    Busy,
    /// A 5xx. It may have been done.
    Error,
    /// It may have been done.
    Cut,
    /// It may have been done.
    Slow,
    /// It could not even be sent, for want of keys most likely.
    Unsigned,
    /// It was not sent, because as many as may be were under way.
    Crowded,
}

impl Passing {
    pub fn may_have_acted(self) -> bool {
        matches!(self, Passing::Error | Passing::Cut | Passing::Slow)
    }

    pub fn sentence(self) -> &'static str {
        match self {
            Passing::Throttled => "it throttles",
            Passing::Busy => "it is busy with the same row",
            Passing::Error => "it answers with an error of its own",
            Passing::Cut => "there is no connection, or it breaks",
            Passing::Slow => "it answers too slowly",
            Passing::Unsigned => "there are no keys to sign with at the moment",
            Passing::Crowded => "too many requests wait for it",
        }
    }
}

/// Errors with status 400 that mean "later".
fn passing(code: &str) -> Option<Passing> {
    match code {
        "ProvisionedThroughputExceededException"
        | "ThrottlingException"
        | "Throttling"
        | "RequestLimitExceeded"
        | "LimitExceededException"
        | "TooManyRequestsException" => Some(Passing::Throttled),
        "TransactionConflictException" | "ReplicatedWriteConflictException" => Some(Passing::Busy),
        "InternalServerError" | "InternalFailure" | "ServiceUnavailable" => Some(Passing::Error),
        _ => None,
    }
}

pub fn judge<E: ProvideErrorMetadata>(error: SdkError<E, HttpResponse>) -> Trouble<E> {
    match error {
        SdkError::ServiceError(answer) => {
            let passing = match answer.err().code().and_then(passing) {
                Some(passing) => Some(passing),
                None if answer.raw().status().is_server_error() => Some(Passing::Error),
                None => None,
            };
            match passing {
                Some(passing) => Trouble::Passing(passing),
                None => Trouble::Said(answer.into_err()),
            }
        }
        SdkError::ConstructionFailure(_) => Trouble::Passing(Passing::Unsigned),
        SdkError::TimeoutError(_) => Trouble::Passing(Passing::Slow),
        SdkError::DispatchFailure(failure) if failure.is_timeout() => Trouble::Passing(Passing::Slow),
        // Also an answer that cannot be read, and whatever a later SDK may add: it may have been done.
        _ => Trouble::Passing(Passing::Cut),
    }
}

/// What the engine has decided, for whoever runs it.
pub fn refused(error: &impl ProvideErrorMetadata, operation: Operation, tables: &str) -> RowsError {
    let code: String =
        error.code().unwrap_or("no reason").chars().filter(char::is_ascii_alphanumeric).take(80).collect();
    let what = operation.name();
    let sentence = match code.as_str() {
        "ResourceNotFoundException" => {
            format!("{tables} is missing, or not ready; `bluetick tables create` makes the tables")
        }
        "AccessDeniedException" => format!("the keys in use may not do {what} on {tables}"),
        "UnrecognizedClientException"
        | "InvalidSignatureException"
        | "ExpiredTokenException"
        | "IncompleteSignatureException"
        | "MissingAuthenticationTokenException" => {
            format!("{what} on {tables}: the keys in use are not accepted, or the clock is wrong ({code})")
        }
        "ValidationException" if error.message().is_some_and(|text| text.contains("size has exceeded")) => {
            format!("{what} on {tables}: a row is larger than the engine takes")
        }
        "ItemCollectionSizeLimitExceededException" => {
            format!("{what} on {tables}: a partition is larger than a local index lets it be")
        }
        _ => format!("{what} on {tables} is refused ({code})"),
    };
    RowsError::Refused(sentence)
}
