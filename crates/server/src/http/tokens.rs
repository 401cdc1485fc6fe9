//! `POST /v1/tokens`

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use bluetick_wire::http::{ErrorBody, MintRequest, TokenBody};
use bluetick_wire::{BadInput, decode};

use super::extract::SmallPayload;
use super::operator::Operator;
use super::{login, reply};
use crate::app::App;
use crate::audit::{Act, Subject};
use crate::problem::Problem;

/// Issue a token for a user
///
/// Issues an access token for a user of the operator's own product, who needs no account here. The
/// server reserves the name: sign-up then refuses it and names that look like it. Requires the
/// admin key.
#[utoipa::path(
    post, path = "/v1/tokens", operation_id = "mint_token",
    tag = "accounts", request_body = MintRequest, security(("admin_key" = [])),
    responses((status = 201, description = "The access token", body = TokenBody),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(super) async fn mint(
    State(app): State<Arc<App>>,
    operator: Operator,
    SmallPayload(body): SmallPayload,
) -> Result<Response, Problem> {
    let request: MintRequest = decode(&body)?;
    let user = request.user()?;
    let ttl = request.ttl_s.map_or(app.token_ttl, Duration::from_secs);
    if ttl.is_zero() || ttl > app.max_token_ttl {
        let most = app.max_token_ttl.as_secs();
        return Err(BadInput::field("ttl_s", format_args!("must be between 1 and {most}")).into());
    }
    login::require_minting(&app)?;
    // Reserve the name before issuing the token. Otherwise a stranger could sign up with it.
    let _work = app.lifecycle.begin_work()?;
    app.store.reserve_name(user.clone(), app.clock.now()).await?;
    let (subject, minted) = (Subject::user(&user), login::mint(&app, user, ttl).await?);
    // If the audit log cannot be written, the token is discarded.
    operator.does(&app, Act::TokenMint, Some(subject)).await?;
    Ok(reply::json(StatusCode::CREATED, &minted))
}
