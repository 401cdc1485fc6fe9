//! `GET /v1/people`

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use bluetick_wire::http::{ErrorBody, PeopleBody, PeopleParameters};

use super::extract::Caller;
use super::reply;
use crate::app::App;
use crate::problem::Problem;

/// Find users or get display names
///
/// With `search`, finds users whose user_id, or a word of whose display name, starts with the text.
/// With `user_id`, returns the display names of the given users.
///
/// Only users with an account or a reserved name are found. While sign-up is closed, conversations
/// also accept other user ids. If the operator sets `server.people_search = false`, a search finds
/// only an exact user_id.
#[utoipa::path(
    get, path = "/v1/people", operation_id = "find_people",
    tag = "accounts", security(("token" = [])),
    params(("search" = Option<String>, Query, description = "The beginning of a name, not case-sensitive"),
           ("user_id" = Option<String>, Query, description = "A user to return, instead of `search`. Repeatable up to 100 times"),
           ("limit" = Option<u64>, Query, description = "The maximum number of users that `search` returns. Default: 10", minimum = 1, maximum = 50)),
    responses((status = 200, description = "The users found; with `user_id`, in the order of the request", body = PeopleBody),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(super) async fn find(
    State(app): State<Arc<App>>,
    _caller: Caller,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let people = match PeopleParameters::parse(query.as_deref().unwrap_or_default())? {
        PeopleParameters::Ids(ids) => app.store.people(ids).await?,
        PeopleParameters::Search { prefix, limit, .. } if app.settings.people_search => {
            app.store.find_people(&prefix, limit).await?
        }
        PeopleParameters::Search { id, .. } => app.store.people(id.into_iter().collect()).await?,
    };
    Ok(reply::json(StatusCode::OK, &PeopleBody::new(&people)))
}
