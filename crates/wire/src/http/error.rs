//! The one shape of an HTTP error.

use std::borrow::Cow;

use serde::Serialize;
use utoipa::ToSchema;

use crate::ErrorCode;

#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"error": {"code": "conversation_not_found", "message": "no such conversation"}}))]
pub struct ErrorBody<'a> {
    pub error: ErrorDetail<'a>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorDetail<'a> {
    /// For programs: one of a fixed table, which says what to do.
    pub code: &'a str,
    /// For people.
    #[schema(value_type = String)]
    pub message: Cow<'a, str>,
}

impl<'a> ErrorBody<'a> {
    pub fn new(code: ErrorCode, message: impl Into<Cow<'a, str>>) -> ErrorBody<'a> {
        ErrorBody { error: ErrorDetail { code: code.as_str(), message: message.into() } }
    }
}
