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

/// Log out: the token of this call is void from now on, and connections that were opened with it are closed. With
/// `everywhere`, so are all others of the user that were issued until now.
#[utoipa::path(
    post, path = "/v1/logout", tag = "accounts", security(("token" = [])),
    request_body(content = Option<LogoutRequest>, description = "May be left out"),
    responses((status = 204, description = "The token is void"),
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
        // Whoever issued it may have a clock that is ahead.
        true => Revoked::Through(app.clock.now().max(caller.token.issued_at)),
        false => Revoked::Token(caller.token),
    };
    app.gate.revoke(&caller.user, what).await?;
    Ok(nothing())
}

/// Log a user out everywhere: every token issued until now is void, and the user's connections are closed. The user can
/// log in again; who should not needs another password as well, or no more tokens from the operator's own product.
#[utoipa::path(
    delete, path = "/v1/users/{user_id}/sessions", operation_id = "revoke_sessions",
    tag = "accounts", security(("admin_key" = [])),
    params(("user_id" = String, Path, description = "Whose; an account is not needed")),
    responses((status = 204, description = "All tokens of the user are void"),
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

/// Makes all tokens of the user void that were issued until now, or, by a clock that is ahead, to a connection that is
/// open.
pub(super) async fn everywhere(app: &App, user: &UserId) -> Result<(), Problem> {
    let mut moment = app.clock.now();
    app.hub.sessions().each_of(user, &mut |session| moment = moment.max(session.token.issued_at));
    Ok(app.gate.revoke(user, Revoked::Through(moment)).await?)
}

fn nothing() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}
