//! The archiver: starts archive jobs for the operator and the schedule, one at a time, and keeps
//! their status. The archive port does the work of a job; the routes check permissions.

mod job;
mod none;
mod schedule;
mod scheduler;

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bluetick_core::ports::{Archive, ArchiveError, Progress};
use bluetick_core::time::Clock;
use bluetick_wire::http::{ArchiveBody, JobBody, ReportBody};
use futures_util::FutureExt;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use self::job::{Job, JobResult};
pub(crate) use self::job::{Task, job_failed};
pub use self::none::NoArchive;
pub use self::schedule::{ArchiveSchedule, Hours, InvalidHours};
pub(crate) use self::scheduler::schedule;

/// Upper bound on how long a request waits for the first report of its job. A longer one delays the
/// response. A job that fails later is acknowledged first; its error is then only in its status.
const FIRST_REPORT_TIMEOUT: Duration = Duration::from_secs(1);
/// Number of ended jobs whose reports the API still returns. It bounds memory: a report holds up to
/// 1,000 problems.
const KEPT_JOBS: usize = 16;

/// The archiver. At most one job runs at a time.
pub(crate) struct ArchiveJobRunner {
    archive: Arc<dyn Archive>,
    clock: Arc<dyn Clock>,
    registry: Mutex<JobRegistry>,
    tasks: TaskTracker,
}

/// The running job and the ended jobs. Protected by one lock.
#[derive(Default)]
struct JobRegistry {
    next_number: u64,
    /// The running job.
    running: Option<Arc<Job>>,
    /// Ended jobs, oldest first, at most `KEPT_JOBS`.
    finished: VecDeque<JobBody>,
    /// The server is shutting down; no job can start.
    closed: bool,
}

/// The origin of a job. Decides whether [`ArchiveJobRunner`] logs the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobOrigin {
    Operator,
    /// The schedule. It logs a lasting failure once, not at every run.
    Schedule,
}

/// A started job, as its caller sees it.
pub(crate) struct StartedJob {
    pub job_id: String,
    /// Whether the store makes the job durable before it reports progress.
    is_durable: bool,
    state: watch::Receiver<JobState>,
}

/// The state of a job, as reported to the caller that started it.
#[derive(Clone, Debug, Default)]
enum JobState {
    #[default]
    Pending,
    Running,
    Finished(JobResult),
}

impl StartedJob {
    /// Waits for the first report and returns the id of the job. Returns the error of a job that
    /// failed before it. For a [durable](Task::is_durable) job this waits without a timeout, and
    /// `Ok` means that the job is durable. For other jobs it waits at most `FIRST_REPORT_TIMEOUT`,
    /// and `Ok` means that the job is running or finished.
    pub async fn first_report(mut self) -> Result<String, ArchiveError> {
        let report = self.state.wait_for(|state| !matches!(state, JobState::Pending));
        let report = match self.is_durable {
            true => report.await.map_err(|_| ArchiveError::Stopped)?,
            false => match tokio::time::timeout(FIRST_REPORT_TIMEOUT, report).await {
                Ok(Ok(state)) => state,
                Ok(Err(_)) | Err(_) => return Ok(self.job_id),
            },
        };
        match &*report {
            JobState::Finished(Err(error)) => Err(error.clone()),
            _ => Ok(self.job_id.clone()),
        }
    }

    /// Waits for the end of the job and returns its result.
    pub async fn finished(mut self) -> JobResult {
        match self.state.wait_for(|state| matches!(state, JobState::Finished(_))).await.as_deref() {
            Ok(JobState::Finished(finished)) => finished.clone(),
            _ => Err(ArchiveError::Stopped),
        }
    }
}

impl ArchiveJobRunner {
    pub fn new(archive: Arc<dyn Archive>, clock: Arc<dyn Clock>) -> ArchiveJobRunner {
        ArchiveJobRunner { archive, clock, registry: Mutex::default(), tasks: TaskTracker::new() }
    }

    /// Returns the archive port.
    pub fn archive(&self) -> &dyn Archive {
        &*self.archive
    }

    /// Returns the state of the archive, the running job and the job that ended last.
    pub async fn status(&self) -> Result<ArchiveBody, ArchiveError> {
        let status = self.archive.status().await?;
        let registry = self.registry();
        let job = registry.running.as_ref().map(|job| job.body());
        Ok(ArchiveBody::new(status, self.archive.counters(), job, registry.finished.back().cloned()))
    }

    /// Returns the running job or a recently ended one by its id.
    pub fn job(&self, job_id: &str) -> Option<JobBody> {
        let registry = self.registry();
        let running = registry.running.as_ref().filter(|job| job.id == job_id).map(|job| job.body());
        running.or_else(|| registry.finished.iter().find(|finished| finished.job_id == job_id).cloned())
    }

    /// Starts a job in the background. It continues if the caller drops the [`StartedJob`]. Returns
    /// `Busy` if another job is running, and `Stopped` during the shutdown.
    pub fn start(self: &Arc<Self>, task: Task, origin: JobOrigin) -> Result<StartedJob, ArchiveError> {
        let started_at = self.clock.now();
        let mut registry = self.registry();
        if registry.closed {
            return Err(ArchiveError::Stopped);
        }
        if registry.running.is_some() {
            return Err(ArchiveError::Busy);
        }
        registry.next_number += 1;
        // The timestamp makes ids unique across restarts, the number within one process.
        let job_id = format!("{}-{}", started_at.millis(), registry.next_number);
        let (publish, state) = watch::channel(JobState::Pending);
        let job = Arc::new(Job::new(job_id.clone(), task.kind(), started_at, publish));
        let is_durable = task.is_durable();
        registry.running = Some(Arc::clone(&job));
        drop(registry);
        let archiver = Arc::clone(self);
        self.tasks.spawn(async move { archiver.run_job(task, job, origin).await });
        Ok(StartedJob { job_id, is_durable, state })
    }

    /// Runs a job, records its result and publishes it. A panic of the job becomes an error.
    async fn run_job(&self, task: Task, job: Arc<Job>, origin: JobOrigin) {
        let progress = Arc::clone(&job) as Arc<dyn Progress>;
        let work = AssertUnwindSafe(task.run(&*self.archive, progress)).catch_unwind();
        // The panic hook has logged the message and the location.
        let finished: JobResult = work.await.unwrap_or_else(|_| Err(job_failed()));
        let body = job.ended_body(&finished, self.clock.now());
        if origin == JobOrigin::Operator {
            log(&body, &finished);
        }
        let mut registry = self.registry();
        registry.running = None;
        if registry.finished.len() == KEPT_JOBS {
            registry.finished.pop_front();
        }
        registry.finished.push_back(body);
        drop(registry);
        job.publish(JobState::Finished(finished));
    }

    /// Refuses new jobs from now on.
    pub fn close(&self) {
        self.registry().closed = true;
        self.tasks.close();
    }

    /// Waits until no job is running. Running jobs end when the store closes.
    pub async fn jobs_ended(&self) {
        self.tasks.wait().await;
    }

    fn registry(&self) -> MutexGuard<'_, JobRegistry> {
        self.registry.lock()
    }
}

/// Logs the result of a job that the operator started.
fn log(body: &JobBody, finished: &JobResult) {
    let (job_id, job) = (&*body.job_id, body.kind);
    match finished {
        Ok(ReportBody::Verify(report)) if report.problem_count > 0 => {
            tracing::error!(job_id, problems = report.problem_count, "archive verification found problems");
        }
        Ok(_) => tracing::info!(job_id, ?job, "job finished"),
        Err(ArchiveError::Stopped) => tracing::info!(job_id, ?job, "job stopped"),
        Err(error) => {
            tracing::warn!(job_id, ?job, %error, "job failed; its completed steps stay");
        }
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use bluetick_core::ConversationId;
    use bluetick_core::ports::{
        ArchiveCounters, ArchiveRun, ArchiveStatus, Erase, EraseReport, EraseScope, RestoreReport, RunReport,
        Stage, VerifyReport,
    };
    use bluetick_core::time::SystemClock;
    use tokio::sync::Notify;

    use super::*;

    /// An archive in which the test decides when an erasure becomes durable. No erasure finishes.
    #[derive(Default)]
    struct SlowArchive {
        durable: Notify,
    }

    #[async_trait]
    impl Archive for SlowArchive {
        async fn status(&self) -> Result<ArchiveStatus, ArchiveError> {
            Ok(ArchiveStatus::default())
        }

        async fn run(&self, _: ArchiveRun, _: Arc<dyn Progress>) -> Result<RunReport, ArchiveError> {
            std::future::pending().await
        }

        async fn verify(&self, _: Arc<dyn Progress>) -> Result<VerifyReport, ArchiveError> {
            Err(ArchiveError::Off)
        }

        async fn restore(
            &self,
            _: Option<ConversationId>,
            _: Arc<dyn Progress>,
        ) -> Result<RestoreReport, ArchiveError> {
            Err(ArchiveError::Off)
        }

        async fn erase(&self, _: Erase, progress: Arc<dyn Progress>) -> Result<EraseReport, ArchiveError> {
            self.durable.notified().await;
            progress.advanced(Stage::Erasing, 0, 0);
            std::future::pending().await
        }

        fn counters(&self) -> ArchiveCounters {
            ArchiveCounters::default()
        }
    }

    fn erasure() -> Task {
        let scope = EraseScope::Conversation(ConversationId::group([1; 15]));
        Task::Erase(Erase { scope, through: None })
    }

    #[tokio::test(start_paused = true)]
    async fn erasure_is_acknowledged_only_after_it_is_durable() {
        let slow = Arc::new(SlowArchive::default());
        let archiver = Arc::new(ArchiveJobRunner::new(Arc::clone(&slow) as _, Arc::new(SystemClock)));
        let started = archiver.start(erasure(), JobOrigin::Operator).unwrap();
        let job_id = started.job_id.clone();
        let mut answer = Box::pin(started.first_report());
        let early = tokio::time::timeout(Duration::from_secs(3600), &mut answer).await;
        assert!(early.is_err(), "not acknowledged within an hour of simulated time");
        slow.durable.notify_one();
        assert_eq!(answer.await.unwrap(), job_id);
    }

    #[tokio::test(start_paused = true)]
    async fn other_jobs_are_acknowledged_before_they_report_progress() {
        let archiver =
            Arc::new(ArchiveJobRunner::new(Arc::new(SlowArchive::default()), Arc::new(SystemClock)));
        let started = archiver.start(Task::Run(ArchiveRun::default()), JobOrigin::Operator).unwrap();
        assert!(started.first_report().await.is_ok());
    }
}
