//! `GET /v1/conversations/{conversation_id}/status`

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use bluetick_wire::http::{ErrorBody, ReceiptsBody, StatusBody, StatusParameters, StatusesBody};

use super::extract::{Caller, ConversationPath};
use super::reply;
use crate::app::App;
use crate::problem::Problem;

/// Get read states or receipt counts
///
/// Returns the read state of each member. With `seq`, it returns only the receipt counts of that
/// message, at a cost that does not grow with the group. Members only.
///
/// Other members do not see what a member reads while its read receipts are off. Notices (`system`)
/// and `erased` messages have receipts. For a `void`, a `seq` above the head, or one before the
/// caller joined, the server answers 404 `message_not_found`.
#[utoipa::path(
    get, path = "/v1/conversations/{conversation_id}/status", operation_id = "show_status",
    tag = "ticks", security(("token" = [])),
    params(("conversation_id" = String, Path, description = "The id of the conversation"),
           ("seq" = Option<u64>, Query, description = "Count the receipts of this message", minimum = 1, maximum = 9007199254740991i64)),
    responses((status = 200, description = "The read states of all members; with `seq`, the receipt counts", body = StatusBody),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(super) async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    ConversationPath(id): ConversationPath,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    match StatusParameters::parse(query.as_deref().unwrap_or_default())?.seq {
        Some(seq) => {
            let receipts = app.chat.receipt_counts(&caller.user, id, seq).await?;
            let body = StatusBody::OneMessage(ReceiptsBody::new(seq, receipts));
            Ok(reply::json(StatusCode::OK, &body))
        }
        None => {
            let statuses = app.chat.statuses(&caller.user, id).await?;
            let body = StatusBody::Everybody(StatusesBody::from(&statuses));
            Ok(reply::json(StatusCode::OK, &body))
        }
    }
}
