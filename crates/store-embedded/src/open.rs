//! Opens a data directory: lock, tables, log, threads.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bluetick_archive::{ArchiveSettings, ObjectArchive};
use bluetick_core::Epoch;
use bluetick_core::ports::{
    CheckpointReport, ColdCount, CommitListener, NoObserver, Random, StoreObserver, SystemRandom,
};
use bluetick_core::time::{Clock, SystemClock};
use thiserror::Error;

use crate::archive::{Archiver, ArchiverControl, OnArchiveStep};
use crate::checkpoint::{Checkpoint, CheckpointStep};
use crate::codec::archive::LastRun;
use crate::codec::chunk::Fingerprinter;
use crate::commit::{Committer, CommitterParts, Handover, HandoverItem, HealthState, Queue, Sequencer};
use crate::dedupe::DedupeClock;
use crate::disk::Disk;
use crate::inbox::InboxReader;
use crate::load::ConversationLoader;
use crate::lock::{DataLock, LockError};
use crate::log::{BatchNumber, LogWriter, Spares, StoreTag, WriterSettings};
use crate::memory::{Generation, Profiles, Recent, ResidentConversations, Users};
use crate::recovery::{Recovery, RecoveryError};
use crate::settings::StoreSettings;
use crate::steps::Steps;
use crate::tables::{StoreIdentity, Tables, TablesError};

/// Pause of the checkpoint thread after a failure. A longer one delays recovery; a shorter one
/// fills the log with errors.
const CHECKPOINT_RETRY: Duration = Duration::from_secs(1);

#[derive(Debug, Error)]
pub enum OpenError {
    #[error("{}: {error}", directory.display())]
    Lock { directory: PathBuf, error: LockError },
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error(transparent)]
    Tables(#[from] TablesError),
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
    #[error("{}: a restore of a backup is unfinished here; delete this directory and restore again", .0.display())]
    HalfRestored(PathBuf),
    #[error("{}: the log is missing, with all data that was not in the tables yet; restore the whole directory from a backup", .0.display())]
    TablesWithoutLog(PathBuf),
    #[error("{}: there is a log but no tables that belong to it; restore the whole directory from a backup", .0.display())]
    LogWithoutTables(PathBuf),
}

/// The components of a store. [`StoreParts::new`] supplies the defaults.
pub struct StoreParts {
    pub settings: StoreSettings,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub listener: Option<Arc<dyn CommitListener>>,
    pub observer: Arc<dyn StoreObserver>,
    pub disk: Disk,
    /// The destination of old messages; `None` while the archive is disabled.
    pub object_archive: Option<Arc<ObjectArchive>>,
    pub archive: ArchiveSettings,
    /// Called at each step of each checkpoint.
    pub on_checkpoint_step: Arc<dyn Fn(CheckpointStep) + Send + Sync>,
    pub on_archive_step: OnArchiveStep,
    pub work: WorkMode,
}

/// How the store's background work is executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkMode {
    /// On the store's own threads.
    #[default]
    Threads,
    /// By a caller that runs the [`Steps`](crate::Steps) one at a time, so that a seed determines
    /// the schedule. Reads run on the calling thread. The archive does not work here: its jobs wait
    /// for threads.
    Steps,
}

impl StoreParts {
    pub fn new(settings: StoreSettings) -> StoreParts {
        StoreParts {
            settings,
            clock: Arc::new(SystemClock),
            random: Arc::new(SystemRandom),
            listener: None,
            observer: Arc::new(NoObserver),
            disk: Disk::default(),
            object_archive: None,
            archive: ArchiveSettings::default(),
            on_checkpoint_step: Arc::new(|_| {}),
            on_archive_step: Arc::new(|_| true),
            work: WorkMode::default(),
        }
    }
}

/// The components of an open store.
pub struct RunningStore {
    pub lock: Arc<DataLock>,
    pub tables: Arc<Tables>,
    pub residents: Arc<ResidentConversations>,
    pub users: Arc<Users>,
    pub profiles: Arc<Profiles>,
    pub inbox: InboxReader,
    pub queue: Arc<Queue>,
    pub health: Arc<HealthState>,
    pub loader: Arc<ConversationLoader>,
    pub identity: StoreIdentity,
    pub dedupe: Arc<DedupeClock>,
    pub settings: StoreSettings,
    pub archiver: Arc<Archiver>,
    pub working: BackgroundWork,
    pub spares: Arc<Spares>,
}

pub enum BackgroundWork {
    Threads(Threads),
    Steps(Box<Steps>),
}

/// The store's threads, joined in this order. The committer hands over its last generation, the
/// checkpoint thread writes it, and then no more segments are needed.
pub struct Threads {
    pub committer: JoinHandle<()>,
    pub checkpoint: JoinHandle<()>,
    pub provisioner: JoinHandle<()>,
    pub handover: Arc<Handover>,
    pub spares: Arc<Spares>,
}

pub fn open(parts: StoreParts) -> Result<RunningStore, OpenError> {
    let started = Instant::now();
    let directory = parts.settings.data_dir.clone();
    if directory.join(crate::backup::RESTORING).exists() {
        return Err(OpenError::HalfRestored(directory));
    }
    let log_directory = directory.join("log");
    let tables_directory = directory.join("tables");
    for path in [&directory, &log_directory, &tables_directory] {
        create_private(path).map_err(|error| OpenError::Io { path: path.clone(), error })?;
    }
    let lock = DataLock::acquire(&directory)
        .map_err(|error| OpenError::Lock { directory: directory.clone(), error })?;
    let lock = Arc::new(lock);
    let tables = Arc::new(Tables::open(&tables_directory)?);
    let identity = identify(&tables, parts.random.as_ref(), &log_directory)?;

    let residents = Arc::new(ResidentConversations::default());
    let users = Arc::new(Users::default());
    let profiles = Arc::new(Profiles::default());
    let recent = Arc::new(Recent::default());
    let mut generation = Generation::first(Arc::clone(&recent));
    tables.current()?.rebuild_names()?;
    if tables.current()?.rebuild_order()? {
        tracing::warn!("inbox order rebuilt from the inbox rows");
    }
    let mut recovery = Recovery {
        tables: &tables,
        residents: &residents,
        users: &users,
        profiles: &profiles,
        fingerprinter: identity.fingerprinter,
        generation: &mut generation,
    };
    let end = recovery.run(&log_directory, identity.tag)?;
    if end.segments.is_empty() && tables.current()?.log_started()? {
        return Err(OpenError::TablesWithoutLog(log_directory));
    }
    let replayed_bytes = generation.log_bytes;
    let dedupe = Arc::new(dedupe_clock(&tables, &parts)?);
    if let Some(lowest) = generation.lowest_replayed {
        dedupe.observe(lowest);
    }

    let log_io = |error| OpenError::Io { path: log_directory.clone(), error };
    let segment_bytes = parts.settings.segment_bytes;
    let spares = Arc::new(Spares::open(&log_directory, parts.disk.clone(), segment_bytes).map_err(log_io)?);
    let writer = WriterSettings {
        directory: log_directory.clone(),
        segment_bytes,
        tag: identity.tag,
        disk: parts.disk,
    };
    let mut log = LogWriter::resume(writer, Arc::clone(&spares), end).map_err(log_io)?;
    if !tables.current()?.log_started()? {
        log.start().map_err(log_io)?;
        tables.current()?.set_log_started()?;
    }

    let queue = Arc::new(Queue::new(parts.settings.queued_writes));
    let handover = Arc::new(Handover::default());
    let health = Arc::new(HealthState::default());
    let committer = Committer::new(CommitterParts {
        queue: Arc::clone(&queue),
        log,
        generation,
        sequencer: Sequencer {
            tables: Arc::clone(&tables),
            users: Arc::clone(&users),
            profiles: Arc::clone(&profiles),
            dedupe: Arc::clone(&dedupe),
            fingerprinter: identity.fingerprinter,
        },
        users: Arc::clone(&users),
        profiles: Arc::clone(&profiles),
        handover: Arc::clone(&handover),
        health: Arc::clone(&health),
        listener: parts.listener,
        observer: Arc::clone(&parts.observer),
        checkpoint_bytes: parts.settings.checkpoint_bytes,
        checkpoint_idle: Duration::from_secs(parts.settings.checkpoint_idle_seconds),
    });
    let checkpointer = Checkpointer {
        tables: Arc::clone(&tables),
        residents: Arc::clone(&residents),
        users: Arc::clone(&users),
        profiles: Arc::clone(&profiles),
        dedupe: Arc::clone(&dedupe),
        queue: Arc::clone(&queue),
        handover: Arc::clone(&handover),
        observer: parts.observer,
        awake_conversations: parts.settings.awake_conversations,
        on_step: parts.on_checkpoint_step,
    };
    let provisioned = Arc::clone(&spares);
    let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
        std::thread::Builder::new().name(name.to_owned()).spawn(work).map_err(log_io)
    };
    let mut last_run = last_run(&tables)?;
    if parts.object_archive.is_none() {
        // A disabled archive does not retry, so it is not paused.
        last_run = last_run.map(|run| LastRun { paused: None, ..run });
        if let Ok(ColdCount { messages: messages @ 1.., .. }) = tables.current()?.cold_count() {
            tracing::warn!(
                messages,
                "archive disabled but it holds messages; they are unreadable until it is enabled"
            );
        }
    }
    let archiver = Arc::new(Archiver {
        tables: Arc::clone(&tables),
        residents: Arc::clone(&residents),
        queue: Arc::clone(&queue),
        handover: Arc::clone(&handover),
        object_archive: parts.object_archive,
        settings: parts.archive,
        identity,
        clock: Arc::clone(&parts.clock),
        on_step: parts.on_archive_step,
        lock: Arc::clone(&lock),
        state: ArchiverControl::after(last_run),
    });
    let working = match parts.work {
        WorkMode::Threads => BackgroundWork::Threads(Threads {
            committer: spawn("committer", Box::new(move || committer.run()))?,
            checkpoint: spawn("checkpoint", Box::new(move || checkpointer.run()))?,
            provisioner: spawn("log-provisioner", Box::new(move || provisioned.provision()))?,
            handover,
            spares: Arc::clone(&spares),
        }),
        WorkMode::Steps => BackgroundWork::Steps(Box::new(Steps::new(committer, checkpointer))),
    };
    let took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    tracing::info!(directory = %directory.display(), replayed_bytes, took_ms, "store opened");
    let loader = Arc::new(ConversationLoader {
        tables: Arc::clone(&tables),
        residents: Arc::clone(&residents),
        awake_conversations: parts.settings.awake_conversations,
        loaded_weight: AtomicUsize::new(0),
    });
    let inbox = InboxReader {
        tables: Arc::clone(&tables),
        residents: Arc::clone(&residents),
        recent,
        loader: Arc::clone(&loader),
    };
    Ok(RunningStore {
        lock,
        tables,
        residents,
        users,
        profiles,
        inbox,
        queue,
        health,
        loader,
        identity,
        dedupe,
        settings: parts.settings,
        archiver,
        working,
        spares,
    })
}

/// Loads the report of the last archive run. If it is damaged, logs an error and returns `None`, so
/// that the store still opens.
fn last_run(tables: &Tables) -> Result<Option<LastRun>, TablesError> {
    match tables.current()?.last_run() {
        Err(error @ TablesError::Damaged { .. }) => {
            tracing::error!(%error, "report of the last archive run is damaged");
            Ok(None)
        }
        read => read,
    }
}

/// Loads the dedupe clock. If its row is damaged, the store opens and keeps every id for a whole
/// window.
fn dedupe_clock(tables: &Tables, parts: &StoreParts) -> Result<DedupeClock, TablesError> {
    let (clock, window_ms) = (Arc::clone(&parts.clock), parts.settings.dedupe_window_ms());
    match tables.current()?.dedupe_clock() {
        Ok(row) => Ok(DedupeClock::resume(clock, window_ms, row)),
        Err(error @ TablesError::Damaged { .. }) => {
            tracing::error!(%error, "dedupe clock is damaged; every message id is kept for a whole window");
            Ok(DedupeClock::resume_without_row(clock, window_ms))
        }
        Err(error) => Err(error),
    }
}

/// Creates a directory that only its owner may access, because it will hold messages and keys.
/// Leaves an existing directory as it is.
fn create_private(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    if directory.is_dir() {
        return Ok(());
    }
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

fn identify(tables: &Tables, random: &dyn Random, log_directory: &Path) -> Result<StoreIdentity, OpenError> {
    if let Some(identity) = tables.current()?.identity()? {
        tables.current()?.upgrade_format()?;
        return Ok(identity);
    }
    let orphaned = std::fs::read_dir(log_directory)
        .map_err(|error| OpenError::Io { path: log_directory.to_owned(), error })?
        .flatten()
        .any(|entry| entry.path().extension().is_some_and(|extension| extension == "log"));
    if orphaned {
        return Err(OpenError::LogWithoutTables(log_directory.to_owned()));
    }
    let (mut tag, mut key) = ([0; 8], [0; 16]);
    random.fill(&mut tag);
    random.fill(&mut key);
    let identity =
        StoreIdentity { tag: StoreTag(tag), fingerprinter: Fingerprinter(key), epoch: Epoch::FIRST };
    tables.current()?.set_identity(&identity)?;
    Ok(identity)
}

pub(crate) struct Checkpointer {
    tables: Arc<Tables>,
    residents: Arc<ResidentConversations>,
    users: Arc<Users>,
    profiles: Arc<Profiles>,
    dedupe: Arc<DedupeClock>,
    queue: Arc<Queue>,
    handover: Arc<Handover>,
    observer: Arc<dyn StoreObserver>,
    awake_conversations: usize,
    on_step: Arc<dyn Fn(CheckpointStep) + Send + Sync>,
}

impl Checkpointer {
    fn run(self) {
        while let HandoverItem::Generation(mut generation) = self.handover.receive() {
            if !self.write(&mut generation) {
                return;
            }
            self.finish(generation);
        }
    }

    fn finish(&self, generation: Generation) {
        let through: BatchNumber = generation.through;
        drop(generation);
        self.residents.evict(self.awake_conversations);
        self.handover.finished(through);
        self.queue.nudge();
    }

    /// Writes the pending generation, if there is one, on the caller's thread. After a failure the
    /// generation stays pending.
    pub fn step(&self) {
        let Some(mut generation) = self.handover.receive_now() else { return };
        match self.attempt(&mut generation) {
            Ok(report) => {
                self.observer.checkpointed(report);
                self.finish(generation);
            }
            Err(error) => self.handover.give_back(generation, error.to_string()),
        }
    }

    /// Writes the generation and retries until it succeeds. Returns `false` if the store closes
    /// first; the log still contains everything.
    fn write(&self, generation: &mut Generation) -> bool {
        loop {
            let attempt = catch_unwind(AssertUnwindSafe(|| self.attempt(generation)));
            match attempt.unwrap_or_else(|_| Err(TablesError::Panicked)) {
                Ok(report) => {
                    self.observer.checkpointed(report);
                    return true;
                }
                Err(TablesError::Stopped) => {
                    tracing::info!(
                        "store closed before the last checkpoint completed; the next start replays the log"
                    );
                    return false;
                }
                Err(error) => {
                    tracing::error!(%error, "checkpoint failed; will retry, the log keeps all data");
                    // Reopen at once: tables that have shut themselves off cannot be read.
                    if error.needs_reopening()
                        && let Err(error) = self.tables.reopen()
                    {
                        tracing::error!(%error, "reopening the tables failed; will retry");
                    }
                    if !self.handover.failed(error.to_string(), CHECKPOINT_RETRY) {
                        return false;
                    }
                }
            }
        }
    }

    fn attempt(&self, generation: &mut Generation) -> Result<CheckpointReport, TablesError> {
        let engine = self.tables.adding()?;
        let checkpoint = Checkpoint {
            tables: &engine,
            users: &self.users,
            profiles: &self.profiles,
            dedupe: &self.dedupe,
            on_step: self.on_step.as_ref(),
            must_stop: &|| self.handover.must_stop(),
        };
        checkpoint.run(generation)
    }
}
