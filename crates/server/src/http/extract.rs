//! Extractors: the caller, the body and the path parameters of a request.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Request, header};
use bluetick_auth::TokenError;
use bluetick_core::{ConversationId, TokenFacts, UserId};
use bluetick_wire::{BadInput, ErrorCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};

use super::service::Peer;
use crate::app::App;
use crate::limits::UserBudget;
use crate::problem::Problem;
use crate::settings::{at_most, seconds};

/// The authenticated user of a request, within the rate limit.
pub(crate) struct Caller {
    pub user: UserId,
    /// The token of this call.
    pub token: TokenFacts,
    pub budget: UserBudget,
}

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Caller, Problem> {
        let token = bearer(&parts.headers)?;
        let claims = app.tokens.verify(token, app.clock.now()).map_err(|error| unauthenticated(&error))?;
        app.revocation_check.check(&claims).await?;
        let budget = app.budgets.of(&claims.user);
        budget.request()?;
        Ok(Caller { user: claims.user, token: claims.token, budget })
    }
}

/// The address whose limits apply to a request: the client, or a trusted proxy that names none.
pub(crate) struct CallerAddress(pub IpAddr);

impl FromRequestParts<Arc<App>> for CallerAddress {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<CallerAddress, Infallible> {
        let Peer(peer) =
            parts.extensions.get().copied().expect("the listener adds the peer address to every request");
        Ok(CallerAddress(app.address_limits.caller(peer.ip(), &parts.headers)))
    }
}

pub(super) fn bearer(headers: &HeaderMap) -> Result<&str, Problem> {
    let missing = || {
        Problem::new(
            ErrorCode::Unauthenticated,
            "this call needs an Authorization header: Bearer, then the token",
        )
    };
    let value =
        headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).ok_or_else(missing)?;
    match value.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Ok(token.trim()),
        _ => Err(missing()),
    }
}

/// The error for an invalid token. It reveals only whether the token has expired.
fn unauthenticated(error: &TokenError) -> Problem {
    match error {
        TokenError::Expired => Problem::new(ErrorCode::TokenExpired, "the token has expired"),
        _ => Problem::new(ErrorCode::Unauthenticated, "the token is not valid"),
    }
}

/// Timeout for the body when `limits.body_seconds` is 0, which disables the limit.
const FOREVER: Duration = Duration::MAX;

/// The complete body, within its limits of size and time.
pub(crate) struct Payload(pub Bytes);

impl FromRequest<Arc<App>> for Payload {
    type Rejection = Problem;

    async fn from_request(request: Request<Body>, app: &Arc<App>) -> Result<Payload, Problem> {
        Payload::within(at_most(app.limits.body_bytes), request, app).await
    }
}

/// A body with a small size limit, for calls that need little input: log-in, sign-up, log-out and
/// operator calls.
pub(crate) struct SmallPayload(pub Bytes);

impl SmallPayload {
    /// Maximum size of the body in bytes. Bounds the memory that an unauthenticated client can use.
    const MAX_BYTES: usize = 16 * 1024;
}

impl FromRequest<Arc<App>> for SmallPayload {
    type Rejection = Problem;

    async fn from_request(request: Request<Body>, app: &Arc<App>) -> Result<SmallPayload, Problem> {
        let limit = at_most(app.limits.body_bytes).min(SmallPayload::MAX_BYTES);
        Payload::within(limit, request, app).await.map(|Payload(body)| SmallPayload(body))
    }
}

impl Payload {
    async fn within(limit: usize, request: Request<Body>, app: &App) -> Result<Payload, Problem> {
        let too_large =
            || Problem::new(ErrorCode::BodyTooLarge, format!("the body may have at most {limit} bytes"));
        let announced = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        if announced.and_then(|length| length.parse().ok()).is_some_and(|length: usize| length > limit) {
            return Err(too_large());
        }
        let arriving = Limited::new(request.into_body(), limit).collect();
        let time = seconds(app.limits.body_seconds).unwrap_or(FOREVER);
        let arrived = tokio::time::timeout(time, arriving)
            .await
            .map_err(|_| Problem::new(ErrorCode::RequestTimeout, "the body took too long to arrive"))?;
        match arrived {
            Ok(body) => Ok(Payload(body.to_bytes())),
            Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
            Err(_) => Err(BadInput::new("the body ended too early").into()),
        }
    }
}

/// The conversation in the path. An invalid id gets the same error as a conversation that the
/// caller is not a member of.
pub(crate) struct ConversationPath(pub ConversationId);

impl FromRequestParts<Arc<App>> for ConversationPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<ConversationPath, Problem> {
        let text = path_part(parts, app, "conversation_id").await?;
        text.parse().map(ConversationPath).map_err(|_| Problem::no_such_conversation())
    }
}

/// The user in the path.
pub(crate) struct UserPath(pub UserId);

impl FromRequestParts<Arc<App>> for UserPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<UserPath, Problem> {
        let text = path_part(parts, app, "user_id").await?;
        let invalid = |invalid| BadInput::field("user_id", invalid).into();
        // Operations on existing users also accept ids that an earlier version allowed.
        UserId::from_stored(&text).map(UserPath).map_err(invalid)
    }
}

/// The id of a job in the path. The job need not exist.
pub(crate) struct JobPath(pub String);

impl FromRequestParts<Arc<App>> for JobPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<JobPath, Problem> {
        path_part(parts, app, "job_id").await.map(JobPath)
    }
}

/// The name of a file in the path.
pub(crate) struct FilePath(pub String);

impl FromRequestParts<Arc<App>> for FilePath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<FilePath, Problem> {
        path_part(parts, app, "file").await.map(FilePath)
    }
}

async fn path_part(parts: &mut Parts, app: &Arc<App>, name: &str) -> Result<String, Problem> {
    let not_text = |_| Problem::from(BadInput::new("the path is not UTF-8"));
    let params = RawPathParams::from_request_parts(parts, app).await.map_err(not_text)?;
    let value = params.iter().find(|(param, _)| *param == name).map(|(_, value)| value.to_string());
    Ok(value.expect("the path template of the route has this parameter"))
}
