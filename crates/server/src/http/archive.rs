//! `GET /v1/archive`, `GET /v1/archive/jobs/{job_id}`, `POST /v1/archive/run`, `POST /v1/archive/verify`,
//! `POST /v1/archive/restore`: the operator's own.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use bluetick_wire::http::{ArchiveBody, ArchiveRunRequest, ErrorBody, JobBegunBody, JobBody, RestoreRequest};
use bluetick_wire::{ErrorCode, decode};
use serde_json::{Value, json};

use super::extract::{JobPath, SmallPayload};
use super::operator::Operator;
use super::reply;
use crate::app::App;
use crate::archivist::{Asker, Task};
use crate::audit::{Act, Subject};
use crate::problem::Problem;

/// Look at the archive: what lies where, and which job is under way.
#[utoipa::path(
    get, path = "/v1/archive", operation_id = "show_archive", tag = "operations", security(("admin_key" = [])),
    responses((status = 200, description = "The archive", body = ArchiveBody),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(super) async fn show(State(app): State<Arc<App>>, _operator: Operator) -> Result<Response, Problem> {
    Ok(reply::json(StatusCode::OK, &app.archivist.status().await?))
}

/// Look at a job of the archive. The last ones are remembered until the server stops.
#[utoipa::path(
    get, path = "/v1/archive/jobs/{job_id}", operation_id = "show_archive_job", tag = "operations",
    security(("admin_key" = [])), params(("job_id" = String, Path, description = "Which")),
    responses((status = 200, description = "The job", body = JobBody),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(super) async fn show_job(
    State(app): State<Arc<App>>,
    _operator: Operator,
    JobPath(job_id): JobPath,
) -> Result<Response, Problem> {
    let job = app.archivist.job(&job_id);
    let job = job.ok_or_else(|| Problem::new(ErrorCode::NotFound, "no such job is remembered"))?;
    Ok(reply::json(StatusCode::OK, &job))
}

/// Move what is old enough to the archive now. The body may be left out.
#[utoipa::path(
    post, path = "/v1/archive/run", operation_id = "run_archive", tag = "operations",
    request_body = Option<ArchiveRunRequest>, security(("admin_key" = [])),
    responses((status = 202, description = "It has begun", body = JobBegunBody),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(super) async fn run(
    State(app): State<Arc<App>>,
    operator: Operator,
    SmallPayload(body): SmallPayload,
) -> Result<Response, Problem> {
    let request: ArchiveRunRequest = if body.is_empty() { Default::default() } else { decode(&body)? };
    let run = request.run()?;
    let subject = run.only.map(Subject::conversation);
    begin(&app, &operator, Act::ArchiveRun, subject, Task::Run(run)).await
}

/// Read every segment of the archive and compare it with the rows.
#[utoipa::path(
    post, path = "/v1/archive/verify", operation_id = "verify_archive", tag = "operations",
    security(("admin_key" = [])),
    responses((status = 202, description = "It has begun", body = JobBegunBody),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(super) async fn verify(State(app): State<Arc<App>>, operator: Operator) -> Result<Response, Problem> {
    begin(&app, &operator, Act::ArchiveVerify, None, Task::Verify).await
}

/// Bring a conversation back to the hot store, where it stays until a run names it; or all of them.
#[utoipa::path(
    post, path = "/v1/archive/restore", operation_id = "restore_from_archive", tag = "operations",
    request_body = RestoreRequest, security(("admin_key" = [])),
    responses((status = 202, description = "It has begun", body = JobBegunBody),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(super) async fn restore(
    State(app): State<Arc<App>>,
    operator: Operator,
    SmallPayload(body): SmallPayload,
) -> Result<Response, Problem> {
    let request: RestoreRequest = decode(&body)?;
    let conversation = request.conversation()?;
    let subject = conversation.map(Subject::conversation);
    begin(&app, &operator, Act::ArchiveRestore, subject, Task::Restore(conversation)).await
}

/// Where a backup goes and whether the keys go along.
fn detail_of(task: &Task) -> Value {
    match task {
        Task::Backup(backup) => json!({"to": backup.to, "keys": backup.keys}),
        _ => Value::Null,
    }
}

/// Begins a job, and tells at once what makes it impossible. What is written down as done is that it was begun: its end is
/// told by `GET /v1/archive/jobs/{job_id}` and the log.
pub(super) async fn begin(
    app: &App,
    operator: &Operator,
    act: Act,
    subject: Option<Subject>,
    task: Task,
) -> Result<Response, Problem> {
    let _work = app.lifecycle.begin_work()?;
    let begun = operator.begins_with(app, act, subject, detail_of(&task)).await?;
    let job = async { Ok(app.archivist.begin(task, Asker::Operator)?.first_word().await?) }.await;
    let detail = job.as_ref().map_or(json!({}), |job_id| json!({ "job_id": job_id }));
    let job_id = begun.with(detail).ended(job).await?;
    Ok(reply::json(StatusCode::ACCEPTED, &JobBegunBody { job_id }))
}
