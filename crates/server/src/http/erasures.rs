//! `POST /v1/erasures`: the operator's own.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use bluetick_wire::decode;
use bluetick_wire::http::{ErasureRequest, ErrorBody, JobBegunBody};

use super::archive;
use super::extract::SmallPayload;
use super::operator::Operator;
use crate::app::App;
use crate::archivist::Task;
use crate::audit::Act;
use crate::problem::Problem;

/// Delete the content of messages for good, hot and cold alike. Their places stay, with who wrote when. Works without an
/// archive too. `GET /v1/archive/jobs/{job_id}` reports completion: with `finished_at` and
/// without `error`, no file of the data directory holds the content any more. The answer comes when
/// the request is durable: after a crash the server finishes it.
#[utoipa::path(
    post, path = "/v1/erasures", operation_id = "erase_messages", tag = "operations",
    request_body = ErasureRequest, security(("admin_key" = [])),
    responses((status = 202, description = "It is accepted and survives a crash", body = JobBegunBody),
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
