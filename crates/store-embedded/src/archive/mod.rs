//! The cold tier of this store. Whole chunks move: their records into a sealed segment in the object store, and in the
//! tables a chunk without content takes their place ([`crate::codec::cold`]).
//!
//! What every job keeps to:
//! - **An object is whole and durable before a row refers to it**, and no row refers to it before it was read back.
//! - **Rows are flipped in one transaction a segment, and only if they still are what was packed.** Everything before the
//!   flip can be done again; what it leaves in the object store is an orphan, which [`sweep`] finds.
//! - **An object is deleted only after no row refers to it.**
//!
//! Only the tables are touched: messages that are still in memory are young.

mod erase;
mod fill;
mod job;
mod move_out;
mod requests;
mod restore;
mod retention;
mod rewrite;
mod space;
mod sweep;
mod verify;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bluetick_archive::{ArchiveSettings, SegmentName, Vault, VaultError};
use bluetick_core::ports::{ArchiveCounters, ArchiveError, ArchiveRun, ArchiveStatus, Progress, RunReport};
use bluetick_core::time::Clock;
use bluetick_core::{ConversationId, StoreError};
use bytes::Bytes;
pub use fill::Filled;

use crate::codec::archive::LastRun;
use crate::commit::{Handover, Queue};
use crate::lock::DataLock;
use crate::memory::Rooms;
use crate::tables::{Identity, Tables, TablesError};

/// Where a job stands; tests stop it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArchiveStep {
    BeforePut,
    AfterPut,
    BeforeFlip,
    AfterFlip,
    BeforeDelete,
    AfterDelete,
    /// An erasure request is durable, and its search has not begun.
    ErasureAccepted,
    /// The notes of an erasure are durable.
    ErasureSearched,
    /// No row and no object holds erased content; files may.
    ErasureDone,
    /// No file of the log holds erased content.
    LogScrubbed,
    /// No page of the tables holds erased content.
    TablesRewritten,
}

/// Called at each step; `false` ends the job there, as a crash would.
pub type OnArchiveStep = Arc<dyn Fn(ArchiveStep) -> bool + Send + Sync>;

/// What nobody refers to is looked for at the first run, and then once a day.
const SWEEP_EVERY: Duration = Duration::from_secs(24 * 3600);
/// How long a job that runs is waited for when the store closes.
const STOPPING_PATIENCE: Duration = Duration::from_secs(3);
const STOPPING_LOOKS: Duration = Duration::from_millis(10);
/// How long a job waits for the messages to be in the tables.
const CHECKPOINT_PATIENCE: Duration = Duration::from_secs(60);

pub struct Archivist {
    pub tables: Arc<Tables>,
    pub rooms: Arc<Rooms>,
    pub queue: Arc<Queue>,
    pub handover: Arc<Handover>,
    pub vault: Option<Arc<Vault>>,
    pub settings: ArchiveSettings,
    pub identity: Identity,
    pub clock: Arc<dyn Clock>,
    pub on_step: OnArchiveStep,
    /// Held by each step: nobody else may open the directory while one still writes.
    pub lock: Arc<DataLock>,
    pub state: ArchivistState,
}

/// What an archivist remembers while it is awake.
#[derive(Default)]
pub struct ArchivistState {
    /// Held by the one job that runs.
    job: tokio::sync::Mutex<()>,
    stopping: Arc<AtomicBool>,
    /// Held by each step that goes on by itself when its job is dropped. While one does, no other job begins: it could
    /// take an object for an orphan to which that step is about to refer.
    steps: Arc<()>,
    moved_messages: AtomicU64,
    moved_segments: AtomicU64,
    runs: AtomicU64,
    failed_runs: AtomicU64,
    last: Mutex<Last>,
    told_damaged: Mutex<HashSet<SegmentName>>,
}

impl ArchivistState {
    /// With what the tables remember.
    pub fn after(run: Option<LastRun>) -> ArchivistState {
        ArchivistState { last: Mutex::new(Last { run, swept: None }), ..ArchivistState::default() }
    }
}

#[derive(Default)]
struct Last {
    run: Option<LastRun>,
    swept: Option<Instant>,
}

impl From<TablesError> for ArchiveError {
    fn from(error: TablesError) -> ArchiveError {
        StoreError::from(error).into()
    }
}

/// What a failure of the object store means for a job.
fn in_vault(error: VaultError) -> ArchiveError {
    match error {
        VaultError::Missing { .. } | VaultError::Damaged { .. } => ArchiveError::Damaged(error.to_string()),
        VaultError::Unavailable(_) | VaultError::Settings(_) => ArchiveError::Unavailable(error.to_string()),
    }
}

impl Archivist {
    fn vault(&self) -> Result<&Arc<Vault>, ArchiveError> {
        self.vault.as_ref().ok_or(ArchiveError::Off)
    }

    /// The turn of one job, until it is dropped.
    pub(crate) fn begin(&self) -> Result<tokio::sync::MutexGuard<'_, ()>, ArchiveError> {
        if self.state.stopping.load(Ordering::Relaxed) {
            return Err(ArchiveError::Stopped);
        }
        let job = self.state.job.try_lock().map_err(|_| ArchiveError::Busy)?;
        if self.has_steps_under_way() { Err(ArchiveError::Busy) } else { Ok(job) }
    }

    /// Becomes true when jobs are to end.
    pub(crate) fn stopping(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.state.stopping)
    }

    fn has_steps_under_way(&self) -> bool {
        Arc::strong_count(&self.state.steps) > 1
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.state.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asked between the steps of a job.
    fn go_on(&self, step: ArchiveStep) -> Result<(), ArchiveError> {
        self.must_not_stop()?;
        if (self.on_step)(step) { Ok(()) } else { Err(ArchiveError::Stopped) }
    }

    fn must_not_stop(&self) -> Result<(), ArchiveError> {
        if self.state.stopping.load(Ordering::Relaxed) { Err(ArchiveError::Stopped) } else { Ok(()) }
    }

    /// No job begins any more, and the one that runs comes to an end soon. One that waits for the object store is not
    /// waited for: wherever it stops, nothing is lost.
    pub async fn stop(&self) {
        self.state.stopping.store(true, Ordering::Relaxed);
        let at_rest = async {
            let _job = self.state.job.lock().await;
            while self.has_steps_under_way() {
                tokio::time::sleep(STOPPING_LOOKS).await;
            }
        };
        if tokio::time::timeout(STOPPING_PATIENCE, at_rest).await.is_err() {
            tracing::warn!("a job of the archive is cut off; the next run goes on where it was");
        }
    }

    pub async fn status(&self) -> Result<ArchiveStatus, ArchiveError> {
        let tables = Arc::clone(&self.tables);
        let place = self.vault.as_ref().map_or_else(String::new, |vault| vault.place());
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
        let vault = self.vault.as_ref().map(|vault| vault.counters()).unwrap_or_default();
        let last = self.last().run.clone();
        ArchiveCounters {
            moved_messages: self.state.moved_messages.load(Ordering::Relaxed),
            moved_segments: self.state.moved_segments.load(Ordering::Relaxed),
            frame_reads: vault.frame_reads,
            frame_reads_from_memory: vault.from_memory,
            fetches: vault.fetches,
            fetched_bytes: vault.fetched_bytes,
            failed_fetches: vault.failed_fetches,
            damaged_frames: vault.damaged,
            runs: self.state.runs.load(Ordering::Relaxed),
            failed_runs: self.state.failed_runs.load(Ordering::Relaxed),
            last_run_at: last.as_ref().map(|run| run.at),
            paused: last.and_then(|run| run.paused),
        }
    }

    pub async fn run(
        &self,
        request: ArchiveRun,
        progress: Arc<dyn Progress>,
    ) -> Result<RunReport, ArchiveError> {
        let _job = self.begin()?;
        if let Some(only) = request.only {
            self.must_exist(only).await?;
        }
        self.state.runs.fetch_add(1, Ordering::Relaxed);
        let outcome = self.run_in_turn(&request, &*progress).await;
        match &outcome {
            // It was remembered on the way; or nothing was to be done, and nothing was.
            Ok(_) | Err(ArchiveError::Off) => {}
            Err(ArchiveError::Stopped) => self.remember(None).await,
            Err(error) => {
                self.state.failed_runs.fetch_add(1, Ordering::Relaxed);
                self.remember(Some(error.to_string())).await;
            }
        }
        outcome
    }

    /// That it ran, also for whoever looks after a restart.
    async fn remember(&self, paused: Option<String>) {
        let run = LastRun { at: self.clock.now(), paused };
        self.last().run = Some(run.clone());
        let tables = Arc::clone(&self.tables);
        let noted = self.blocking(move || {
            let engine = tables.writing()?;
            let mut update = engine.update()?;
            update.put_last_run(&run)?;
            Ok(update.commit()?)
        });
        if let Err(error) = noted.await {
            tracing::warn!(%error, "when the archive ran last could not be written down");
        }
    }

    /// Fails where rows refer to segments and the settings name another place than the one they were put into. Asked
    /// before anything is put or swept.
    pub(crate) async fn must_be_in_place(&self) -> Result<(), ArchiveError> {
        let Some(vault) = &self.vault else { return Ok(()) };
        let tables = Arc::clone(&self.tables);
        let cold = self.blocking(move || Ok(tables.current()?.cold_count()?)).await?;
        if cold.segments > 0 {
            vault.must_hold(self.identity.tag.0).await.map_err(in_vault)?;
        }
        Ok(())
    }

    async fn run_in_turn(
        &self,
        request: &ArchiveRun,
        progress: &dyn Progress,
    ) -> Result<RunReport, ArchiveError> {
        let started = Instant::now();
        self.checkpoint().await?;
        let space = Arc::clone(&self.tables);
        let before = self.blocking(move || Ok(space.current()?.space()?)).await?;
        let mut report = RunReport { hot_file_bytes_before: before.file_bytes, ..RunReport::default() };
        let resumed = self.resume_erasures(progress).await?;
        report.erased_messages += resumed.messages;
        let mut has_work = self.vault.is_some() || resumed.has_work;
        self.must_be_in_place().await?;
        report.erased_messages += self.finish_erasures().await?;
        if self.settings.retention_seconds > 0 {
            has_work = true;
            report.erased_messages += self.expire(request.only, progress).await?;
        }
        if !has_work {
            return Err(ArchiveError::Off);
        }
        if self.vault.is_some() {
            self.move_out(request, progress, &mut report).await?;
            if request.only.is_some() || self.is_time_to_sweep() {
                report.orphans_swept = self.sweep(request.only, progress).await?;
            }
        }
        // Before, so that the tables do not grow again after they were measured.
        self.remember(None).await;
        report.hot_file_bytes_after = self.give_space_back(progress).await?;
        report.took = started.elapsed();
        Ok(report)
    }

    fn is_time_to_sweep(&self) -> bool {
        self.last().swept.is_none_or(|swept| swept.elapsed() > SWEEP_EVERY)
    }

    async fn must_exist(&self, id: ConversationId) -> Result<(), ArchiveError> {
        if self.rooms.get(id).is_some_and(|room| room.state().conversation.is_some()) {
            return Ok(());
        }
        let tables = Arc::clone(&self.tables);
        let found = self.blocking(move || Ok(tables.current()?.snapshot()?.conversation(id)?)).await?;
        found.map(drop).ok_or(ArchiveError::NoSuchConversation)
    }

    /// Waits until no file of the log holds anything of what was written before.
    async fn scrub_log(&self) -> Result<(), ArchiveError> {
        let handover = Arc::clone(&self.handover);
        let number = handover.want_scrub();
        self.queue.nudge();
        self.blocking(move || {
            handover.wait_for_scrub(number, CHECKPOINT_PATIENCE).map_err(|why| StoreError::Failed(why).into())
        })
        .await
    }

    /// Waits until all that was acknowledged before is in the tables.
    pub(crate) async fn checkpoint(&self) -> Result<(), ArchiveError> {
        let handover = Arc::clone(&self.handover);
        let number = handover.want();
        self.queue.nudge();
        self.blocking(move || {
            handover.wait_for(number, CHECKPOINT_PATIENCE).map_err(|why| StoreError::Failed(why).into())
        })
        .await
    }

    /// Runs what reads or writes the disk where it holds nobody up. Once begun it comes to its end, whatever becomes of
    /// the job.
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
        let vault = Arc::clone(self.vault()?);
        self.to_its_end(async move { vault.put(&name, object).await.map(drop) }).await
    }

    async fn delete(&self, name: SegmentName) -> Result<(), ArchiveError> {
        let vault = Arc::clone(self.vault()?);
        self.to_its_end(async move { vault.delete(&name).await }).await
    }

    /// A request that is given up may still be carried out, later than the next one; so it is not given up.
    async fn to_its_end(
        &self,
        request: impl Future<Output = Result<(), VaultError>> + Send + 'static,
    ) -> Result<(), ArchiveError> {
        let step = Arc::clone(&self.state.steps);
        let task = tokio::spawn(async move {
            let answer = request.await;
            drop(step);
            answer
        });
        match task.await {
            Ok(answer) => answer.map_err(in_vault),
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
        // The process ends before the step began.
        Err(error) if error.is_cancelled() => Err(ArchiveError::Stopped),
        Err(error) => Err(StoreError::Failed(error.to_string()).into()),
    }
}

/// Something that lies there is not what was written, as opposed to not being within reach.
fn is_damage(error: &ArchiveError) -> bool {
    matches!(error, ArchiveError::Damaged(_) | ArchiveError::Store(StoreError::Damaged(_)))
}
