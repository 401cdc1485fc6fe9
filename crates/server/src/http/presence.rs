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

/// Number of members above which only online members are returned, and the maximum number of them.
/// A larger value makes one call cost more reads.
const MANY_MEMBERS: usize = 100;

/// Maximum number of members of a large group that are checked for presence, separately for users
/// connected to this node and all others. It bounds the cost of a call; a lower value misses more
/// online members.
const MAX_CHECKED_MEMBERS: usize = 1_000;

/// Number of members whose presence is read concurrently. A larger value lets one call put more
/// load on the store.
const MAX_CONCURRENT_READS: usize = 100;

/// Get the presence of members
///
/// Returns whether each other member is online, and when it last was. For conversations of more
/// than 100 members, it returns at most 100 online members. Users who hide their presence appear
/// offline and never seen, and are not in the list of a large group. Members only.
#[utoipa::path(
    get, path = "/v1/conversations/{conversation_id}/presence", operation_id = "show_presence",
    tag = "presence", security(("token" = [])),
    params(("conversation_id" = String, Path, description = "The id of the conversation")),
    responses((status = 200, description = "The presence of the other members", body = PresencesBody),
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
        online_members(&app, others).await?
    } else {
        of_all(&app, &others.collect::<Vec<_>>()).await?
    };
    Ok(reply::json(StatusCode::OK, &PresencesBody { members }))
}

/// Returns the members of a large group who are online and show it, at most [`MANY_MEMBERS`].
/// Checks users connected to this node first, because they are cheap to find.
async fn online_members<'a>(
    app: &App,
    members: impl Iterator<Item = &'a UserId>,
) -> Result<Vec<PresenceBody<'a>>, Problem> {
    let (mut here, mut elsewhere): (Vec<_>, Vec<_>) =
        members.partition(|user| app.hub.sessions().is_online(user));
    here.truncate(MAX_CHECKED_MEMBERS);
    elsewhere.truncate(MAX_CHECKED_MEMBERS);
    let mut found = Vec::new();
    for users in here.chunks(MAX_CONCURRENT_READS).chain(elsewhere.chunks(MAX_CONCURRENT_READS)) {
        let online = join_all(users.iter().map(|user| app.presence_directory.is_online(user))).await;
        let there: Vec<_> =
            users.iter().zip(online).filter(|(_, online)| *online).map(|(user, _)| *user).collect();
        // Excludes users who hide their presence: being in the list would reveal it.
        found.extend(of_all(app, &there).await?.into_iter().filter(|presence| presence.online));
        if found.len() >= MANY_MEMBERS {
            break;
        }
    }
    found.truncate(MANY_MEMBERS);
    Ok(found)
}

/// Returns the presence of several users, as others see it.
pub(super) async fn of_all<'a>(app: &App, users: &[&'a UserId]) -> Result<Vec<PresenceBody<'a>>, Problem> {
    try_join_all(users.iter().map(|user| of(app, user))).await
}

/// Returns the presence of a user, as others see it.
pub(super) async fn of<'a>(app: &App, user: &'a UserId) -> Result<PresenceBody<'a>, Problem> {
    let (profile, online) = join(app.chat.profile(user), app.presence_directory.is_online(user)).await;
    Ok(PresenceBody::new(user, online, &profile?))
}
