//! Health, readiness, and the features of the server.

use serde::Serialize;
use utoipa::ToSchema;

/// The process is alive.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"status": "ok"}))]
pub struct HealthBody {
    /// Always `ok`.
    pub status: &'static str,
}

/// Whether the server accepts traffic.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"status": "ready", "reason": null}))]
pub struct ReadyBody {
    /// `ready` or `not_ready`.
    pub status: &'static str,
    /// Why the server is not ready; null when it is.
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

/// The features and limits of a server.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"version": "0.1.0", "signup": true, "login": true, "content_bytes": 65536, "password_min_length": 8}))]
pub struct ServerBody {
    /// The version of the server.
    pub version: &'static str,
    /// Whether users can create an account (`POST /v1/signup`).
    pub signup: bool,
    /// Whether users can log in with a password (`POST /v1/login`). If false, tokens come from the
    /// operator's own product.
    pub login: bool,
    /// The maximum size of the content of one message, in bytes; 0 means no limit.
    pub content_bytes: usize,
    /// The minimum length of a new password, in bytes.
    pub password_min_length: usize,
}
