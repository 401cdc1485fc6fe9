//! Errors of the object archive. Errors of the object store are shortened and stripped of secrets.

use std::error::Error as StdError;

use bluetick_core::StoreError;
use bluetick_core::ports::ArchiveError;
use object_store::Error as ObjectError;
use object_store::client::HttpError;
use thiserror::Error;

/// An error of the object archive. Only [`Missing`](ObjectArchiveError::Missing) and
/// [`Damaged`](ObjectArchiveError::Damaged) are about the object; after the others a retry may
/// succeed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ObjectArchiveError {
    /// The object store answered that the object does not exist.
    #[error("segment {name} is missing")]
    Missing { name: String },
    /// The fetched bytes are not the bytes that were put.
    #[error("segment {name} is damaged: {why}")]
    Damaged { name: String, why: String },
    /// The object store is down, slow or full, or refuses the request.
    #[error("{0}")]
    Unavailable(String),
    /// A setting is invalid. The message names the setting.
    #[error("{0}")]
    Settings(String),
}

impl From<ObjectArchiveError> for ArchiveError {
    fn from(error: ObjectArchiveError) -> ArchiveError {
        match error {
            ObjectArchiveError::Missing { .. } | ObjectArchiveError::Damaged { .. } => {
                ArchiveError::Damaged(error.to_string())
            }
            ObjectArchiveError::Unavailable(_) | ObjectArchiveError::Settings(_) => {
                ArchiveError::Unavailable(error.to_string())
            }
        }
    }
}

/// Returns whether stored data differs from what was written, as opposed to being unavailable.
pub fn is_damage(error: &ArchiveError) -> bool {
    matches!(error, ArchiveError::Damaged(_) | ArchiveError::Store(StoreError::Damaged(_)))
}

/// Returns the root cause of an error.
fn root_of(error: &ObjectError) -> &(dyn StdError + 'static) {
    chain(error).last().expect("an error chain has at least one entry")
}

/// Iterates over an error and its causes.
fn chain(error: &ObjectError) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    let first: &(dyn StdError + 'static) = error;
    std::iter::successors(Some(first), |link| (*link).source())
}

/// Returns whether the request failed before any response arrived.
pub(crate) fn is_transport(error: &ObjectError) -> bool {
    chain(error).any(|link| link.is::<HttpError>())
}

/// Extracts status and S3 error code of an HTTP response, such as `(403, "403 Forbidden
/// (InvalidAccessKeyId)")`. Never includes the body: S3 repeats the signed request there, session
/// token included.
fn http_answer(text: &str) -> Option<(u16, String)> {
    let (_, rest) = text.split_once("status code: ")?;
    let (status, body) = rest.split_once(':').unwrap_or((rest, ""));
    let number = status.get(..3)?.parse().ok()?;
    Some(match code_in(body) {
        Some(code) => (number, format!("{} ({code})", status.trim())),
        None => (number, status.trim().to_owned()),
    })
}

/// Extracts the S3 error code of a response body.
fn code_in(body: &str) -> Option<&str> {
    let (_, rest) = body.split_once("<Code>")?;
    let (code, _) = rest.split_once("</Code>")?;
    let is_code =
        !code.is_empty() && code.len() <= 64 && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_code.then_some(code)
}

/// Returns the HTTP status of an error, if it has one.
pub(crate) fn status_of(error: &ObjectError) -> Option<u16> {
    http_answer(&root_of(error).to_string()).map(|(status, _)| status)
}

/// Returns whether a "not found" error is about the object. A missing bucket or a server that is
/// not S3 also answers 404: that is a wrong setting, not a lost object.
pub(crate) fn is_of_the_object(not_found: &ObjectError) -> bool {
    let text = root_of(not_found).to_string();
    http_answer(&text).is_none() || code_in(&text) == Some("NoSuchKey")
}

/// Describes an error briefly, without the response body.
pub(crate) fn in_words(error: &ObjectError) -> String {
    /// Maximum length of a message, in bytes. It bounds a log line, and how much of an unexpected
    /// response reaches the log.
    const MAX_BYTES: usize = 200;
    let text = root_of(error).to_string();
    if let Some((_, words)) = http_answer(&text) {
        return format!("it answered {words}");
    }
    if let Some(code) = code_in(&text) {
        return format!("it answered {code}");
    }
    // Cut at the first tag: the rest may be a response body with secrets.
    let plain = text.split('<').next().unwrap_or_default();
    plain[..plain.floor_char_boundary(MAX_BYTES)].trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generic(text: &str) -> ObjectError {
        ObjectError::Generic { store: "S3", source: text.to_owned().into() }
    }

    #[test]
    fn error_text_omits_request_fields_that_s3_repeats() {
        let error = generic(
            "Server returned non-2xx status code: 403 Forbidden: <?xml version=\"1.0\"?><Error><Code>SignatureDoesNotMatch\
             </Code><AWSAccessKeyId>AKIA</AWSAccessKeyId><CanonicalRequest>x-amz-security-token:tell-nobody</CanonicalRequest></Error>",
        );
        assert_eq!(in_words(&error), "it answered 403 Forbidden (SignatureDoesNotMatch)");
        assert_eq!(status_of(&error), Some(403));
        let error = generic("Server returned error response: <Error><Code>SlowDown</Code>secret</Error>");
        assert_eq!(in_words(&error), "it answered SlowDown");
        assert_eq!(in_words(&generic("cannot read <Secret>x</Secret>")), "cannot read");
    }

    #[test]
    fn response_without_body_is_reported_by_its_status() {
        assert_eq!(
            in_words(&generic("Server returned non-2xx status code: 503 Service Unavailable: ")),
            "it answered 503 Service Unavailable"
        );
        assert_eq!(
            in_words(&generic("No space left on device (os error 28)")),
            "No space left on device (os error 28)"
        );
    }

    #[test]
    fn not_found_counts_as_missing_object_only_with_its_key_error() {
        let answer = |body: &str| generic(&format!("status code: 404 Not Found: {body}"));
        assert!(is_of_the_object(&answer("<Error><Code>NoSuchKey</Code></Error>")));
        for body in ["<Error><Code>NoSuchBucket</Code></Error>", "<html>nothing here</html>", ""] {
            assert!(!is_of_the_object(&answer(body)), "{body}");
        }
        assert!(is_of_the_object(&generic("No such file or directory (os error 2)")));
    }
}
