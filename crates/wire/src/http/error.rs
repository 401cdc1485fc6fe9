//! The body of every HTTP error.

use std::borrow::Cow;

use serde::Serialize;
use utoipa::ToSchema;

use crate::ErrorCode;

/// The body of every error response.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"error": {"code": "conversation_not_found", "message": "no such conversation"}}))]
pub struct ErrorBody<'a> {
    /// The error.
    pub error: ErrorDetail<'a>,
}

/// An error code and its description.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorDetail<'a> {
    /// The error code, for programs. One of `x-error-codes`, which also lists what to do about it.
    pub code: &'a str,
    /// A description of the error, for people. Its text may change.
    #[schema(value_type = String)]
    pub message: Cow<'a, str>,
}

impl<'a> ErrorBody<'a> {
    pub fn new(code: ErrorCode, message: impl Into<Cow<'a, str>>) -> ErrorBody<'a> {
        ErrorBody { error: ErrorDetail { code: code.as_str(), message: message.into() } }
    }
}
