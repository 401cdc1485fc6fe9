//! `POST /v1/login`

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use bluetick_core::{Timestamp, UserId};
use bluetick_wire::http::{ErrorBody, LoginRequest, TokenBody};
use bluetick_wire::{ErrorCode, decode};

use super::extract::{CallerAddress, SmallPayload};
use super::reply;
use crate::app::App;
use crate::problem::Problem;

/// Log in with a password
///
/// Returns an access token. An unknown user and a wrong password give the same error. Attempts are
/// limited per user_id and per address. A server that only verifies tokens answers
/// `login_disabled`.
#[utoipa::path(
    post, path = "/v1/login", tag = "accounts", request_body = LoginRequest,
    responses((status = 200, description = "The access token", body = TokenBody),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(super) async fn login(
    State(app): State<Arc<App>>,
    CallerAddress(address): CallerAddress,
    SmallPayload(body): SmallPayload,
) -> Result<Response, Problem> {
    require_minting(&app)?;
    app.address_limits.login(address)?;
    let request: LoginRequest = decode(&body)?;
    let user = request.user()?;
    app.budgets.of(&user).login()?;
    // Taken before the password is read. A revocation during the check, such as a password change,
    // then also covers this token.
    let issued_at = app.revocation_check.issue_at(&user).await?;
    let stored = app.store.user(&user).await?.and_then(|user| user.password_hash);
    let passwords = Arc::clone(&app.passwords);
    // Same work and same answer for an unknown user and for a wrong password.
    let matches =
        app.password_pool.run(move || passwords.verify(stored.as_deref(), &request.password)).await?;
    if !matches {
        return Err(Problem::new(ErrorCode::InvalidCredentials, "user and password do not match"));
    }
    Ok(reply::json(StatusCode::OK, &mint_as_issued(&app, user, app.token_ttl, issued_at)?))
}

/// Fails with `login_disabled` if this server only verifies tokens.
pub(super) fn require_minting(app: &App) -> Result<(), Problem> {
    if app.tokens.can_mint() { Ok(()) } else { Err(cannot_mint()) }
}

pub(super) async fn token_for(app: &App, user: UserId) -> Result<TokenBody, Problem> {
    mint(app, user, app.token_ttl).await
}

/// Mints a token that no earlier revocation covers, not even one in the same millisecond.
pub(super) async fn mint(app: &App, user: UserId, ttl: Duration) -> Result<TokenBody, Problem> {
    let issued_at = app.revocation_check.issue_at(&user).await?;
    mint_as_issued(app, user, ttl, issued_at)
}

fn mint_as_issued(
    app: &App,
    user: UserId,
    ttl: Duration,
    issued_at: Timestamp,
) -> Result<TokenBody, Problem> {
    let minted = app.tokens.mint_as_issued(&user, ttl, app.clock.now(), issued_at);
    let minted = minted.map_err(|_| cannot_mint())?;
    Ok(TokenBody { token: minted.token, user_id: user, expires_at: minted.expires_at })
}

fn cannot_mint() -> Problem {
    Problem::new(ErrorCode::LoginDisabled, "this server checks tokens and issues none")
}
