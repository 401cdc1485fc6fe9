//! One archive job: its task, its progress and its result.

use std::sync::Arc;

use bluetick_core::ports::{Archive, ArchiveError, ArchiveRun, Backup, Erase, Progress, Stage};
use bluetick_core::{ConversationId, StoreError, Timestamp};
use bluetick_wire::http::{JobBody, JobKind, ReportBody};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::JobState;

/// The result of a job.
pub(super) type JobResult = Result<ReportBody, ArchiveError>;

/// The kind of a job, with its parameters.
#[derive(Clone, Debug)]
pub(crate) enum Task {
    Run(ArchiveRun),
    Verify,
    /// Restores one conversation, or all if `None`.
    Restore(Option<ConversationId>),
    Erase(Erase),
    Backup(Backup),
}

impl Task {
    pub fn kind(&self) -> JobKind {
        match self {
            Task::Run(_) => JobKind::Run,
            Task::Verify => JobKind::Verify,
            Task::Restore(_) => JobKind::Restore,
            Task::Erase(_) => JobKind::Erase,
            Task::Backup(_) => JobKind::Backup,
        }
    }

    /// Whether the store makes the job durable before it reports progress, and finishes it after a
    /// crash.
    pub fn is_durable(&self) -> bool {
        matches!(self, Task::Erase(_))
    }

    /// Runs the job to its end and returns its report.
    pub(super) async fn run(self, archive: &dyn Archive, progress: Arc<dyn Progress>) -> JobResult {
        Ok(match self {
            Task::Run(run) => archive.run(run, progress).await?.into(),
            Task::Verify => archive.verify(progress).await?.into(),
            Task::Restore(conversation) => archive.restore(conversation, progress).await?.into(),
            Task::Erase(erase) => archive.erase(erase, progress).await?.into(),
            Task::Backup(backup) => archive.backup(backup, progress).await?.into(),
        })
    }
}

/// The error of a job that panicked.
pub(crate) fn job_failed() -> ArchiveError {
    StoreError::Failed("the job failed; see the server log".into()).into()
}

/// A running job. The store reports progress to it, and the API reads it.
pub(super) struct Job {
    pub id: String,
    kind: JobKind,
    started_at: Timestamp,
    progress: Mutex<Option<(Stage, u64, u64)>>,
    /// Publishes the state of the job to the caller that started it.
    publish: watch::Sender<JobState>,
}

impl Job {
    pub fn new(id: String, kind: JobKind, started_at: Timestamp, publish: watch::Sender<JobState>) -> Job {
        Job { id, kind, started_at, progress: Mutex::default(), publish }
    }

    /// Returns the API view of the running job.
    pub fn body(&self) -> JobBody {
        let progress = *self.progress.lock();
        let (done, total) = progress.map_or((0, 0), |(_, done, total)| (done, total));
        JobBody {
            job_id: self.id.clone(),
            kind: self.kind,
            stage: progress.map(|(stage, _, _)| stage.into()),
            done,
            total,
            started_at: self.started_at.millis(),
            finished_at: None,
            error: None,
            report: None,
        }
    }

    /// Returns the API view of the job after its end.
    pub fn ended_body(&self, finished: &JobResult, now: Timestamp) -> JobBody {
        JobBody {
            finished_at: Some(now.millis()),
            error: finished.as_ref().err().map(ToString::to_string),
            report: finished.as_ref().ok().cloned(),
            ..self.body()
        }
    }

    /// Publishes a new state of the job.
    pub fn publish(&self, state: JobState) {
        self.publish.send_replace(state);
    }
}

impl Progress for Job {
    fn advanced(&self, stage: Stage, done: u64, total: u64) {
        let before = self.progress.lock().replace((stage, done, total));
        if before.is_none() {
            self.publish(JobState::Running);
        }
    }
}
