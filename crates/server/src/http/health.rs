//! `GET /healthz`, `GET /readyz`

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use bluetick_core::ports::Health;
use bluetick_wire::http::{HealthBody, ReadyBody};

use super::reply;
use crate::app::App;

/// Check liveness
///
/// Answers 200 while the process runs. It needs no token.
#[utoipa::path(
    get, path = "/healthz", tag = "operations",
    responses((status = 200, description = "The process is alive", body = HealthBody)),
)]
pub(super) async fn healthz() -> Response {
    reply::json(StatusCode::OK, &HealthBody { status: "ok" })
}

/// Check readiness
///
/// Answers 200 if the server accepts traffic. Answers 503 during shutdown and while the store
/// cannot write. It needs no token.
#[utoipa::path(
    get, path = "/readyz", tag = "operations",
    responses((status = 200, description = "The server is ready", body = ReadyBody),
              (status = 503, description = "The server is not ready; `reason` says why", body = ReadyBody)),
)]
pub(super) async fn readyz(State(app): State<Arc<App>>) -> Response {
    if !app.lifecycle.is_ready() {
        return reply::json(
            StatusCode::SERVICE_UNAVAILABLE,
            &ReadyBody::not_ready("the server is shutting down"),
        );
    }
    match app.store.health() {
        Health::Writable => reply::json(StatusCode::OK, &ReadyBody::ready()),
        Health::ReadOnly(why) => reply::json(StatusCode::SERVICE_UNAVAILABLE, &ReadyBody::not_ready(why)),
    }
}
