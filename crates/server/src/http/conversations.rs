//! `POST /v1/conversations`, `GET /v1/conversations/{conversation_id}`

use std::collections::HashSet;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use bluetick_core::chat::ChatError;
use bluetick_core::{ConversationId, ConversationWithMembers, Refusal, StoreError, UserId};
use bluetick_wire::http::{
    ConversationBody, ConversationDetailBody, ErrorBody, OpenConversation, OpenConversationRequest,
};

use super::extract::{Caller, ConversationPath, Payload};
use super::reply;
use crate::app::App;
use crate::limits::Quota;
use crate::problem::Problem;

/// Open a direct conversation or create a group
///
/// A direct conversation is unique per pair of users: if it exists, the call returns it. The other
/// user does not see it before the first message. Every group request creates a new group, with the
/// caller as its admin.
///
/// While sign-up is open, all members must be known users. Limits apply to the number of group
/// members, and to new conversations and invitations per user. Opening an existing direct
/// conversation does not count.
#[utoipa::path(
    post, path = "/v1/conversations", operation_id = "open_conversation",
    tag = "conversations", request_body = OpenConversationRequest,
    security(("token" = [])),
    responses((status = 201, description = "The conversation was created", body = ConversationBody),
              (status = 200, description = "The direct conversation already existed", body = ConversationBody),
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
    let quota = Quota { conversations: 1, invited: invited(&request, &caller.user) };
    if let OpenConversation::Direct { peer } = &request
        && let Some(view) = existing(&app, &caller.user, peer).await?
    {
        return Ok(reply::json(StatusCode::OK, &ConversationBody::new(&view, &caller.user)));
    }
    caller.budget.spend(quota)?;
    let opened = match request {
        OpenConversation::Direct { peer } => app.chat.open_direct(&caller.user, peer).await,
        OpenConversation::Group { title, members } => app.chat.open_group(&caller.user, title, members).await,
    };
    if !matches!(&opened, Ok(opened) if opened.created) {
        caller.budget.refund(quota);
    }
    let opened = opened?;
    let status = if opened.created { StatusCode::CREATED } else { StatusCode::OK };
    Ok(reply::json(status, &ConversationBody::new(&opened.view, &caller.user)))
}

/// Returns the number of members that the request adds to a group, without the creator.
fn invited(request: &OpenConversation, user: &UserId) -> usize {
    match request {
        OpenConversation::Direct { .. } => 0,
        OpenConversation::Group { members, .. } => {
            members.iter().filter(|member| *member != user).collect::<HashSet<_>>().len()
        }
    }
}

/// Returns the direct conversation of the two users, if it exists. Opening it again costs no quota.
async fn existing(
    app: &App,
    user: &UserId,
    peer: &UserId,
) -> Result<Option<ConversationWithMembers>, Problem> {
    match app.chat.conversation(user, ConversationId::direct(user, peer)).await {
        Ok(view) => Ok(Some(view)),
        Err(ChatError::Store(StoreError::Refused(Refusal::NotAMember))) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Get a conversation
///
/// Returns the conversation, its members, and the settings and read state of the caller. Members
/// only.
#[utoipa::path(
    get, path = "/v1/conversations/{conversation_id}", operation_id = "show_conversation",
    tag = "conversations", security(("token" = [])),
    params(("conversation_id" = String, Path, description = "The id of the conversation")),
    responses((status = 200, description = "The conversation", body = ConversationDetailBody),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(super) async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    ConversationPath(id): ConversationPath,
) -> Result<Response, Problem> {
    // Takes the head from the inbox entry, so that it matches the unread count. The members are
    // read later, so they are at least as new.
    let entry = app.chat.inbox_entry(&caller.user, id).await?;
    let view = app.chat.conversation(&caller.user, id).await?;
    let view = ConversationWithMembers { conversation: entry.conversation.clone(), ..view };
    let conversation = ConversationBody::new(&view, &caller.user);
    Ok(reply::json(StatusCode::OK, &ConversationDetailBody { conversation, own: (&entry).into() }))
}
