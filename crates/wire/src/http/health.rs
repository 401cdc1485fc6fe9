//! What load balancers and supervisors ask.

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
