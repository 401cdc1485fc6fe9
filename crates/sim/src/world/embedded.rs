//! One server on the embedded store. Its files are real and kept in memory. A simulated disk holds
//! log writes in a volatile cache until they are synced. LMDB manages the tables itself: a crash
//! leaves them as of its last transaction.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use bluetick_core::ports::{CommitListener, NoFleet, Store};
use bluetick_server::{Hub, Metrics};
use bluetick_store_embedded::disk::{Disk, Faults};
use bluetick_store_embedded::{EmbeddedStore, StoreParts, StoreSettings, WorkMode};
use parking_lot::{Mutex, MutexGuard};
use tempfile::TempDir;
use tokio::io::DuplexStream;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::node::{self, Node};
use crate::audit::Guarantee;
use crate::clock::SimClock;
use crate::cluster::{Cluster, Nodes, SeededRandom};
use crate::dice::Dice;
use crate::faults::Fault;
use crate::plant::{PlantedBug, rig_listener, rig_store};

pub struct Embedded {
    town: Arc<Cluster>,
    plant: Option<PlantedBug>,
    clock: Arc<SimClock>,
    dice: Mutex<Dice>,
    life: Mutex<Option<SimulatedServer>>,
    lives: AtomicU64,
    /// Notified when the disk loses power during an operation.
    went_dark: Arc<Notify>,
    off_ms: AtomicI64,
}

/// The server between two starts.
struct SimulatedServer {
    node: Node,
    directory: Arc<TempDir>,
    faults: Arc<Faults>,
    /// The files as a crash during a checkpoint left them.
    image: Arc<Mutex<Option<TempDir>>>,
    /// Countdown of checkpoint steps until the power fails; 0: no failure is planned.
    checkpoint_steps: Arc<AtomicU64>,
    is_slow: Arc<AtomicBool>,
    store: Arc<EmbeddedStore>,
}

impl Embedded {
    pub async fn open(town: &Arc<Cluster>, plant: Option<PlantedBug>) -> Arc<Embedded> {
        let embedded = Arc::new(Embedded {
            town: Arc::clone(town),
            plant,
            clock: Arc::new(SimClock::new(Instant::now())),
            dice: Mutex::new(town.dice.of("disk")),
            life: Mutex::default(),
            lives: AtomicU64::new(0),
            went_dark: Arc::default(),
            off_ms: AtomicI64::new(0),
        });
        let directory = in_memory();
        embedded.start(directory).await;
        town.open_for(Arc::clone(&embedded) as Arc<dyn Nodes>);
        let watched = Arc::downgrade(&embedded);
        let went_dark = Arc::clone(&embedded.went_dark);
        tokio::spawn(async move {
            loop {
                went_dark.notified().await;
                let Some(embedded) = watched.upgrade() else { return };
                embedded.crash_and_return().await;
            }
        });
        embedded
    }

    fn life(&self) -> MutexGuard<'_, Option<SimulatedServer>> {
        self.life.lock()
    }

    fn throw<T>(&self, throw: impl FnOnce(&mut Dice) -> T) -> T {
        throw(&mut self.dice.lock())
    }

    fn note(&self, what: impl std::fmt::Display) {
        self.town.trace.note("server", what);
    }

    async fn start(&self, directory: TempDir) {
        let life = self.lives.fetch_add(1, Ordering::SeqCst);
        let name = format!("life {life}");
        let faults = Arc::new(Faults::default());
        faults.volatile.store(true, Ordering::SeqCst);
        if self.plant == Some(PlantedBug::AckBeforeSync) {
            faults.lying_sync.store(true, Ordering::SeqCst);
        }
        let metrics = Metrics::new();
        let hub = Hub::in_steps(Arc::clone(&metrics));
        let listener = rig_listener(self.plant, Arc::clone(&hub) as Arc<dyn CommitListener>);
        let (directory, image) = (Arc::new(directory), Arc::<Mutex<Option<TempDir>>>::default());
        let checkpoint_steps = Arc::new(AtomicU64::new(0));
        let settings = StoreSettings {
            data_dir: directory.path().to_owned(),
            segment_bytes: 256 << 10,
            checkpoint_bytes: 8 << 10,
            checkpoint_idle_seconds: 5,
            awake_conversations: 2,
            page_cache_bytes: 4 << 10,
            dedupe_window_seconds: match self.plant {
                Some(PlantedBug::DedupeForgottenAtRestart) if life > 0 => 0,
                _ => StoreSettings::default().dedupe_window_seconds,
            },
            ..StoreSettings::default()
        };
        let parts = StoreParts {
            clock: Arc::clone(&self.clock) as _,
            random: Arc::new(SeededRandom::new(self.town.dice.of("store"))),
            listener: Some(listener),
            disk: Disk::with_faults(Arc::clone(&faults)),
            on_checkpoint_step: power_failure(&directory, &faults, &image, &checkpoint_steps),
            work: WorkMode::Steps,
            ..StoreParts::new(settings)
        };
        let store = match EmbeddedStore::open(parts) {
            Ok(store) => Arc::new(store),
            Err(error) => {
                let what = format!("the store does not open after a crash: {error}");
                return self.town.auditor().find(Guarantee::NoLoss, None, what);
            }
        };
        let rigged = rig_store(self.plant, Arc::clone(&store) as Arc<dyn Store>);
        let clock = Arc::clone(&self.clock);
        let mut node = node::serve(&self.town, &name, hub, metrics, rigged, Arc::new(NoFleet), clock).await;
        let is_slow = Arc::new(AtomicBool::new(false));
        let dice = self.town.dice.of(&format!("steps of {name}"));
        let dark = Arc::clone(&self.went_dark);
        let (town, steps) = (Arc::clone(&self.town), Arc::clone(&store));
        node.steps.spawn(take_steps(town, steps, Arc::clone(&faults), Arc::clone(&is_slow), dark, dice));
        self.note(format_args!("starts its {name}"));
        *self.life() =
            Some(SimulatedServer { node, directory, faults, image, checkpoint_steps, is_slow, store });
    }

    /// Cuts the power and returns the surviving files. Unsynced writes survive completely, partly
    /// or not at all.
    fn crash(&self) -> Option<TempDir> {
        let life = self.life().take()?;
        // Cut the connections first, so that no client sees the effects of what the node still
        // does.
        self.town.network.cut_all(0);
        let image = life.image.lock().take();
        if let Some(image) = image {
            self.note("loses power during a checkpoint");
            return Some(image);
        }
        self.note("loses power");
        let survived = |length: usize| {
            let most = length as u64;
            let kept = self.throw(|dice| match dice.below(3) {
                0 => 0,
                1 => most,
                _ => dice.below(most + 1),
            });
            usize::try_from(kept).unwrap_or(length)
        };
        life.faults.cut_power_but(survived).expect("the files are in memory");
        Some(copy_of(life.directory.path()))
    }

    async fn crash_and_return(&self) {
        let Some(directory) = self.crash() else { return };
        let pause = self.throw(|dice| dice.millis(50, 3_000));
        sleep(pause).await;
        self.start(directory).await;
    }

    /// Shuts the server down gracefully and starts it again.
    async fn restart(&self) {
        let Some(life) = self.life().take() else { return };
        self.note("receives the stop signal");
        let SimulatedServer { node, directory, store, .. } = life;
        node.server.drain().await;
        drop((store, node.steps));
        self.town.network.cut_all(0);
        let next = copy_of(directory.path());
        self.start(next).await;
    }

    pub async fn suffer(&self, fault: Fault) {
        let faults = self.life().as_ref().map(|life| Arc::clone(&life.faults));
        let Some(faults) = faults else { return };
        match fault {
            Fault::Crash => self.crash_and_return().await,
            Fault::CrashWhileWriting => {
                let left = self.throw(|dice| dice.between(1, 6));
                self.note(format_args!("will lose power after {left} disk operations"));
                faults.power_left.store(left, Ordering::SeqCst);
            }
            Fault::CrashInCheckpoint => {
                let left = self.throw(|dice| dice.between(1, 8));
                self.note(format_args!("will lose power after {left} checkpoint steps"));
                let steps = self.life().as_ref().map(|life| Arc::clone(&life.checkpoint_steps));
                steps.inspect(|steps| steps.store(left, Ordering::SeqCst));
            }
            Fault::Restart => self.restart().await,
            Fault::DiskFull => self.for_a_while("a full disk", &faults.full).await,
            Fault::DiskFails => self.for_a_while("a disk that fails to sync", &faults.sync_fails).await,
            Fault::DiskSlow => {
                let slow = self.life().as_ref().map(|life| Arc::clone(&life.is_slow));
                if let Some(slow) = slow {
                    self.for_a_while("a slow disk", &slow).await;
                }
            }
            Fault::ClockJump => {
                let hour = 3_600_000;
                let by = self.throw(|dice| dice.between(0, 2 * hour));
                let by = i64::try_from(by).unwrap_or(0) - i64::try_from(hour).unwrap_or(0);
                self.note(format_args!("has its clock set by {by} ms"));
                self.off_ms.fetch_add(by, Ordering::SeqCst);
                self.town.counts.clocks_set.fetch_add(1, Ordering::SeqCst);
                self.clock.jump(by);
            }
            _ => {}
        }
    }

    async fn for_a_while(&self, what: &str, switch: &AtomicBool) {
        self.note(format_args!("has {what}"));
        switch.store(true, Ordering::SeqCst);
        let pause = self.throw(|dice| dice.millis(100, 3_000));
        sleep(pause).await;
        switch.store(false, Ordering::SeqCst);
        self.note(format_args!("no longer has {what}"));
    }

    pub async fn heal(&self) {
        loop {
            if let Some(life) = self.life().as_ref() {
                let faults = &life.faults;
                for switch in [&faults.full, &faults.sync_fails, life.is_slow.as_ref()] {
                    switch.store(false, Ordering::SeqCst);
                }
                faults.power_left.store(0, Ordering::SeqCst);
                life.checkpoint_steps.store(0, Ordering::SeqCst);
                if !faults.dark.load(Ordering::SeqCst) {
                    break;
                }
            }
            if self.town.is_broken() {
                return;
            }
            sleep(std::time::Duration::from_millis(100)).await;
        }
        self.town.counts.clocks_set.fetch_add(1, Ordering::SeqCst);
        self.clock.set_right();
        self.note("has no more faults");
    }
}

impl Nodes for Embedded {
    fn count(&self) -> usize {
        1
    }

    fn connect(&self, _node: usize) -> Option<DuplexStream> {
        self.life().as_ref().map(|life| life.node.server.connect_in_memory(IpAddr::V4(Ipv4Addr::LOCALHOST)))
    }
}

/// Creates a directory in memory if `/dev/shm` exists. Syncs are cheap there; the simulated disk
/// decides what is lost.
fn in_memory() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
    made.expect("there is room for a directory")
}

/// Copies the files to a new directory.
fn copy_of(directory: &Path) -> TempDir {
    let copy = in_memory();
    copy_into(directory, copy.path()).expect("the files are in memory");
    copy
}

fn copy_into(from: &Path, to: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            std::fs::create_dir_all(&target)?;
            copy_into(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Returns a hook that counts checkpoint steps down. At the chosen step it cuts the power and
/// copies the files.
fn power_failure(
    directory: &Arc<TempDir>,
    faults: &Arc<Faults>,
    image: &Arc<Mutex<Option<TempDir>>>,
    steps: &Arc<AtomicU64>,
) -> Arc<dyn Fn(bluetick_store_embedded::checkpoint::CheckpointStep) + Send + Sync> {
    let (directory, faults) = (Arc::clone(directory), Arc::clone(faults));
    let (image, steps) = (Arc::clone(image), Arc::clone(steps));
    Arc::new(move |_| {
        let left = steps.load(Ordering::SeqCst);
        if left == 0 {
            return;
        }
        steps.store(left - 1, Ordering::SeqCst);
        if left == 1 {
            faults.cut_power(0).expect("the files are in memory");
            let taken = copy_of(directory.path());
            *image.lock() = Some(taken);
        }
    })
}

/// Does the work of the store's threads, at random times.
async fn take_steps(
    town: Arc<Cluster>,
    store: Arc<EmbeddedStore>,
    faults: Arc<Faults>,
    is_slow: Arc<AtomicBool>,
    went_dark: Arc<Notify>,
    mut dice: Dice,
) {
    let steps = store.steps().expect("the store was opened for stepwise work");
    loop {
        let longest = if is_slow.load(Ordering::SeqCst) { 400 } else { 8 };
        sleep(dice.millis(1, longest)).await;
        match dice.below(10) {
            0 => steps.checkpoint(),
            _ => steps.commit(),
        }
        if faults.dark.load(Ordering::SeqCst) {
            // Cut the connections before a client can see the effect of the last step.
            town.network.cut_all(0);
            went_dark.notify_one();
            return;
        }
    }
}
