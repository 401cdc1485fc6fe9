//! What all parts of the store share, and how it is opened and closed.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bluetick_archive::{ArchiveSettings, ObjectArchive};
use bluetick_core::ports::{CommitListener, FleetCounters};
use bluetick_core::time::Clock;
use bluetick_core::{ConversationId, Epoch, StoreError, UserId};
use futures_util::FutureExt;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::EngineSettings;
use crate::NodeId;
use crate::append::Unresolved;
use crate::archive::Archiver;
use crate::fallback::Ledgers;
use crate::flush::Flush;
use crate::hints::Hints;
use crate::hot::{Keeper, Reader};
use crate::keyed::{Lanes, OneAtATime};
use crate::local::Local;
use crate::looked_after::LookedAfter;
use crate::memberships::Memberships;
use crate::mend::Mending;
use crate::neighbours::Neighbours;
use crate::outage::Outage;
use crate::outgoing::Outgoing;
use crate::rooms::Rooms;
use crate::rows::{Rows, RowsError};
use crate::seeding::Seeded;
use crate::standings::Standings;
use crate::told::Told;

/// Everything the store is made of.
pub struct CloudParts {
    pub rows: Arc<dyn Rows>,
    pub hints: Arc<dyn Hints>,
    pub neighbours: Arc<dyn Neighbours>,
    /// The same name that `neighbours` goes by.
    pub node: NodeId,
    pub listener: Arc<dyn CommitListener>,
    pub clock: Arc<dyn Clock>,
    /// As [`read_epoch`](crate::read_epoch) says.
    pub epoch: Epoch,
    pub settings: EngineSettings,
    /// Where old messages go; `None` when the archive is off.
    pub object_archive: Option<Arc<ObjectArchive>>,
    pub archive: ArchiveSettings,
}

/// The store of one node. Dropping it without `close` is like a crash: what is derived is not written.
pub struct CloudStore {
    pub(crate) engine: Arc<Engine>,
    /// Ends with the store.
    tasks: tokio::sync::Mutex<JoinSet<()>>,
}

pub(crate) struct Engine {
    pub rows: Arc<dyn Rows>,
    pub hints: Arc<dyn Hints>,
    pub neighbours: Arc<dyn Neighbours>,
    pub node: NodeId,
    pub listener: Arc<dyn CommitListener>,
    pub clock: Arc<dyn Clock>,
    pub epoch: Epoch,
    /// Why the tables cannot be written, as far as the heartbeat knows.
    pub trouble: Mutex<Option<String>>,
    pub settings: EngineSettings,
    pub memberships: Memberships,
    pub rooms: Rooms,
    pub member_states: Standings,
    pub told: Told,
    pub flush: Flush,
    pub ledgers: Ledgers,
    pub outage: Outage,
    pub local: Local,
    pub outgoing: Outgoing,
    pub mending: Mending,
    pub unresolved: Unresolved,
    pub lanes: Lanes<(ConversationId, UserId)>,
    pub seeding: OneAtATime<ConversationId>,
    pub seeded: Seeded,
    /// Those who may have to come again.
    pub overlooked: LookedAfter<(UserId, ConversationId)>,
    /// Held by whatever is being written; all of it is taken to close.
    pub work: Semaphore,
    /// Wakes the repair of everybody connected here.
    pub repair: Notify,
    pub counters: Counters,
    pub archive: Archiver,
    /// Where cells lie.
    pub keeper: Arc<Keeper>,
    pub reader: Reader,
    /// From when on every other node knows of this one.
    pub arrival: watch::Sender<Option<Instant>>,
    closed: AtomicBool,
}

/// Since the start.
#[derive(Default)]
pub(crate) struct Counters {
    pub voids: Counter,
    pub reseeds: Counter,
    pub fallback_sends: Counter,
    pub news_sent: Counter,
    pub news_received: Counter,
    pub repairs: Counter,
    /// Whether Redis answered last time: 1 or 0.
    pub hints_away: Counter,
}

#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How many writes may be under way besides sends; there to be taken as a whole at the end.
const MOST_WORK: u32 = 1 << 20;

impl CloudStore {
    /// Starts the tasks that need a runtime.
    pub fn open(parts: CloudParts) -> CloudStore {
        let CloudParts {
            rows,
            hints,
            neighbours,
            node,
            listener,
            clock,
            epoch,
            settings,
            object_archive,
            archive,
        } = parts;
        let keeper = Arc::new(Keeper::new(Arc::clone(&rows), settings.layout()));
        let reader = Reader::new(Arc::clone(&rows), Arc::clone(&keeper));
        let engine = Arc::new(Engine {
            keeper,
            reader,
            rows,
            hints,
            neighbours,
            node,
            listener,
            clock,
            epoch,
            trouble: Mutex::new(None),
            settings,
            memberships: Memberships::default(),
            rooms: Rooms::default(),
            member_states: Standings::default(),
            told: Told::default(),
            flush: Flush::default(),
            ledgers: Ledgers::default(),
            outage: Outage::default(),
            local: Local::default(),
            outgoing: Outgoing::default(),
            mending: Mending::default(),
            unresolved: Unresolved::default(),
            lanes: Lanes::default(),
            seeding: OneAtATime::default(),
            seeded: Seeded::default(),
            overlooked: LookedAfter::default(),
            work: Semaphore::new(MOST_WORK as usize),
            repair: Notify::new(),
            counters: Counters::default(),
            archive: Archiver::new(object_archive, archive),
            arrival: watch::Sender::new(None),
            closed: AtomicBool::new(false),
        });
        let mut tasks = JoinSet::new();
        keep_running(&mut tasks, &engine, crate::flush::run);
        keep_running(&mut tasks, &engine, crate::outgoing::run);
        keep_running(&mut tasks, &engine, crate::incoming::run);
        keep_running(&mut tasks, &engine, crate::heart::run);
        keep_running(&mut tasks, &engine, crate::heart::feel);
        keep_running(&mut tasks, &engine, crate::outage::run);
        keep_running(&mut tasks, &engine, crate::mend::run);
        keep_running(&mut tasks, &engine, crate::repair::run);
        keep_running(&mut tasks, &engine, crate::revoked::run);
        CloudStore { engine, tasks: tokio::sync::Mutex::new(tasks) }
    }

    /// What this node has counted, and what is so now.
    pub fn counters_now(&self) -> FleetCounters {
        self.engine.counters_now()
    }

    pub(crate) async fn shut(&self) {
        if self.engine.closed.swap(true, Ordering::SeqCst) {
            return;
        }
        // What was accepted is finished first.
        let _all = self.engine.work.acquire_many(MOST_WORK).await;
        self.engine.flush_everything().await;
        // Nobody else knows of it.
        let _soon = tokio::time::timeout(Duration::from_secs(2), self.engine.note_all_fallbacks()).await;
        let told = tokio::time::timeout(Duration::from_secs(2), self.engine.outgoing.emptied()).await;
        if told.is_err() {
            tracing::warn!("not all news for other nodes could be handed over; they find it by themselves");
        }
        self.engine.neighbours.leave().await;
        self.tasks.lock().await.shutdown().await;
    }
}

/// A task that panics is started again: without its heartbeat a node would pass for dead and go on.
fn keep_running<Running>(
    tasks: &mut JoinSet<()>,
    engine: &Arc<Engine>,
    task: impl Fn(Arc<Engine>) -> Running + Send + 'static,
) where
    Running: Future<Output = ()> + Send + 'static,
{
    let engine = Arc::clone(engine);
    tasks.spawn(async move {
        while AssertUnwindSafe(task(Arc::clone(&engine))).catch_unwind().await.is_err() {
            tracing::error!("a task of the store has panicked; it is started again");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
}

impl Engine {
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Taken by every write. Taken before the flag is read, so that closing waits for whoever saw the store open.
    pub fn begin_write(&self) -> Result<tokio::sync::SemaphorePermit<'_>, StoreError> {
        let permit = self.work.try_acquire().map_err(|_| StoreError::Closing)?;
        if self.is_closed() { Err(StoreError::Closing) } else { Ok(permit) }
    }
}

impl From<RowsError> for StoreError {
    fn from(error: RowsError) -> StoreError {
        match error {
            RowsError::NoAnswer(why) => StoreError::NoAnswer(why.into()),
            RowsError::Refused(why) => StoreError::Failed(why.into()),
        }
    }
}
