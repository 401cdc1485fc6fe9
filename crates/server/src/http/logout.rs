//! `POST /v1/logout`, `DELETE /v1/users/{user_id}/sessions`

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use bluetick_core::{Revoked, UserId};
use bluetick_wire::http::{ErrorBody, LogoutRequest};

use super::extract::{Caller, SmallPayload, UserPath};
use super::operator::Operator;
use crate::app::App;
use crate::audit::{Act, Subject};
use crate::problem::Problem;

/// Log out
///
/// Revokes the token of this call and closes the connections that use it. With `everywhere`,
/// revokes all tokens issued to the user so far. The body is optional.
#[utoipa::path(
    post, path = "/v1/logout", tag = "accounts", security(("token" = [])),
    request_body(content = Option<LogoutRequest>, description = "Optional"),
    responses((status = 204, description = "The token is revoked"),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(super) async fn logout(
    State(app): State<Arc<App>>,
    caller: Caller,
    SmallPayload(body): SmallPayload,
) -> Result<Response, Problem> {
    let request = LogoutRequest::parse(&body)?;
    let _work = app.lifecycle.begin_work()?;
    let what = match request.everywhere {
        // The clock of the issuer may be ahead of this one.
        true => Revoked::Through(app.clock.now().max(caller.token.issued_at)),
        false => Revoked::Token(caller.token),
    };
    app.revocation_check.revoke(&caller.user, what).await?;
    Ok(nothing())
}

/// Revoke all tokens of a user
///
/// Revokes every token issued to the user so far and closes its connections. The user needs no
/// account here and can log in again. To prevent that, also set a new password, or stop issuing
/// tokens. Requires the admin key.
#[utoipa::path(
    delete, path = "/v1/users/{user_id}/sessions", operation_id = "revoke_sessions",
    tag = "accounts", security(("admin_key" = [])),
    params(("user_id" = String, Path, description = "The user; an account is not needed")),
    responses((status = 204, description = "All tokens of the user are revoked"),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(super) async fn revoke(
    State(app): State<Arc<App>>,
    operator: Operator,
    UserPath(user): UserPath,
) -> Result<Response, Problem> {
    let _work = app.lifecycle.begin_work()?;
    let begun = operator.begins(&app, Act::UserRevoke, Some(Subject::user(&user))).await?;
    begun.ended(everywhere(&app, &user).await).await?;
    Ok(nothing())
}

/// Revokes all tokens issued to the user so far, including tokens of open connections whose issuer
/// has a clock ahead of this one.
pub(super) async fn everywhere(app: &App, user: &UserId) -> Result<(), Problem> {
    let mut moment = app.clock.now();
    app.hub.sessions().each_of(user, &mut |session| moment = moment.max(session.token.issued_at));
    Ok(app.revocation_check.revoke(user, Revoked::Through(moment)).await?)
}

fn nothing() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}
