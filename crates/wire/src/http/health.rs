//! What is asked about the server itself.

use serde::Serialize;
use utoipa::ToSchema;

#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"status": "ok"}))]
pub struct HealthBody {
    pub status: &'static str,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"status": "ready", "reason": null}))]
pub struct ReadyBody {
    /// `ready` or `not_ready`.
    pub status: &'static str,
    /// Why it is not ready.
    #[schema(required)]
    pub reason: Option<String>,
}

impl ReadyBody {
    pub fn ready() -> ReadyBody {
        ReadyBody { status: "ready", reason: None }
    }

    pub fn not_ready(reason: impl Into<String>) -> ReadyBody {
        ReadyBody { status: "not_ready", reason: Some(reason.into()) }
    }
}

/// What a server offers.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"version": "0.1.0", "signup": true, "login": true, "content_bytes": 65536, "password_min_length": 8}))]
pub struct ServerBody {
    pub version: &'static str,
    /// Whether people can make an account.
    pub signup: bool,
    /// Whether people log in here. Otherwise their tokens come from the operator's own product.
    pub login: bool,
    /// The largest content of one message, in bytes; 0: there is no limit.
    pub content_bytes: usize,
    /// The minimum length of a new password, in bytes.
    pub password_min_length: usize,
}
