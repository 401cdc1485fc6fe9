//! Several servers on shared tables and a shared Redis, all in memory. Each node has its own faulty
//! connection to both.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bluetick_archive::ArchiveSettings;
use bluetick_core::Epoch;
use bluetick_core::Seq;
use bluetick_core::ports::{CommitListener, Store};
use bluetick_server::{Hub, Metrics};
use bluetick_store_cloud::hints::memory::MemoryHints;
use bluetick_store_cloud::hot::Layout;
use bluetick_store_cloud::neighbours::memory::Street;
use bluetick_store_cloud::rows::memory::MemoryRows;
use bluetick_store_cloud::{CloudParts, CloudStore, EngineSettings, NodeId};
use parking_lot::{Mutex, MutexGuard};
use tokio::io::DuplexStream;
use tokio::time::{Instant, sleep};

use super::bus::Post;
use super::cache::Wire;
use super::node::{self, Node};
use super::rows::FaultyRows;
use crate::clock::SimClock;
use crate::cluster::{Cluster, Nodes};
use crate::dice::Dice;
use crate::faults::Fault;
use crate::plant::{PlantedBug, rig_listener, rig_store};

pub struct SimulatedFleet {
    town: Arc<Cluster>,
    plant: Option<PlantedBug>,
    rows: Arc<MemoryRows>,
    hints: MemoryHints,
    street: Street,
    redis_is_away: Arc<AtomicBool>,
    dice: Mutex<Dice>,
    places: Mutex<BTreeMap<usize, RunningNode>>,
    lives: AtomicU64,
    count: usize,
    began: Instant,
    /// Whether every conversation is always spread over partitions.
    is_hot: bool,
}

/// A running node, from start to stop.
struct RunningNode {
    node: Node,
    name: String,
    way: Arc<FaultyRows>,
    wire: Arc<Wire>,
    clock: Arc<SimClock>,
}

/// Time after which the cluster membership drops a crashed node, as if its entry in Redis had
/// expired. With a shorter time, fewer events go to crashed nodes.
const FORGOTTEN: Duration = Duration::from_secs(10);
/// Layout of hot conversations. The sizes are small, so that runs cross the boundaries of blocks
/// and partitions often. Larger sizes leave those boundaries untested.
const HOT: Layout =
    Layout { block: 2, plain_through: Seq::new(4), ahead: 8, most_partitions: 4, restless: true };

impl SimulatedFleet {
    pub async fn open(town: &Arc<Cluster>, plant: Option<PlantedBug>) -> Arc<SimulatedFleet> {
        let mut dice = town.dice.of("fleet");
        let count = usize::try_from(dice.between(2, 3)).unwrap_or(2);
        let fleet = Arc::new(SimulatedFleet {
            town: Arc::clone(town),
            plant,
            rows: Arc::default(),
            hints: MemoryHints::default(),
            street: Street::default(),
            redis_is_away: Arc::default(),
            is_hot: dice.one_in(3),
            dice: Mutex::new(dice),
            places: Mutex::default(),
            lives: AtomicU64::new(0),
            count,
            began: Instant::now(),
        });
        for number in 0..count {
            fleet.start(number).await;
        }
        town.open_for(Arc::clone(&fleet) as Arc<dyn Nodes>);
        fleet
    }

    fn places(&self) -> MutexGuard<'_, BTreeMap<usize, RunningNode>> {
        self.places.lock()
    }

    fn throw<T>(&self, throw: impl FnOnce(&mut Dice) -> T) -> T {
        throw(&mut self.dice.lock())
    }

    fn note(&self, what: impl std::fmt::Display) {
        self.town.trace.note("fleet", what);
    }

    fn settings(&self) -> EngineSettings {
        let usual = EngineSettings::default();
        match self.is_hot {
            true => EngineSettings { layout: HOT, most_partitions: HOT.most_partitions, ..usual },
            false => usual,
        }
    }

    async fn start(&self, number: usize) {
        let life = self.lives.fetch_add(1, Ordering::SeqCst);
        let name = format!("node-{life}");
        let way = FaultyRows::new(
            Arc::clone(&self.rows),
            self.town.dice.of(&format!("rows of {name}")),
            self.plant,
        );
        let way = Arc::new(way);
        let dice = self.town.dice.of(&format!("hints of {name}"));
        let wire = Arc::new(Wire::new(self.hints.clone(), Arc::clone(&self.redis_is_away), dice));
        let clock = Arc::new(SimClock::new(self.began));
        let metrics = Metrics::new();
        let hub = Hub::in_steps(Arc::clone(&metrics));
        let id = NodeId::new(name.clone());
        let store = Arc::new(CloudStore::open(CloudParts {
            rows: Arc::clone(&way) as _,
            hints: Arc::clone(&wire) as _,
            neighbours: Arc::new(Post {
                neighbours: self.street.move_in(id.clone()),
                wire: Arc::clone(&wire),
            }),
            node: id,
            listener: rig_listener(self.plant, Arc::clone(&hub) as Arc<dyn CommitListener>),
            clock: Arc::clone(&clock) as _,
            epoch: Epoch::FIRST,
            settings: self.settings(),
            object_archive: None,
            archive: ArchiveSettings::default(),
        }));
        let rigged = rig_store(self.plant, Arc::clone(&store) as Arc<dyn Store>);
        let node = node::serve(&self.town, &name, hub, metrics, rigged, store, Arc::clone(&clock)).await;
        self.note(format_args!("{name} starts"));
        self.places().insert(number, RunningNode { node, name, way, wire, clock });
    }

    /// Returns the number of a random node, which may be down.
    fn any(&self) -> usize {
        self.throw(|dice| usize::try_from(dice.below(self.count as u64)).unwrap_or(0))
    }

    fn with_any(&self, what: impl FnOnce(&RunningNode)) {
        let number = self.any();
        if let Some(place) = self.places().get(&number) {
            what(place);
        }
    }

    async fn crash_and_return(&self) {
        let number = self.any();
        let Some(place) = self.places().remove(&number) else { return };
        self.town.network.cut_all(number);
        self.note(format_args!("{} crashes", place.name));
        place.way.is_dead.store(true, Ordering::SeqCst);
        place.wire.is_dead.store(true, Ordering::SeqCst);
        let (name, street) = (place.name.clone(), self.street.clone());
        drop(place);
        tokio::spawn(async move {
            sleep(FORGOTTEN).await;
            street.bury(&name);
        });
        sleep(self.throw(|dice| dice.millis(100, 5_000))).await;
        self.start(number).await;
    }

    async fn restart(&self) {
        let number = self.any();
        let Some(place) = self.places().remove(&number) else { return };
        self.note(format_args!("{} receives the stop signal", place.name));
        place.node.server.drain().await;
        self.town.network.cut_all(number);
        self.start(number).await;
    }

    pub async fn suffer(&self, fault: Fault) {
        let often = self.throw(|dice| dice.between(3, 30));
        match fault {
            Fault::Crash => self.crash_and_return().await,
            Fault::Restart => self.restart().await,
            Fault::RedisAway => {
                self.note("Redis is unavailable");
                self.redis_is_away.store(true, Ordering::SeqCst);
                sleep(self.throw(|dice| dice.millis(100, 8_000))).await;
                self.redis_is_away.store(false, Ordering::SeqCst);
                self.note("Redis is available again");
            }
            Fault::RedisAwayForOne => {
                let number = self.any();
                let wire = self.places().get(&number).map(|place| Arc::clone(&place.wire));
                let Some(wire) = wire else { return };
                self.note(format_args!("Redis is unavailable for node {number} alone"));
                wire.is_away.store(true, Ordering::SeqCst);
                sleep(self.throw(|dice| dice.millis(100, 5_000))).await;
                wire.is_away.store(false, Ordering::SeqCst);
            }
            Fault::RedisForgets => {
                self.note("Redis loses all data");
                self.hints.forget_everything();
                self.street.lose_news();
            }
            Fault::RedisStutters => self.with_any(|place| {
                self.note(format_args!("Redis fails {} one time in {often}", place.name));
                place.wire.fails.store(often, Ordering::SeqCst);
            }),
            Fault::RedisActsLate => self.with_any(|place| {
                self.note(format_args!("Redis executes calls of {} late one time in {often}", place.name));
                place.wire.acts_late.store(often, Ordering::SeqCst);
            }),
            Fault::CounterSetBack => {
                let all = self.town.auditor().conversations();
                if !all.is_empty() {
                    let (id, by) = self.throw(|dice| (*dice.pick(&all), dice.between(1, 20)));
                    self.note(format_args!("a Redis counter is set back by {by}"));
                    self.hints.rewind(id, by);
                }
            }
            Fault::TablesRefuse => self.with_any(|place| {
                self.note(format_args!("the tables refuse {} one time in {often}", place.name));
                place.way.refuses.store(often, Ordering::SeqCst);
            }),
            Fault::TablesLoseAnswers => self.with_any(|place| {
                self.note(format_args!("the tables do not answer {} one time in {often}", place.name));
                place.way.loses_answers.store(often, Ordering::SeqCst);
            }),
            Fault::TablesActLate => self.with_any(|place| {
                self.note(format_args!(
                    "the tables execute requests of {} late one time in {often}",
                    place.name
                ));
                place.way.acts_late.store(often, Ordering::SeqCst);
            }),
            Fault::TablesSlow => self.with_any(|place| {
                self.note(format_args!("the tables are slow for {} one time in {often}", place.name));
                place.way.is_slow.store(often, Ordering::SeqCst);
            }),
            Fault::NewsLate => {
                let number = self.any();
                let name = self.places().get(&number).map(|place| place.name.clone());
                let Some(name) = name else { return };
                self.note(format_args!("events from {name} are delayed"));
                self.street.hold_letters_from(&name);
                sleep(self.throw(|dice| dice.millis(50, 3_000))).await;
                self.street.deliver_letters();
            }
            Fault::ClockJump => {
                let by = self.throw(|dice| dice.between(0, 7_200_000));
                let by = i64::try_from(by).unwrap_or(0) - 3_600_000;
                self.with_any(|place| {
                    self.note(format_args!("the clock of {} is set by {by} ms", place.name));
                    self.town.counts.clocks_set.fetch_add(1, Ordering::SeqCst);
                    place.clock.jump(by);
                });
            }
            Fault::Mended => self.with_any(|place| {
                self.note(format_args!("{} has no more faults", place.name));
                place.way.heal();
                place.wire.heal();
            }),
            _ => {}
        }
    }

    pub async fn heal(&self) {
        self.redis_is_away.store(false, Ordering::SeqCst);
        self.street.deliver_letters();
        for number in 0..self.count {
            while !self.places().contains_key(&number) && !self.town.is_broken() {
                sleep(Duration::from_millis(100)).await;
            }
        }
        for place in self.places().values() {
            place.way.heal();
            place.wire.heal();
            place.clock.set_right();
        }
        self.redis_is_away.store(false, Ordering::SeqCst);
        self.note("has no more faults");
    }
}

impl Nodes for SimulatedFleet {
    fn count(&self) -> usize {
        self.count
    }

    fn connect(&self, node: usize) -> Option<DuplexStream> {
        self.places()
            .get(&node)
            .map(|place| place.node.server.connect_in_memory(IpAddr::V4(Ipv4Addr::LOCALHOST)))
    }
}
