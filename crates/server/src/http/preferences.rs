//! `PATCH /v1/conversations/{conversation_id}/settings`

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use bluetick_wire::decode;
use bluetick_wire::http::{ErrorBody, InboxEntryBody, PreferenceRequest};

use super::extract::{Caller, ConversationPath, Payload};
use super::{presence, reply};
use crate::app::App;
use crate::problem::Problem;

/// Mute, pin or archive a conversation for yourself, or stop telling the others what you read. What is not named stays
/// as it is.
#[utoipa::path(
    patch, path = "/v1/conversations/{conversation_id}/settings", operation_id = "change_conversation_settings",
    tag = "conversations", request_body = PreferenceRequest, security(("token" = [])),
    params(("conversation_id" = String, Path, description = "Which conversation")),
    responses((status = 200, description = "Its line of the inbox as it is now", body = InboxEntryBody),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(super) async fn change(
    State(app): State<Arc<App>>,
    caller: Caller,
    ConversationPath(id): ConversationPath,
    Payload(body): Payload,
) -> Result<Response, Problem> {
    let request: PreferenceRequest = decode(&body)?;
    let _work = app.lifecycle.begin_work()?;
    let entry = app.chat.prefer(&caller.user, id, request.into()).await?;
    let presence = match &entry.peer {
        Some(peer) => Some(presence::of(&app, peer).await?),
        None => None,
    };
    Ok(reply::json(StatusCode::OK, &InboxEntryBody::new(&entry, presence)))
}
