//! `POST` and `GET /v1/conversations/{conversation_id}/messages`

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use bluetick_wire::decode;
use bluetick_wire::http::{ErrorBody, PageBody, PageParameters, SendRequestBody, SentBody};
use tokio::time::Instant;

use super::extract::{Caller, ConversationPath, Payload};
use super::reply;
use crate::app::App;
use crate::problem::Problem;

/// Send a message
///
/// Stores the message durably and pushes it to the members. It also advances the read state of the
/// sender.
///
/// The call is idempotent by `message_id`: a resend returns the seq of the first attempt. This
/// holds within the dedupe window, and later if the client sets `retry` and `after_seq`. Members
/// only; rate and size limits apply.
#[utoipa::path(
    post, path = "/v1/conversations/{conversation_id}/messages", operation_id = "send_message",
    tag = "messages",
    request_body = SendRequestBody, security(("token" = [])),
    params(("conversation_id" = String, Path, description = "The id of the conversation")),
    responses((status = 201, description = "The message is stored", body = SentBody),
              (status = 200, description = "An earlier attempt already stored the message", body = SentBody),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(super) async fn send(
    State(app): State<Arc<App>>,
    caller: Caller,
    ConversationPath(id): ConversationPath,
    Payload(body): Payload,
) -> Result<Response, Problem> {
    let started = Instant::now();
    let sent = store(&app, &caller, id, &body).await;
    match &sent {
        Ok(response) => {
            app.metrics.acknowledged(started.elapsed());
            // New messages are counted at commit.
            if response.status() == StatusCode::OK {
                app.metrics.duplicates.inc();
            }
        }
        Err(_) => {
            app.metrics.refusals.inc();
        }
    }
    sent
}

async fn store(
    app: &App,
    caller: &Caller,
    id: bluetick_core::ConversationId,
    body: &[u8],
) -> Result<Response, Problem> {
    let request = decode::<SendRequestBody<'_>>(body)?.into_request(id, None)?;
    caller.budget.send()?;
    let _work = app.lifecycle.begin_work()?;
    let message_id = request.message_id.clone();
    let appended = app.chat.send(&caller.user, request).await?;
    let status = if appended.duplicate { StatusCode::OK } else { StatusCode::CREATED };
    Ok(reply::written(status, SentBody::new(id, &message_id, &appended).to_json()))
}

/// Read message history
///
/// Returns one page of messages: newest first, or oldest first with `after_seq`. `before_seq` and
/// `after_seq` exclude each other. Members only; a member sees messages since it joined.
///
/// A page may have fewer than `limit` messages if they are large; continue with the cursor. Unknown
/// parameters are ignored.
#[utoipa::path(
    get, path = "/v1/conversations/{conversation_id}/messages", operation_id = "read_history",
    tag = "messages", security(("token" = [])),
    params(("conversation_id" = String, Path, description = "The id of the conversation"),
           ("before_seq" = Option<u64>, Query, description = "Return messages below this seq, newest first", minimum = 1, maximum = 9007199254740991i64),
           ("after_seq" = Option<u64>, Query, description = "Return messages above this seq, oldest first", minimum = 0, maximum = 9007199254740991i64),
           ("limit" = Option<u64>, Query, description = "The maximum number of messages. Default: 20", minimum = 1, maximum = 100)),
    responses((status = 200, description = "The page", body = PageBody),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(super) async fn history(
    State(app): State<Arc<App>>,
    caller: Caller,
    ConversationPath(id): ConversationPath,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let PageParameters { from, limit } = PageParameters::parse(query.as_deref().unwrap_or_default())?;
    let page = app.chat.history(&caller.user, id, from, limit).await?;
    Ok(reply::written(StatusCode::OK, PageBody::new(&page, from).to_json()))
}
