//! `GET /v1/me`, `PATCH /v1/me`

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use bluetick_core::ProfileUpdate;
use bluetick_wire::decode;
use bluetick_wire::http::{ErrorBody, ProfileBody, ProfileRequest};

use super::extract::{Caller, Payload};
use super::reply;
use crate::app::App;
use crate::problem::Problem;

/// Who the token says you are, and what you set for yourself.
#[utoipa::path(
    get, path = "/v1/me", operation_id = "show_me",
    tag = "presence", security(("token" = [])),
    responses((status = 200, description = "You", body = ProfileBody),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(super) async fn show(State(app): State<Arc<App>>, caller: Caller) -> Result<Response, Problem> {
    let profile = app.chat.profile(&caller.user).await?;
    Ok(reply::json(StatusCode::OK, &ProfileBody::new(&caller.user, profile)))
}

/// Show or hide whether you are there. What is not named stays as it is.
#[utoipa::path(
    patch, path = "/v1/me", operation_id = "change_me",
    tag = "presence", request_body = ProfileRequest, security(("token" = [])),
    responses((status = 200, description = "You, as you are now", body = ProfileBody),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(super) async fn change(
    State(app): State<Arc<App>>,
    caller: Caller,
    Payload(body): Payload,
) -> Result<Response, Problem> {
    let ProfileRequest { show_presence } = decode(&body)?;
    let _work = app.lifecycle.begin_work()?;
    let hides_presence = show_presence.map(|shows| !shows);
    let update = ProfileUpdate { user: caller.user.clone(), last_seen_at: None, hides_presence };
    let profile = app.chat.update_profile(update).await?;
    if hides_presence.is_some() {
        app.hub.presence_changed(&caller.user);
    }
    Ok(reply::json(StatusCode::OK, &ProfileBody::new(&caller.user, profile)))
}
