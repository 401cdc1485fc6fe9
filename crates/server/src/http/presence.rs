//! `GET /v1/conversations/{conversation_id}/presence`

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use bluetick_core::UserId;
use bluetick_wire::http::{ErrorBody, PresenceBody, PresencesBody};

use super::extract::{Caller, ConversationPath};
use super::reply;
use crate::app::App;
use crate::problem::Problem;

/// Of a conversation with more members than this, only those who are there are told, and no more than this.
const MANY_MEMBERS: usize = 100;

/// Of a large group so many who are there are looked at, until enough are found who show it.
const MOST_LOOKED_AT: usize = 1_000;

/// Who of a conversation is there, and when the others last were. Of a group of more than 100, only who is there, at
/// most 100 of them. Whoever hides it is shown as not there and never seen.
#[utoipa::path(
    get, path = "/v1/conversations/{conversation_id}/presence", operation_id = "show_presence",
    tag = "presence", security(("token" = [])),
    params(("conversation_id" = String, Path, description = "Of which conversation")),
    responses((status = 200, description = "The other members", body = PresencesBody),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(super) async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    ConversationPath(id): ConversationPath,
) -> Result<Response, Problem> {
    let view = app.chat.conversation(&caller.user, id).await?;
    let only_online = view.members.len() > MANY_MEMBERS;
    let others = view.members.iter().map(|member| &member.user).filter(|user| **user != caller.user);
    let wanted = others.filter(|user| !only_online || app.hub.sessions().is_online(user));
    let mut members = Vec::new();
    for user in wanted.take(MOST_LOOKED_AT) {
        let presence = of(&app, user).await?;
        // Being on a list of those who are there would tell of somebody who hides it.
        if presence.online || !only_online {
            members.push(presence);
        }
        if members.len() >= MANY_MEMBERS {
            break;
        }
    }
    Ok(reply::json(StatusCode::OK, &PresencesBody { members }))
}

/// What others are told of somebody.
pub(super) async fn of<'a>(app: &App, user: &'a UserId) -> Result<PresenceBody<'a>, Problem> {
    let profile = app.chat.profile(user).await?;
    Ok(PresenceBody::new(user, app.hub.sessions().is_online(user), profile))
}
