//! One archive run: resume erasures, expire, move, sweep, free disk space.

use std::time::Instant;

use bluetick_core::ports::{ArchiveError, ArchiveRun, Progress, RunReport};

use super::erase::{finish, resume};
use super::move_out::move_out;
use super::port::ArchiveRows;
use super::{expire, must_be_in_place, sweep};

/// Runs all steps and counts the outcome. Errors with `Off`, without a change, if the settings name
/// no archive and no erasure is pending or due.
pub async fn run<R: ArchiveRows>(
    rows: &mut R,
    request: &ArchiveRun,
    progress: &dyn Progress,
) -> Result<RunReport, ArchiveError> {
    if let Some(only) = request.only {
        rows.conversation(only).await?;
    }
    rows.state().count_run();
    let outcome = run_steps(rows, request, progress).await;
    let paused = rows.state().count_outcome(&outcome);
    // `run_steps` has recorded a complete run.
    if let (Err(_), Some(paused)) = (&outcome, paused) {
        rows.remember(paused).await;
    }
    outcome
}

async fn run_steps<R: ArchiveRows>(
    rows: &mut R,
    request: &ArchiveRun,
    progress: &dyn Progress,
) -> Result<RunReport, ArchiveError> {
    let started = Instant::now();
    let mut report = RunReport { hot_file_bytes_before: rows.begin_run().await?, ..RunReport::default() };
    let resumed = resume(rows, progress).await?;
    report.erased_messages += resumed.messages;
    let has_archive = rows.object_archive().is_some();
    must_be_in_place(rows).await?;
    report.erased_messages += finish(rows).await?;
    let expires = rows.settings().retention_seconds > 0;
    if expires {
        report.erased_messages += expire(rows, request.only, progress).await?;
    }
    if !(has_archive || resumed.has_work || expires) {
        return Err(ArchiveError::Off);
    }
    if has_archive {
        move_out(rows, request, progress, &mut report).await?;
        if request.only.is_some() || rows.is_time_to_sweep() {
            report.orphans_swept = sweep(rows, request.only, progress).await?;
        }
    }
    // Record the run before compaction, so that the tables do not grow after they are measured.
    rows.remember(None).await;
    report.hot_file_bytes_after = rows.free_space(progress).await?;
    report.took = started.elapsed();
    Ok(report)
}
