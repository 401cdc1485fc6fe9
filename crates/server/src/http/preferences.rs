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

/// Change conversation settings
///
/// Mutes, pins or archives a conversation for the caller, or turns read receipts off. Only the
/// caller's own devices receive these settings. Omitted fields keep their value.
#[utoipa::path(
    patch, path = "/v1/conversations/{conversation_id}/settings", operation_id = "change_conversation_settings",
    tag = "conversations", request_body = PreferenceRequest, security(("token" = [])),
    params(("conversation_id" = String, Path, description = "The id of the conversation")),
    responses((status = 200, description = "The updated inbox entry", body = InboxEntryBody),
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
    let entry = app.chat.set_preferences(&caller.user, id, request.into()).await?;
    let presence = match &entry.peer {
        Some(peer) => Some(presence::of(&app, peer).await?),
        None => None,
    };
    Ok(reply::json(StatusCode::OK, &InboxEntryBody::new(&entry, presence)))
}
