//! `POST /v1/backups`. Requires the admin key.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use bluetick_wire::decode;
use bluetick_wire::http::{BackupRequest, ErrorBody, JobBegunBody};

use super::archive::begin;
use super::extract::SmallPayload;
use super::operator::Operator;
use crate::app::App;
use crate::archiver::Task;
use crate::audit::Act;
use crate::problem::Problem;

/// Create a backup
///
/// Starts a job that copies a consistent snapshot of the store while the server keeps working. The
/// content of archived messages is not copied. `GET /v1/archive/jobs/{job_id}` reports the
/// progress. Only one job runs at a time. Requires the admin key.
#[utoipa::path(
    post, path = "/v1/backups", operation_id = "make_backup", tag = "operations",
    request_body = BackupRequest, security(("admin_key" = [])),
    responses((status = 202, description = "The job has started", body = JobBegunBody),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(super) async fn make(
    State(app): State<Arc<App>>,
    operator: Operator,
    SmallPayload(body): SmallPayload,
) -> Result<Response, Problem> {
    let request: BackupRequest = decode(&body)?;
    begin(&app, &operator, Act::Backup, None, Task::Backup(request.backup()?)).await
}
