//! `GET /v1/conversations`

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use bluetick_core::{InboxRequest, UserId};
use bluetick_wire::http::{ErrorBody, InboxPageBody, InboxParameters, PresenceBody};

use super::extract::Caller;
use super::{presence, reply};
use crate::app::App;
use crate::problem::Problem;

/// List the inbox
///
/// Returns one page of the caller's conversations: pinned ones first, archived ones last, and
/// within each group the latest activity first.
///
/// A conversation that gets a message during paging moves to the front and is on no later page. All
/// others are on exactly one page, unless the caller changes their settings meanwhile. Unknown
/// parameters are ignored.
#[utoipa::path(
    get, path = "/v1/conversations", operation_id = "list_conversations",
    tag = "conversations", security(("token" = [])),
    params(("limit" = Option<u64>, Query, description = "The maximum number of conversations. Default: 20", minimum = 1, maximum = 100),
           ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page"),
           ("archived" = Option<bool>, Query, description = "True returns only archived conversations, false only the others. Default: all")),
    responses((status = 200, description = "The page", body = InboxPageBody),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let InboxParameters { after, limit, filter } =
        InboxParameters::parse(query.as_deref().unwrap_or_default())?;
    let page = app.chat.inbox(InboxRequest { user: caller.user, after, limit, filter }).await?;
    let peers: Vec<&UserId> = page.entries.iter().filter_map(|entry| entry.peer.as_ref()).collect();
    let presences = presence::of_all(&app, &peers).await?;
    let presences: HashMap<&UserId, PresenceBody<'_>> = peers.into_iter().zip(presences).collect();
    Ok(reply::json(StatusCode::OK, &InboxPageBody::new(&page, |peer| presences[peer])))
}
