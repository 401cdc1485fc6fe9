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

/// Find people by the beginning of their user_id or of a word in their display name, or get the display
/// names of user ids. Finds people with an account or a reserved name. While sign-up is closed,
/// conversations also accept other user ids. With `server.people_search = false`, only a whole
/// user_id is found.
#[utoipa::path(
    get, path = "/v1/people", operation_id = "find_people",
    tag = "accounts", security(("token" = [])),
    params(("search" = Option<String>, Query, description = "How the name begins; upper and lower case are alike"),
           ("user_id" = Option<String>, Query, description = "Whose name; may be given up to 100 times, in place of `search`"),
           ("limit" = Option<u64>, Query, description = "With `search`; 10 where it is not given", minimum = 1, maximum = 50)),
    responses((status = 200, description = "Whoever was found; of ids in the same order", body = PeopleBody),
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
