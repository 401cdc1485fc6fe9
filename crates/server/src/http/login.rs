//! `POST /v1/login`

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use bluetick_core::UserId;
use bluetick_wire::http::{ErrorBody, LoginRequest, TokenBody};
use bluetick_wire::{ErrorCode, decode};

use super::extract::SmallPayload;
use super::reply;
use crate::app::App;
use crate::problem::Problem;

/// Get a token for a user and their password.
#[utoipa::path(
    post, path = "/v1/login", tag = "accounts", request_body = LoginRequest,
    responses((status = 200, description = "A token", body = TokenBody),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(super) async fn login(
    State(app): State<Arc<App>>,
    SmallPayload(body): SmallPayload,
) -> Result<Response, Problem> {
    require_minting(&app)?;
    let request: LoginRequest = decode(&body)?;
    let user = request.user()?;
    app.budgets.of(&user).login()?;
    let stored = app.store.user(&user).await?.and_then(|user| user.password_hash);
    let passwords = Arc::clone(&app.passwords);
    // The same work and the same answer whether the user is unknown or the password wrong.
    let matches = app.desk.serve(move || passwords.verify(stored.as_deref(), &request.password)).await?;
    if !matches {
        return Err(Problem::new(ErrorCode::InvalidCredentials, "user and password do not match"));
    }
    Ok(reply::json(StatusCode::OK, &token_for(&app, user)?))
}

/// A server that can only check tokens has nothing to give for a password.
pub(super) fn require_minting(app: &App) -> Result<(), Problem> {
    if app.tokens.can_mint() { Ok(()) } else { Err(cannot_mint()) }
}

pub(super) fn token_for(app: &App, user: UserId) -> Result<TokenBody, Problem> {
    mint(app, user, app.token_ttl)
}

pub(super) fn mint(app: &App, user: UserId, ttl: std::time::Duration) -> Result<TokenBody, Problem> {
    let minted = app.tokens.mint(&user, ttl, app.clock.now()).map_err(|_| cannot_mint())?;
    Ok(TokenBody { token: minted.token, user_id: user, expires_at: minted.expires_at })
}

fn cannot_mint() -> Problem {
    Problem::new(ErrorCode::LoginDisabled, "this server checks tokens and issues none")
}
