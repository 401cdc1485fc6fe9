//! `GET /v1/me`, `PATCH /v1/me`

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use bluetick_core::ports::UserUpdate;
use bluetick_core::{Profile, ProfileUpdate, Refusal, StoreError, UserId};
use bluetick_wire::decode;
use bluetick_wire::http::{ErrorBody, ProfileBody, ProfileRequest};

use super::extract::{Caller, Payload};
use super::reply;
use crate::app::App;
use crate::problem::Problem;

/// Get your profile
///
/// Returns the user of the token and its profile.
#[utoipa::path(
    get, path = "/v1/me", operation_id = "show_me",
    tag = "presence", security(("token" = [])),
    responses((status = 200, description = "The profile", body = ProfileBody),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(super) async fn show(State(app): State<Arc<App>>, caller: Caller) -> Result<Response, Problem> {
    let profile = app.chat.profile(&caller.user).await?;
    answer(&app, &caller.user, &profile).await
}

/// Change your profile
///
/// Sets the display name, and whether other users see the presence of the caller. Omitted fields
/// keep their value.
#[utoipa::path(
    patch, path = "/v1/me", operation_id = "change_me",
    tag = "presence", request_body = ProfileRequest, security(("token" = [])),
    responses((status = 200, description = "The updated profile", body = ProfileBody),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(super) async fn change(
    State(app): State<Arc<App>>,
    caller: Caller,
    Payload(body): Payload,
) -> Result<Response, Problem> {
    let request: ProfileRequest = decode(&body)?;
    let display_name = request.display_name()?;
    let _work = app.lifecycle.begin_work()?;
    if let Some(name) = display_name {
        rename(&app, &caller.user, name).await?;
    }
    let hides_presence = request.show_presence.map(|shows| !shows);
    let update = ProfileUpdate { hides_presence, ..ProfileUpdate::of(caller.user.clone()) };
    let profile = app.chat.update_profile(update).await?;
    if hides_presence.is_some() {
        app.hub.presence_changed(&caller.user);
    }
    answer(&app, &caller.user, &profile).await
}

/// Sets the display name. Users of the operator's own product may have no row yet, so this creates
/// one.
async fn rename(app: &App, id: &UserId, name: Arc<str>) -> Result<(), StoreError> {
    let update = || UserUpdate { id: id.clone(), display_name: Some(name.clone()), password_hash: None };
    match app.store.update_user(update()).await {
        Err(StoreError::Refused(Refusal::NoSuchUser)) => {
            app.store.reserve_name(id.clone(), app.clock.now()).await?;
            app.store.update_user(update()).await
        }
        done => done,
    }
}

async fn answer(app: &App, user: &UserId, profile: &Profile) -> Result<Response, Problem> {
    let person = app.store.people(vec![user.clone()]).await?.pop();
    let display_name = person.as_ref().and_then(|person| person.display_name.as_deref());
    Ok(reply::json(StatusCode::OK, &ProfileBody::new(user, display_name, profile)))
}
