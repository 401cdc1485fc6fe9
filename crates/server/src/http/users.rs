//! `POST /v1/users`, `GET /v1/users/{user_id}`, `PUT /v1/users/{user_id}/password`. All require the
//! admin key.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use bluetick_core::ports::UserUpdate;
use bluetick_core::{Refusal, User, UserId};
use bluetick_wire::decode;
use bluetick_wire::http::{ErrorBody, NewPasswordRequest, NewUserRequest, UserBody};

use super::extract::{SmallPayload, UserPath};
use super::operator::Operator;
use super::{logout, reply, signup};
use crate::app::App;
use crate::audit::{Act, Subject};
use crate::problem::Problem;

/// Create an account as the operator
///
/// Creates a user with a password, even if sign-up is disabled. Requires the admin key.
#[utoipa::path(
    post, path = "/v1/users", operation_id = "create_user",
    tag = "accounts", request_body = NewUserRequest, security(("admin_key" = [])),
    responses((status = 201, description = "The account was created", body = UserBody),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(super) async fn create(
    State(app): State<Arc<App>>,
    operator: Operator,
    SmallPayload(body): SmallPayload,
) -> Result<Response, Problem> {
    let request: NewUserRequest = decode(&body)?;
    let subject = Subject::user(&request.user()?);
    let begun = operator.begins(&app, Act::UserCreate, Some(subject)).await?;
    let user = begun.ended(signup::create(&app, request).await).await?;
    Ok(reply::json(StatusCode::CREATED, &UserBody::from(&user)))
}

/// Get an account
///
/// Returns the account of a user. Requires the admin key.
#[utoipa::path(
    get, path = "/v1/users/{user_id}", operation_id = "show_user",
    tag = "accounts", security(("admin_key" = [])),
    params(("user_id" = String, Path, description = "The user")),
    responses((status = 200, description = "The account", body = UserBody),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(super) async fn show(
    State(app): State<Arc<App>>,
    _operator: Operator,
    UserPath(user): UserPath,
) -> Result<Response, Problem> {
    let user = app.store.user(&user).await?.ok_or(Refusal::NoSuchUser)?;
    Ok(reply::json(StatusCode::OK, &UserBody::from(&user)))
}

/// Set the password of a user
///
/// Sets a new password, revokes all tokens of the user and closes its connections. Requires the
/// admin key.
#[utoipa::path(
    put, path = "/v1/users/{user_id}/password", operation_id = "set_password",
    tag = "accounts", request_body = NewPasswordRequest,
    security(("admin_key" = [])), params(("user_id" = String, Path, description = "The user")),
    responses((status = 200, description = "The account", body = UserBody),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(super) async fn set_password(
    State(app): State<Arc<App>>,
    operator: Operator,
    UserPath(id): UserPath,
    SmallPayload(body): SmallPayload,
) -> Result<Response, Problem> {
    let NewPasswordRequest { password } = decode(&body)?;
    signup::check_password(&app, &id, &password)?;
    let begun = operator.begins(&app, Act::UserPassword, Some(Subject::user(&id))).await?;
    let user = begun.ended(change_password(&app, id, password).await).await?;
    Ok(reply::json(StatusCode::OK, &UserBody::from(&user)))
}

async fn change_password(app: &App, id: UserId, password: String) -> Result<User, Problem> {
    let _work = app.lifecycle.begin_work()?;
    let user = app.store.user(&id).await?.ok_or(Refusal::NoSuchUser)?;
    let password_hash = Some(signup::hash(app, password).await?);
    app.store
        .update_user(UserUpdate { id, display_name: None, password_hash: password_hash.clone() })
        .await?;
    // After the update, so that a concurrent log-in with the old password is revoked too.
    logout::everywhere(app, &user.id).await?;
    Ok(User { password_hash, ..user })
}
