//! `GET /v1/conversations/{conversation_id}/presence`

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use bluetick_core::UserId;
use bluetick_wire::http::{ErrorBody, PresenceBody, PresencesBody};
use futures_util::future::{join, join_all, try_join_all};

use super::extract::{Caller, ConversationPath};
use super::reply;
use crate::app::App;
use crate::problem::Problem;

/// Of a conversation with more members than this, only those who are there are told, and no more than this.
const MANY_MEMBERS: usize = 100;

/// Of a large group so many who are there are looked at, until enough are found who show it; and of those who are not
/// here, so many are asked after at the other nodes.
const MOST_LOOKED_AT: usize = 1_000;

/// So many are looked at side by side.
const AT_ONCE: usize = 100;

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
    let others = view.members.iter().map(|member| &member.user).filter(|user| **user != caller.user);
    let members = if view.members.len() > MANY_MEMBERS {
        who_is_there(&app, others).await?
    } else {
        of_all(&app, &others.collect::<Vec<_>>()).await?
    };
    Ok(reply::json(StatusCode::OK, &PresencesBody { members }))
}

/// Those of a crowd who are there and show it, as many as are told of: first those at this node, who cost nothing to
/// find.
async fn who_is_there<'a>(
    app: &App,
    crowd: impl Iterator<Item = &'a UserId>,
) -> Result<Vec<PresenceBody<'a>>, Problem> {
    let (mut here, mut elsewhere): (Vec<_>, Vec<_>) =
        crowd.partition(|user| app.hub.sessions().is_online(user));
    here.truncate(MOST_LOOKED_AT);
    elsewhere.truncate(MOST_LOOKED_AT);
    let mut found = Vec::new();
    for users in here.chunks(AT_ONCE).chain(elsewhere.chunks(AT_ONCE)) {
        let online = join_all(users.iter().map(|user| app.whereabouts.is_online(user))).await;
        let there: Vec<_> =
            users.iter().zip(online).filter(|(_, online)| *online).map(|(user, _)| *user).collect();
        // Being on a list of those who are there would tell of somebody who hides it.
        found.extend(of_all(app, &there).await?.into_iter().filter(|presence| presence.online));
        if found.len() >= MANY_MEMBERS {
            break;
        }
    }
    found.truncate(MANY_MEMBERS);
    Ok(found)
}

/// What others are told of these people.
pub(super) async fn of_all<'a>(app: &App, users: &[&'a UserId]) -> Result<Vec<PresenceBody<'a>>, Problem> {
    try_join_all(users.iter().map(|user| of(app, user))).await
}

/// What others are told of somebody.
pub(super) async fn of<'a>(app: &App, user: &'a UserId) -> Result<PresenceBody<'a>, Problem> {
    let (profile, online) = join(app.chat.profile(user), app.whereabouts.is_online(user)).await;
    Ok(PresenceBody::new(user, online, &profile?))
}
