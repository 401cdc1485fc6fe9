//! Runs one seed from start to end.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use bluetick_core::ConversationId;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::audit::{AuditFinding, Guarantee};
use crate::cluster::{Cluster, person, short};
use crate::device::{Device, DeviceReport};
use crate::dice::Dice;
use crate::entropy;
use crate::faults::{Fault, weather};
use crate::http_auditor::HttpAuditor;
use crate::ledger::close;
use crate::plant::PlantedBug;
use crate::user_session::UserSession;
use crate::world::{World, WorldKind};

/// The complete input of a run: equal plans produce equal traces.
#[derive(Clone, Debug)]
pub struct RunPlan {
    pub seed: u64,
    pub world: WorldKind,
    pub faults: BTreeSet<Fault>,
    /// Length of the busy phase in simulated time. Afterwards clients start nothing new and faults
    /// stop.
    pub busy: Duration,
    pub plant: Option<PlantedBug>,
}

impl RunPlan {
    /// Without an explicit `world`, even seeds run embedded and odd seeds run fleet.
    pub fn new(seed: u64, world: Option<WorldKind>) -> RunPlan {
        let by_seed = if seed.is_multiple_of(2) { WorldKind::Embedded } else { WorldKind::Fleet };
        let world = world.unwrap_or(by_seed);
        let busy = Duration::from_secs(Dice::new(seed).of("how long").between(10, 60));
        RunPlan { seed, world, faults: Fault::of(world), busy, plant: None }
    }

    /// Plans a run with a deliberate bug, in the world that the bug belongs to.
    pub fn planted(seed: u64, plant: PlantedBug) -> RunPlan {
        RunPlan { plant: Some(plant), ..RunPlan::new(seed, Some(plant.world())) }
    }
}

#[derive(Default, Deserialize, Serialize)]
pub struct RunOutcome {
    pub finding: Option<AuditFinding>,
    pub trace: Vec<String>,
    pub simulated: Duration,
    pub faults: u64,
    pub sends: u64,
    pub connections: u64,
    pub requests: u64,
    /// Number of extra threads that the runtime started. The seed does not control them, so it must
    /// be 0.
    pub threads: u64,
}

thread_local! {
    /// Messages of the panics of this thread.
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Installs a panic hook that collects panics of the simulated thread instead of printing them.
/// `run` reports the first one as a finding.
fn collect_panics() {
    /// Ensures that the hook is installed once per process.
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let is_simulated = std::thread::current().name() == Some(THREAD);
            match is_simulated {
                true => PANICS.with_borrow_mut(|panics| panics.push(panic.to_string())),
                false => usual(panic),
            }
        }));
    });
}

/// Name of the simulated thread. The panic hook recognizes panics of a run by it; with another name
/// it prints them instead of reporting a finding.
const THREAD: &str = "simulated";

/// Runs the plan in a new thread whose random source is seeded. Only the first run of a process is
/// reproducible: process-wide counters, such as those of the runtime, change later runs.
pub fn run(plan: &RunPlan) -> RunOutcome {
    collect_panics();
    let plan = plan.clone();
    let running = std::thread::Builder::new().name(THREAD.to_owned()).spawn(move || {
        entropy::seed(plan.seed);
        let threads = Arc::new(AtomicU64::new(0));
        let started = Arc::clone(&threads);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .on_thread_start(move || {
                started.fetch_add(1, Ordering::SeqCst);
            })
            .build();
        let runtime = runtime.expect("the system can start a runtime");
        let told = catch_unwind(AssertUnwindSafe(|| {
            let outcome = runtime.block_on(story(&plan));
            drop(runtime);
            outcome
        }));
        let mut outcome = told.unwrap_or_default();
        outcome.threads = threads.load(Ordering::SeqCst);
        if let Some(panic) = PANICS.take().first() {
            let what = format!("something panicked: {panic}");
            outcome.finding = Some(AuditFinding { guarantee: Guarantee::NoLoss, what, conversation: None });
        }
        outcome
    });
    let running = running.expect("a thread can be started");
    running.join().expect("the simulation catches panics of its servers")
}

/// Number of simulated users. `settle_in` needs at least 5.
const PEOPLE: usize = 5;

async fn story(plan: &RunPlan) -> RunOutcome {
    let town = Cluster::new(Dice::new(plan.seed));
    let world = Arc::new(World::open(plan.world, &town, plan.plant).await);
    let mut visitors: Vec<HttpAuditor> =
        (0..PEOPLE).map(|number| HttpAuditor::new(&town, number, PEOPLE, is_forgetful(number))).collect();
    if settle_in(&town, &mut visitors).await.is_none() {
        town.auditor().find(Guarantee::NoLoss, None, "a server without faults does not answer".to_owned());
    }
    let mut devices = JoinSet::new();
    let mut reports = BTreeMap::new();
    for (number, visitor) in visitors.iter().enumerate() {
        let count = 1 + number % 2;
        for device in 0..count {
            let ids = visitor.conversations().to_vec();
            let device = Device::new(&town, visitor.user.clone(), device, ids, is_forgetful(number));
            let (done, watched) = watch::channel(DeviceReport::default());
            reports.insert(device.name().to_owned(), (visitor.user.clone(), watched));
            devices.spawn(device.live(done));
        }
    }
    let visiting: JoinSet<HttpAuditor> = visitors.into_iter().map(HttpAuditor::live).collect();
    let lodging = UserSession::new(&town, PEOPLE, plan.world == WorldKind::Embedded);
    let lodging = tokio::spawn(lodging.live());
    let breaking = tokio::spawn({
        let (town, world, faults) = (Arc::clone(&town), Arc::clone(&world), plan.faults.clone());
        async move { weather(&town, &world, &faults).await }
    });
    busy(&town, plan.busy).await;
    town.trace.note("all", "the busy phase ends");
    town.calm_down();
    let mut visitors = visiting.join_all().await;
    visitors.sort_by(|one, other| one.user.cmp(&other.user));
    if breaking.await.is_err() {
        town.auditor().find(Guarantee::NoLoss, None, "the fault injection panicked".to_owned());
    }
    let mut lodger = lodging.await.expect("the runtime's thread records panics");
    if !town.is_broken() {
        town.network.set_weather(5, 0);
        world.heal().await;
        close(&town, &mut visitors, &reports).await;
        if !town.is_broken() {
            lodger.close().await;
        }
    }
    town.end();
    devices.shutdown().await;
    let finding = town.auditor().finding().cloned();
    if let Some(finding) = &finding {
        town.trace.note("auditor", format_args!("{}: {}", finding.guarantee, finding.what));
    }
    RunOutcome {
        finding,
        simulated: town.trace.elapsed(),
        trace: town.trace.take(),
        faults: town.counts.faults.load(Ordering::SeqCst),
        sends: town.counts.sends.load(Ordering::SeqCst),
        connections: town.counts.connections.load(Ordering::SeqCst),
        requests: town.counts.requests.load(Ordering::SeqCst),
        threads: 0,
    }
}

/// Users 2 and 4 have one device, which forgets its positions. User 0 also has one device; users 1
/// and 3 have two. Their devices keep their positions.
fn is_forgetful(person: usize) -> bool {
    person.is_multiple_of(2) && person > 0
}

async fn busy(town: &Cluster, time: Duration) {
    let end = tokio::time::Instant::now() + time;
    while tokio::time::Instant::now() < end && !town.is_broken() {
        sleep(Duration::from_millis(100)).await;
    }
}

/// Creates four direct conversations, a group of four, and a group that user 1 adds members to
/// later. Returns `None` if a server does not answer.
async fn settle_in(town: &Cluster, visitors: &mut [HttpAuditor]) -> Option<()> {
    for (one, other) in [(0, 1), (1, 2), (3, 4), (0, 3)] {
        let id = visitors[one].open(&json!({"kind": "direct", "peer": person(other).as_str()})).await?;
        let_in(town, visitors, id, &[one, other], None);
    }
    let everybody: Vec<_> = (1..4).map(|number| person(number).to_string()).collect();
    let id = visitors[0].open(&json!({"kind": "group", "title": "some", "members": everybody})).await?;
    let_in(town, visitors, id, &[0, 1, 2, 3], None);
    let id = visitors[1].open(&json!({"kind": "group", "title": "growing", "members": ["p2"]})).await?;
    let_in(town, visitors, id, &[1, 2], Some(1));
    Some(())
}

fn let_in(
    town: &Cluster,
    visitors: &mut [HttpAuditor],
    id: ConversationId,
    members: &[usize],
    host: Option<usize>,
) {
    let names: Vec<_> = members.iter().map(|member| person(*member).to_string()).collect();
    town.trace.note("all", format_args!("{} is {}", short(id), names.join(", ")));
    for member in members {
        town.auditor().founded(id, &person(*member));
        visitors[*member].belongs_to(id, host == Some(*member));
    }
}
