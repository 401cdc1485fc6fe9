//! `GET /v1/server`

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use bluetick_wire::http::ServerBody;

use super::reply;
use crate::app::App;

/// What this server offers, before anybody has said who they are: a page asks it to show only what can be done.
#[utoipa::path(
    get, path = "/v1/server", operation_id = "show_server", tag = "accounts",
    responses((status = 200, description = "What it offers", body = ServerBody)),
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
