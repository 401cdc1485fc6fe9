//! `POST /v1/conversations/{conversation_id}/members`, `DELETE …/members/{user_id}`

use std::collections::HashSet;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use bluetick_wire::decode;
use bluetick_wire::http::{AddMembersRequest, ConversationBody, ErrorBody};

use super::extract::{Caller, ConversationPath, Payload, UserPath};
use super::reply;
use crate::app::App;
use crate::limits::Quota;
use crate::problem::Problem;

/// Add members to a group
///
/// Any member can add users. New members see messages from their joining on. Users who are members
/// already are ignored. While sign-up is open, all users must be known.
///
/// Limits apply to users per call, members per group, and invitations per user and hour.
#[utoipa::path(
    post, path = "/v1/conversations/{conversation_id}/members", operation_id = "add_members",
    tag = "conversations",
    request_body = AddMembersRequest, security(("token" = [])),
    params(("conversation_id" = String, Path, description = "The id of the group")),
    responses((status = 200, description = "The updated group", body = ConversationBody),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(super) async fn add(
    State(app): State<Arc<App>>,
    caller: Caller,
    ConversationPath(id): ConversationPath,
    Payload(body): Payload,
) -> Result<Response, Problem> {
    let request: AddMembersRequest = decode(&body)?;
    caller.budget.people(request.count())?;
    let users = request.users()?;
    let _work = app.lifecycle.begin_work()?;
    let view = app.chat.conversation(&caller.user, id).await?;
    // The caller is a member, so this excludes the caller too.
    let joining = users.iter().filter(|user| !view.members.contains(user)).collect::<HashSet<_>>();
    let quota = Quota { conversations: 0, invited: joining.len() };
    caller.budget.spend(quota)?;
    let added = app.chat.add_members(&caller.user, id, users).await;
    if added.is_err() {
        caller.budget.refund(quota);
    }
    let view = added?;
    Ok(reply::json(StatusCode::OK, &ConversationBody::new(&view, &caller.user)))
}

/// Remove a member or leave a group
///
/// A member can remove itself; only admins can remove others. If no admin remains, the member who
/// joined first becomes the admin. Removed members lose access immediately.
#[utoipa::path(
    delete, path = "/v1/conversations/{conversation_id}/members/{user_id}", operation_id = "remove_member",
    tag = "conversations",
    security(("token" = [])),
    params(("conversation_id" = String, Path, description = "The id of the group"),
           ("user_id" = String, Path, description = "The member to remove; the caller's own id to leave")),
    responses((status = 204, description = "The member is removed"),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(super) async fn remove(
    State(app): State<Arc<App>>,
    caller: Caller,
    ConversationPath(id): ConversationPath,
    UserPath(user): UserPath,
) -> Result<StatusCode, Problem> {
    let _work = app.lifecycle.begin_work()?;
    app.chat.remove_member(&caller.user, id, user).await?;
    Ok(StatusCode::NO_CONTENT)
}
