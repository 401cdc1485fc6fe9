//! `POST /v1/erasures`. Requires the admin key.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use bluetick_wire::decode;
use bluetick_wire::http::{ErasureRequest, ErrorBody, JobBegunBody};

use super::archive;
use super::extract::SmallPayload;
use super::operator::Operator;
use crate::app::App;
use crate::archiver::Task;
use crate::audit::Act;
use crate::problem::Problem;

/// Erase the content of messages
///
/// Starts a job that permanently deletes the content of messages, in the hot store and in the
/// archive. It also works with a disabled archive. The rows keep their seq, sender and times, with
/// the content type `erased`.
///
/// The server answers when the request is durable, and finishes the job after a crash. `GET
/// /v1/archive/jobs/{job_id}` reports completion: once it has `finished_at` and no `error`, no file
/// in the data directory holds the content. Requires the admin key.
#[utoipa::path(
    post, path = "/v1/erasures", operation_id = "erase_messages", tag = "operations",
    request_body = ErasureRequest, security(("admin_key" = [])),
    responses((status = 202, description = "The erasure is accepted and durable", body = JobBegunBody),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(super) async fn erase(
    State(app): State<Arc<App>>,
    operator: Operator,
    SmallPayload(body): SmallPayload,
) -> Result<Response, Problem> {
    let request: ErasureRequest = decode(&body)?;
    let erase = request.erase()?;
    let subject = Some(erase.scope.clone().into());
    archive::begin(&app, &operator, Act::Erase, subject, Task::Erase(erase)).await
}
