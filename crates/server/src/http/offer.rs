//! `GET /v1/server`

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use bluetick_wire::http::ServerBody;

use super::reply;
use crate::app::App;

/// Get the features of the server
///
/// Returns what clients need before log-in: whether sign-up and log-in are enabled, and the limits
/// of content and passwords. It needs no token.
#[utoipa::path(
    get, path = "/v1/server", operation_id = "show_server", tag = "accounts",
    responses((status = 200, description = "The features and limits", body = ServerBody)),
)]
pub(super) async fn show(State(app): State<Arc<App>>) -> Response {
    let body = ServerBody {
        version: env!("CARGO_PKG_VERSION"),
        signup: app.signup,
        login: app.tokens.can_mint(),
        content_bytes: app.limits.content_bytes,
        password_min_length: app.passwords.rules().min_bytes,
    };
    reply::json(StatusCode::OK, &body)
}
