//! `GET /v1/archive`, `GET /v1/archive/jobs/{job_id}`, `POST /v1/archive/run`, `POST
//! /v1/archive/verify`, `POST /v1/archive/restore`. All require the admin key.

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
use crate::archiver::{JobOrigin, Task};
use crate::audit::{Act, Subject};
use crate::problem::Problem;

/// Get the archive status
///
/// Returns the amount of archived data, the disk use of the hot store, and the running and the last
/// job. Requires the admin key.
#[utoipa::path(
    get, path = "/v1/archive", operation_id = "show_archive", tag = "operations", security(("admin_key" = [])),
    responses((status = 200, description = "The status of the archive", body = ArchiveBody),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(super) async fn show(State(app): State<Arc<App>>, _operator: Operator) -> Result<Response, Problem> {
    Ok(reply::json(StatusCode::OK, &app.archiver.status().await?))
}

/// Get a job
///
/// Returns the progress or the result of an archive, erasure or backup job. The server remembers
/// the last 16 ended jobs, until it stops. Requires the admin key.
#[utoipa::path(
    get, path = "/v1/archive/jobs/{job_id}", operation_id = "show_archive_job", tag = "operations",
    security(("admin_key" = [])), params(("job_id" = String, Path, description = "The id of the job")),
    responses((status = 200, description = "The job", body = JobBody),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(super) async fn show_job(
    State(app): State<Arc<App>>,
    _operator: Operator,
    JobPath(job_id): JobPath,
) -> Result<Response, Problem> {
    let job = app.archiver.job(&job_id);
    let job = job.ok_or_else(|| Problem::new(ErrorCode::NotFound, "no running or recent job has this id"))?;
    Ok(reply::json(StatusCode::OK, &job))
}

/// Archive old messages now
///
/// Starts a job that finishes interrupted erasures, erases messages past their retention, and moves
/// messages that are old enough to the archive. It then deletes unreferenced objects and frees disk
/// space. The body is optional.
///
/// Only one job runs at a time; a second one gets `archive_busy`. Requires the admin key.
#[utoipa::path(
    post, path = "/v1/archive/run", operation_id = "run_archive", tag = "operations",
    request_body = Option<ArchiveRunRequest>, security(("admin_key" = [])),
    responses((status = 202, description = "The job has started", body = JobBegunBody),
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

/// Verify the archive
///
/// Starts a job that reads every segment and compares it with its rows, counts and checksums. Only
/// one job runs at a time. Requires the admin key.
#[utoipa::path(
    post, path = "/v1/archive/verify", operation_id = "verify_archive", tag = "operations",
    security(("admin_key" = [])),
    responses((status = 202, description = "The job has started", body = JobBegunBody),
              (status = "default", description = "An error", body = ErrorBody)),
)]
pub(super) async fn verify(State(app): State<Arc<App>>, operator: Operator) -> Result<Response, Problem> {
    begin(&app, &operator, Act::ArchiveVerify, None, Task::Verify).await
}

/// Restore conversations from the archive
///
/// Starts a job that moves one conversation, or all, back to the hot store. A restored conversation
/// stays there until an archive run names it. Only one job runs at a time. Requires the admin key.
#[utoipa::path(
    post, path = "/v1/archive/restore", operation_id = "restore_from_archive", tag = "operations",
    request_body = RestoreRequest, security(("admin_key" = [])),
    responses((status = 202, description = "The job has started", body = JobBegunBody),
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

/// Returns the audit details of a task: for a backup, its destination and whether it includes keys.
fn detail_of(task: &Task) -> Value {
    match task {
        Task::Backup(backup) => json!({"to": backup.to, "keys": backup.keys}),
        _ => Value::Null,
    }
}

/// Starts a job and returns its id, or the error if the job fails before its first report. The
/// audit log records only that the job started. Its outcome is in `GET /v1/archive/jobs/{job_id}`
/// and in the server log.
pub(super) async fn begin(
    app: &App,
    operator: &Operator,
    act: Act,
    subject: Option<Subject>,
    task: Task,
) -> Result<Response, Problem> {
    let _work = app.lifecycle.begin_work()?;
    let begun = operator.begins_with(app, act, subject, detail_of(&task)).await?;
    let job = async { Ok(app.archiver.start(task, JobOrigin::Operator)?.first_report().await?) }.await;
    let detail = job.as_ref().map_or(json!({}), |job_id| json!({ "job_id": job_id }));
    let job_id = begun.with(detail).ended(job).await?;
    Ok(reply::json(StatusCode::ACCEPTED, &JobBegunBody { job_id }))
}
