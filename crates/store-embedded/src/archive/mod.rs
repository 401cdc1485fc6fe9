//! The archiver: moves old messages to the object archive and back. It moves whole chunks. Their
//! records go into a sealed segment, and a chunk without content replaces each of them in the
//! tables ([`crate::codec::cold`]).
//!
//! Invariants of every job:
//! - **An object is complete and durable before a row refers to it.** The archiver reads it back
//!   and compares it first.
//! - **One transaction flips all rows of a segment, if they are unchanged since packing.** All work
//!   before the flip can be repeated. An interrupted job may leave an orphan object, which
//!   [`jobs::sweep`] deletes.
//! - **An object is deleted only after no row refers to it.**
//!
//! Jobs change only the tables. Messages that are still only in memory are too new to archive.

mod erase;
mod fill;
mod job;
mod move_out;
mod restore;
mod retention;
mod rewrite;
mod rows;
mod space;
mod verify;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

pub use bluetick_archive::jobs::ArchiveStep;
use bluetick_archive::{ArchiveSettings, ObjectArchive, ObjectArchiveError, SegmentName, jobs};
use bluetick_core::ports::{
    ArchiveCounters, ArchiveError, ArchiveRun, ArchiveStatus, Erase, EraseReport, Progress, RestoreReport,
    RunReport, VerifyReport,
};
use bluetick_core::time::Clock;
use bluetick_core::{Cause, ConversationId, StoreError};
use bytes::Bytes;
pub use fill::Filled;

use self::rows::JobRows;
use crate::codec::archive::LastRun;
use crate::commit::{Handover, Queue};
use crate::lock::DataLock;
use crate::memory::ResidentConversations;
use crate::tables::{StoreIdentity, Tables, TablesError};

/// Called at each step. If it returns `false`, the job ends there, as in a crash.
pub type OnArchiveStep = Arc<dyn Fn(ArchiveStep) -> bool + Send + Sync>;

/// Interval between two searches for orphans of the whole store. A longer one keeps orphans on
/// disk; a shorter one lists the object store more often. The first run after a start also
/// searches.
const SWEEP_EVERY: Duration = Duration::from_secs(24 * 3600);
/// Upper bound on how long [`Archiver::stop`] waits for the running job. A longer one delays
/// shutdown. If it is too short, nothing is lost: the next run continues the job.
const STOPPING_PATIENCE: Duration = Duration::from_secs(3);
/// Interval at which [`Archiver::stop`] checks whether detached steps have ended. A longer one
/// delays shutdown.
const STOPPING_LOOKS: Duration = Duration::from_millis(10);
/// Upper bound on how long a job waits for a checkpoint or a log scrub. After it, the job fails, so
/// a slow disk needs a long one.
const CHECKPOINT_PATIENCE: Duration = Duration::from_secs(60);

/// Runs the archive jobs of one store, one job at a time.
pub struct Archiver {
    pub tables: Arc<Tables>,
    pub residents: Arc<ResidentConversations>,
    pub queue: Arc<Queue>,
    pub handover: Arc<Handover>,
    pub object_archive: Option<Arc<ObjectArchive>>,
    pub settings: ArchiveSettings,
    pub identity: StoreIdentity,
    pub clock: Arc<dyn Clock>,
    pub on_step: OnArchiveStep,
    /// Cloned into each blocking step, so that no other process opens the data directory while a
    /// step still writes.
    pub lock: Arc<DataLock>,
    pub state: ArchiverControl,
}

/// The in-memory state of the archiver.
#[derive(Default)]
pub struct ArchiverControl {
    /// Held by the running job.
    job: tokio::sync::Mutex<()>,
    stopping: Arc<AtomicBool>,
    /// Cloned into each step that continues after its job is dropped. No other job begins while a
    /// clone exists: it could delete an object as an orphan while that step commits a reference to
    /// it.
    steps: Arc<()>,
    shared: jobs::state::ArchiverState,
    /// When the whole store was last searched for orphans.
    swept: Mutex<Option<Instant>>,
}

impl ArchiverControl {
    /// Creates the state with the last run that the tables record.
    pub fn after(run: Option<LastRun>) -> ArchiverControl {
        let run = run.map_or_else(Default::default, |run| jobs::state::LastRun {
            at: Some(run.at),
            paused: run.paused,
        });
        ArchiverControl { shared: jobs::state::ArchiverState::after(run), ..ArchiverControl::default() }
    }
}

impl From<TablesError> for ArchiveError {
    fn from(error: TablesError) -> ArchiveError {
        StoreError::from(error).into()
    }
}

impl Archiver {
    fn object_archive(&self) -> Result<&Arc<ObjectArchive>, ArchiveError> {
        self.object_archive.as_ref().ok_or(ArchiveError::Off)
    }

    /// Starts a job, which lasts until the guard is dropped. Errors with `Busy` if another job or a
    /// detached step of an earlier job runs, and with `Stopped` during shutdown.
    pub(crate) fn begin(&self) -> Result<tokio::sync::MutexGuard<'_, ()>, ArchiveError> {
        if self.state.stopping.load(Ordering::Relaxed) {
            return Err(ArchiveError::Stopped);
        }
        let job = self.state.job.try_lock().map_err(|_| ArchiveError::Busy)?;
        if self.has_steps_under_way() { Err(ArchiveError::Busy) } else { Ok(job) }
    }

    /// Returns the flag that is true once jobs must end.
    pub(crate) fn stopping(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.state.stopping)
    }

    fn has_steps_under_way(&self) -> bool {
        Arc::strong_count(&self.state.steps) > 1
    }

    fn swept(&self) -> MutexGuard<'_, Option<Instant>> {
        self.state.swept.lock()
    }

    /// Called between the steps of a job. Errors with `Stopped` if the job must end.
    fn go_on(&self, step: ArchiveStep) -> Result<(), ArchiveError> {
        self.must_not_stop()?;
        if (self.on_step)(step) { Ok(()) } else { Err(ArchiveError::Stopped) }
    }

    fn must_not_stop(&self) -> Result<(), ArchiveError> {
        if self.state.stopping.load(Ordering::Relaxed) { Err(ArchiveError::Stopped) } else { Ok(()) }
    }

    /// Prevents new jobs and waits up to `STOPPING_PATIENCE` for the running one. After it, a job
    /// that still waits for the object archive is abandoned. It loses nothing at any step.
    pub async fn stop(&self) {
        self.state.stopping.store(true, Ordering::Relaxed);
        let at_rest = async {
            let _job = self.state.job.lock().await;
            while self.has_steps_under_way() {
                tokio::time::sleep(STOPPING_LOOKS).await;
            }
        };
        if tokio::time::timeout(STOPPING_PATIENCE, at_rest).await.is_err() {
            tracing::warn!("archive job did not stop in time; the next run continues it");
        }
    }

    pub async fn status(&self) -> Result<ArchiveStatus, ArchiveError> {
        let tables = Arc::clone(&self.tables);
        let place =
            self.object_archive.as_ref().map_or_else(String::new, |object_archive| object_archive.place());
        blocking(None, move || {
            let engine = tables.current()?;
            let (space, snapshot) = (engine.space()?, engine.snapshot()?);
            Ok(ArchiveStatus {
                place,
                cold: engine.cold_count()?,
                hot_file_bytes: space.file_bytes,
                hot_free_bytes: space.free_bytes,
                kept_hot: snapshot.kept_hot()?,
                unfinished_erasures: snapshot.unfinished_erasures()?,
            })
        })
        .await
    }

    pub fn counters(&self) -> ArchiveCounters {
        self.state.shared.counters(self.object_archive.as_deref())
    }

    pub async fn run(
        &self,
        request: ArchiveRun,
        progress: Arc<dyn Progress>,
    ) -> Result<RunReport, ArchiveError> {
        let _job = self.begin()?;
        jobs::run(&mut JobRows(self), &request, &*progress).await
    }

    /// Erases the requested content from rows, segments, log files and freed pages.
    pub async fn erase(
        &self,
        erase: Erase,
        progress: Arc<dyn Progress>,
    ) -> Result<EraseReport, ArchiveError> {
        let _job = self.begin()?;
        jobs::erase(&mut JobRows(self), &erase, &*progress).await
    }

    /// Compares every segment with its rows.
    pub async fn verify(&self, progress: Arc<dyn Progress>) -> Result<VerifyReport, ArchiveError> {
        let _job = self.begin()?;
        jobs::verify(&mut JobRows(self), &*progress).await
    }

    /// Restores the segments of one conversation or of all.
    pub async fn restore(
        &self,
        only: Option<ConversationId>,
        progress: Arc<dyn Progress>,
    ) -> Result<RestoreReport, ArchiveError> {
        let _job = self.begin()?;
        jobs::restore(&mut JobRows(self), only, &*progress).await
    }

    /// Records the run in memory and in the tables, so that its status survives a restart.
    async fn remember(&self, paused: Option<String>) {
        let run = LastRun { at: self.clock.now(), paused };
        let LastRun { at, paused } = run.clone();
        self.state.shared.set_last_run(jobs::state::LastRun { at: Some(at), paused });
        let tables = Arc::clone(&self.tables);
        let noted = self.blocking(move || {
            let engine = tables.writing()?;
            let mut update = engine.update()?;
            update.put_last_run(&run)?;
            Ok(update.commit()?)
        });
        if let Err(error) = noted.await {
            tracing::warn!(%error, "time of the last archive run could not be stored");
        }
    }

    /// Errors if rows refer to segments but the configured object archive is not the one that holds
    /// them. Called before any put or sweep.
    pub(crate) async fn must_be_in_place(&self) -> Result<(), ArchiveError> {
        jobs::must_be_in_place(&mut JobRows(self)).await
    }

    fn is_time_to_sweep(&self) -> bool {
        self.swept().is_none_or(|swept| swept.elapsed() > SWEEP_EVERY)
    }

    async fn must_exist(&self, id: ConversationId) -> Result<(), ArchiveError> {
        if self.residents.get(id).is_some_and(|resident| resident.state().conversation.is_some()) {
            return Ok(());
        }
        let tables = Arc::clone(&self.tables);
        let found = self.blocking(move || Ok(tables.current()?.snapshot()?.conversation(id)?)).await?;
        found.map(drop).ok_or(ArchiveError::NoSuchConversation)
    }

    /// Waits until no log file holds anything that was written before the call. Errors after
    /// [`CHECKPOINT_PATIENCE`].
    async fn scrub_log(&self) -> Result<(), ArchiveError> {
        let handover = Arc::clone(&self.handover);
        let number = handover.request_scrub();
        self.queue.nudge();
        self.blocking(move || {
            handover
                .wait_for_scrub(number, CHECKPOINT_PATIENCE)
                .map_err(|why| StoreError::Failed(why.into()).into())
        })
        .await
    }

    /// Waits until everything acknowledged before the call is in the tables. Errors after
    /// [`CHECKPOINT_PATIENCE`].
    pub(crate) async fn checkpoint(&self) -> Result<(), ArchiveError> {
        let handover = Arc::clone(&self.handover);
        let number = handover.request_checkpoint();
        self.queue.nudge();
        self.blocking(move || {
            handover
                .wait_for_checkpoint(number, CHECKPOINT_PATIENCE)
                .map_err(|why| StoreError::Failed(why.into()).into())
        })
        .await
    }

    /// Runs disk work on a blocking thread. Once started, the work runs to its end even if the job
    /// is dropped.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ArchiveError> + Send + 'static,
    ) -> Result<T, ArchiveError> {
        let lock = Arc::clone(&self.lock);
        let work = move || {
            let result = work();
            drop(lock);
            result
        };
        blocking(Some(Arc::clone(&self.state.steps)), work).await
    }

    async fn put(&self, name: SegmentName, object: Bytes) -> Result<(), ArchiveError> {
        let object_archive = Arc::clone(self.object_archive()?);
        self.to_its_end(async move { object_archive.put(&name, object).await.map(drop) }).await
    }

    async fn delete(&self, name: SegmentName) -> Result<(), ArchiveError> {
        let object_archive = Arc::clone(self.object_archive()?);
        self.to_its_end(async move { object_archive.delete(&name).await }).await
    }

    /// Runs a request to its end, even if the job is dropped. An abandoned request could still take
    /// effect after the next one.
    async fn to_its_end(
        &self,
        request: impl Future<Output = Result<(), ObjectArchiveError>> + Send + 'static,
    ) -> Result<(), ArchiveError> {
        let step = Arc::clone(&self.state.steps);
        let task = tokio::spawn(async move {
            let answer = request.await;
            drop(step);
            answer
        });
        match task.await {
            Ok(answer) => answer.map_err(ArchiveError::from),
            Err(_) => Err(ArchiveError::Stopped),
        }
    }
}

async fn blocking<T: Send + 'static>(
    step: Option<Arc<()>>,
    work: impl FnOnce() -> Result<T, ArchiveError> + Send + 'static,
) -> Result<T, ArchiveError> {
    let work = move || {
        let result = work();
        drop(step);
        result
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        // The runtime shut down before the step began.
        Err(error) if error.is_cancelled() => Err(ArchiveError::Stopped),
        Err(error) => Err(StoreError::Failed(Cause::of(error)).into()),
    }
}
