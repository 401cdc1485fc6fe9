//! `POST /v1/signup`

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use bluetick_core::names::check_new_name;
use bluetick_core::{Refusal, User, UserId};
use bluetick_wire::http::{ErrorBody, SignupRequest, TokenBody};
use bluetick_wire::{BadInput, ErrorCode, decode};

use super::extract::{CallerAddress, SmallPayload};
use super::{login, reply};
use crate::app::App;
use crate::problem::Problem;

/// Create an account
///
/// Creates a user with a password and returns an access token. Reserved names, and names that are
/// in use or look like one in use, are refused. Attempts are limited per address. The operator can
/// disable sign-up.
#[utoipa::path(
    post, path = "/v1/signup", tag = "accounts", request_body = SignupRequest,
    responses((status = 201, description = "The account was created", body = TokenBody),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(super) async fn signup(
    State(app): State<Arc<App>>,
    CallerAddress(address): CallerAddress,
    SmallPayload(body): SmallPayload,
) -> Result<Response, Problem> {
    if !app.signup {
        return Err(Problem::new(ErrorCode::SignupDisabled, "sign-up is disabled on this server"));
    }
    login::require_minting(&app)?;
    app.address_limits.login(address)?;
    let request: SignupRequest = decode(&body)?;
    let id = request.user()?;
    check_new_name(&id).map_err(|invalid| BadInput::field("user_id", invalid))?;
    // Before any look-up, so that a weak password does not reveal whether a name is taken.
    check_password(&app, &id, &request.password)?;
    if app.reserved_names.contains(&id) {
        return Err(Problem::new(ErrorCode::NameReserved, "this user_id is reserved; choose another"));
    }
    // A user without an account may have this name: a user of the operator's own product.
    // Checked before the hash too, because the hash is expensive.
    require_free(&app, &id).await?;
    let _work = app.lifecycle.begin_work()?;
    let user = prepare(&app, request).await?;
    // The name may have come into use during the hash.
    require_free(&app, &id).await?;
    app.store.create_user(user.clone()).await?;
    Ok(reply::json(StatusCode::CREATED, &login::token_for(&app, user.id).await?))
}

/// Creates a user for the operator.
pub(super) async fn create(app: &App, request: SignupRequest) -> Result<User, Problem> {
    let _work = app.lifecycle.begin_work()?;
    let user = prepare(app, request).await?;
    app.store.create_user(user.clone()).await?;
    Ok(user)
}

/// Fails with `user_exists` if a user without an account has this name.
async fn require_free(app: &App, id: &UserId) -> Result<(), Problem> {
    match app.chat.is_taken(id).await? {
        true => Err(Refusal::UserExists.into()),
        false => Ok(()),
    }
}

/// Checks the request and hashes the password. Does not store the user.
async fn prepare(app: &App, request: SignupRequest) -> Result<User, Problem> {
    let id = request.user()?;
    let display_name = request.display_name()?;
    check_password(app, &id, &request.password)?;
    // Checked before the hash, which is expensive. The store checks again when it writes.
    if app.store.user(&id).await?.is_some() {
        return Err(Refusal::UserExists.into());
    }
    let password_hash = hash(app, request.password).await?;
    let created_at = app.clock.now();
    Ok(User { id, display_name, password_hash: Some(password_hash), created_at })
}

pub(super) fn check_password(app: &App, user: &UserId, password: &str) -> Result<(), BadInput> {
    let checked = app.passwords.rules().check(user.as_str(), password);
    checked.map_err(|weak| BadInput::field("password", weak))
}

pub(super) async fn hash(app: &App, password: String) -> Result<Arc<str>, Problem> {
    let passwords = Arc::clone(&app.passwords);
    let hash = app.password_pool.run(move || passwords.hash(&password)).await?;
    Ok(hash.into())
}
