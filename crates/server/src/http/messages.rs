//! `POST /v1/conversations/{conversation_id}/messages` and `GET` of the same

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

/// Send a message. Sending it again with the same message_id is safe and finds the first one's place.
#[utoipa::path(
    post, path = "/v1/conversations/{conversation_id}/messages", operation_id = "send_message",
    tag = "messages",
    request_body = SendRequestBody, security(("token" = [])),
    params(("conversation_id" = String, Path, description = "To which conversation")),
    responses((status = 201, description = "It is stored", body = SentBody),
              (status = 200, description = "It was stored before; this is its place", body = SentBody),
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
            // A new one was counted when it was committed.
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

/// One page of history, newest first; with `after_seq`, oldest first. A page may hold fewer than `limit` messages when
/// they are large; go on with the cursor. Parameters that are not described are passed over.
#[utoipa::path(
    get, path = "/v1/conversations/{conversation_id}/messages", operation_id = "read_history",
    tag = "messages", security(("token" = [])),
    params(("conversation_id" = String, Path, description = "Of which conversation"),
           ("before_seq" = Option<u64>, Query, description = "Newest first, starting just below", minimum = 1, maximum = 9007199254740991i64),
           ("after_seq" = Option<u64>, Query, description = "Oldest first, starting just above", minimum = 0, maximum = 9007199254740991i64),
           ("limit" = Option<u64>, Query, description = "20 where it is not given", minimum = 1, maximum = 100)),
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
