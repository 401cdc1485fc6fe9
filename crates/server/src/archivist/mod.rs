//! The archiver: starts archive jobs for the operator and the schedule, one at a time, and keeps
//! their status. The archive port does the work of a job; the routes check permissions.

mod job;
mod none;
mod schedule;
mod scheduler;

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bluetick_core::ports::{Archive, ArchiveError, Progress};
use bluetick_core::time::Clock;
use bluetick_wire::http::{ArchiveBody, JobBody, ReportBody};
use futures_util::FutureExt;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use self::job::{Ended, Job};
pub(crate) use self::job::{Task, job_failed};
pub use self::none::NoArchive;
pub use self::schedule::{ArchiveSchedule, Hours, InvalidHours};
pub(crate) use self::scheduler::schedule;

/// Upper bound on how long a request waits for the first report of its job. A job that fails later
/// is acknowledged first; its error is then only in its status.
const FIRST_WORD: Duration = Duration::from_secs(1);
/// Number of ended jobs whose reports the API still returns.
const REMEMBERED_JOBS: usize = 16;

/// The archiver. At most one job runs at a time.
pub(crate) struct Archivist {
    archive: Arc<dyn Archive>,
    clock: Arc<dyn Clock>,
    desk: Mutex<Desk>,
    tasks: TaskTracker,
}

/// The running job and the ended jobs. Protected by one lock.
#[derive(Default)]
struct Desk {
    next_number: u64,
    /// The running job.
    under_way: Option<Arc<Job>>,
    /// Ended jobs, oldest first, at most `REMEMBERED_JOBS`.
    ended: VecDeque<JobBody>,
    /// The server is shutting down; no job can start.
    closed: bool,
}

/// What started a job. Decides whether [`Archivist`] logs the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    Operator,
    /// The schedule. It logs a lasting failure once, not at every run.
    Schedule,
}

/// A started job, as its caller sees it.
pub(crate) struct Taken {
    pub job_id: String,
    /// Whether the store makes the job durable before it reports progress.
    is_kept: bool,
    word: watch::Receiver<Word>,
}

/// The state of a job, as reported to the caller that started it.
#[derive(Clone, Debug, Default)]
enum Word {
    #[default]
    Nothing,
    Begun,
    Ended(Ended),
}

impl Taken {
    /// Waits for the first report and returns the id of the job. Returns the error of a job that
    /// failed before it. For a [durable](Task::is_kept) job this waits without a timeout, and `Ok`
    /// means that the job is durable. For other jobs it waits at most `FIRST_WORD`, and `Ok` means
    /// that the job is running or finished.
    pub async fn first_word(mut self) -> Result<String, ArchiveError> {
        let heard = self.word.wait_for(|word| !matches!(word, Word::Nothing));
        let heard = match self.is_kept {
            true => heard.await.map_err(|_| ArchiveError::Stopped)?,
            false => match tokio::time::timeout(FIRST_WORD, heard).await {
                Ok(Ok(word)) => word,
                Ok(Err(_)) | Err(_) => return Ok(self.job_id),
            },
        };
        match &*heard {
            Word::Ended(Err(error)) => Err(error.clone()),
            _ => Ok(self.job_id.clone()),
        }
    }

    /// Waits for the end of the job and returns its result.
    pub async fn ended(mut self) -> Ended {
        match self.word.wait_for(|word| matches!(word, Word::Ended(_))).await.as_deref() {
            Ok(Word::Ended(ended)) => ended.clone(),
            _ => Err(ArchiveError::Stopped),
        }
    }
}

impl Archivist {
    pub fn new(archive: Arc<dyn Archive>, clock: Arc<dyn Clock>) -> Archivist {
        Archivist { archive, clock, desk: Mutex::default(), tasks: TaskTracker::new() }
    }

    /// Returns the archive port.
    pub fn archive(&self) -> &dyn Archive {
        &*self.archive
    }

    /// Returns the state of the archive, the running job and the job that ended last.
    pub async fn status(&self) -> Result<ArchiveBody, ArchiveError> {
        let status = self.archive.status().await?;
        let desk = self.desk();
        let job = desk.under_way.as_ref().map(|job| job.body());
        Ok(ArchiveBody::new(status, self.archive.counters(), job, desk.ended.back().cloned()))
    }

    /// Returns the running job or a recently ended one by its id.
    pub fn job(&self, job_id: &str) -> Option<JobBody> {
        let desk = self.desk();
        let under_way = desk.under_way.as_ref().filter(|job| job.id == job_id).map(|job| job.body());
        under_way.or_else(|| desk.ended.iter().find(|ended| ended.job_id == job_id).cloned())
    }

    /// Starts a job in the background. It continues if the caller drops the [`Taken`]. Returns
    /// `Busy` if another job is running, and `Stopped` during the shutdown.
    pub fn begin(self: &Arc<Self>, task: Task, by: Asker) -> Result<Taken, ArchiveError> {
        let started_at = self.clock.now();
        let mut desk = self.desk();
        if desk.closed {
            return Err(ArchiveError::Stopped);
        }
        if desk.under_way.is_some() {
            return Err(ArchiveError::Busy);
        }
        desk.next_number += 1;
        // The timestamp makes ids unique across restarts, the number within one process.
        let job_id = format!("{}-{}", started_at.millis(), desk.next_number);
        let (say, word) = watch::channel(Word::Nothing);
        let job = Arc::new(Job::new(job_id.clone(), task.kind(), started_at, say));
        let is_kept = task.is_kept();
        desk.under_way = Some(Arc::clone(&job));
        drop(desk);
        let archivist = Arc::clone(self);
        self.tasks.spawn(async move { archivist.carry_out(task, job, by).await });
        Ok(Taken { job_id, is_kept, word })
    }

    /// Runs a job, records its result and publishes it. A panic of the job becomes an error.
    async fn carry_out(&self, task: Task, job: Arc<Job>, by: Asker) {
        let progress = Arc::clone(&job) as Arc<dyn Progress>;
        let work = AssertUnwindSafe(task.run(&*self.archive, progress)).catch_unwind();
        // The panic hook has logged the message and the location.
        let ended: Ended = work.await.unwrap_or_else(|_| Err(job_failed()));
        let body = job.ended_body(&ended, self.clock.now());
        if by == Asker::Operator {
            log(&body, &ended);
        }
        let mut desk = self.desk();
        desk.under_way = None;
        if desk.ended.len() == REMEMBERED_JOBS {
            desk.ended.pop_front();
        }
        desk.ended.push_back(body);
        drop(desk);
        job.say(Word::Ended(ended));
    }

    /// Refuses new jobs from now on.
    pub fn close(&self) {
        self.desk().closed = true;
        self.tasks.close();
    }

    /// Waits until no job is running. Running jobs end when the store closes.
    pub async fn jobs_ended(&self) {
        self.tasks.wait().await;
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().expect("nothing panics while it holds the lock")
    }
}

/// Logs the result of a job that the operator started.
fn log(body: &JobBody, ended: &Ended) {
    let (job_id, kind) = (&*body.job_id, body.kind);
    match ended {
        Ok(ReportBody::Verify(report)) if report.problem_count > 0 => {
            tracing::error!(job_id, problems = report.problem_count, "the archive is not as it should be");
        }
        Ok(_) => tracing::info!(job_id, ?kind, "a job of the archive is done"),
        Err(ArchiveError::Stopped) => tracing::info!(job_id, ?kind, "a job of the archive was stopped"),
        Err(error) => {
            tracing::warn!(job_id, ?kind, %error, "a job of the archive ended before it was done; what it did stays");
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
    struct Slow {
        durable: Notify,
    }

    #[async_trait]
    impl Archive for Slow {
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
        let slow = Arc::new(Slow::default());
        let archivist = Arc::new(Archivist::new(Arc::clone(&slow) as _, Arc::new(SystemClock)));
        let taken = archivist.begin(erasure(), Asker::Operator).unwrap();
        let job_id = taken.job_id.clone();
        let mut answer = Box::pin(taken.first_word());
        let early = tokio::time::timeout(Duration::from_secs(3600), &mut answer).await;
        assert!(early.is_err(), "not acknowledged within an hour of simulated time");
        slow.durable.notify_one();
        assert_eq!(answer.await.unwrap(), job_id);
    }

    #[tokio::test(start_paused = true)]
    async fn other_jobs_are_acknowledged_before_they_begin() {
        let archivist = Arc::new(Archivist::new(Arc::new(Slow::default()), Arc::new(SystemClock)));
        let taken = archivist.begin(Task::Run(ArchiveRun::default()), Asker::Operator).unwrap();
        assert!(taken.first_word().await.is_ok());
    }
}
