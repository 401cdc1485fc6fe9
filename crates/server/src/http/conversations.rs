//! `POST /v1/conversations`, `GET /v1/conversations/{conversation_id}`

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use bluetick_core::ConversationView;
use bluetick_wire::http::{
    ConversationBody, ConversationDetailBody, ErrorBody, OpenConversation, OpenConversationRequest,
};

use super::extract::{Caller, ConversationPath, Payload};
use super::reply;
use crate::app::App;
use crate::problem::Problem;

/// Start a conversation, or find the direct one that exists.
#[utoipa::path(
    post, path = "/v1/conversations", operation_id = "open_conversation",
    tag = "conversations", request_body = OpenConversationRequest,
    security(("token" = [])),
    responses((status = 201, description = "It is new", body = ConversationBody),
              (status = 200, description = "It existed already", body = ConversationBody),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(super) async fn open(
    State(app): State<Arc<App>>,
    caller: Caller,
    Payload(body): Payload,
) -> Result<Response, Problem> {
    let request = OpenConversation::decode(&body)?;
    if let OpenConversation::Group { members, .. } = &request {
        caller.budget.people(members.len())?;
    }
    let _work = app.lifecycle.begin_work()?;
    let opened = match request {
        OpenConversation::Direct { peer } => app.chat.open_direct(&caller.user, peer).await?,
        OpenConversation::Group { title, members } => {
            app.chat.open_group(&caller.user, title, members).await?
        }
    };
    let status = if opened.created { StatusCode::CREATED } else { StatusCode::OK };
    Ok(reply::json(status, &ConversationBody::new(&opened.view, &caller.user)))
}

/// A conversation, who is in it, and what it is to you.
#[utoipa::path(
    get, path = "/v1/conversations/{conversation_id}", operation_id = "show_conversation",
    tag = "conversations", security(("token" = [])),
    params(("conversation_id" = String, Path, description = "Which")),
    responses((status = 200, description = "The conversation", body = ConversationDetailBody),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(super) async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    ConversationPath(id): ConversationPath,
) -> Result<Response, Problem> {
    // The head is the one that unread was counted up to; the members are at least those it tells of.
    let entry = app.chat.inbox_entry(&caller.user, id).await?;
    let view = app.chat.conversation(&caller.user, id).await?;
    let view = ConversationView { conversation: entry.conversation.clone(), ..view };
    let conversation = ConversationBody::new(&view, &caller.user);
    Ok(reply::json(StatusCode::OK, &ConversationDetailBody { conversation, own: (&entry).into() }))
}
