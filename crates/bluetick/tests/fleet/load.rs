//! A load on a fleet: devices reconnect to any running node while a test injects faults. Afterwards
//! the checker compares all devices with the history.

use std::sync::Arc;
use std::time::Duration;

use bluetick_testkit::device::{Device, DeviceCounts};
use bluetick_testkit::dice::Dice;
use bluetick_testkit::fleet::FleetProcesses;
use bluetick_testkit::load::{
    ChurningMember, Judge, Scene, Sizes, comings_and_goings, flush, last_words, settle, together,
};
use bluetick_testkit::meter::{Meter, Reading};
use tokio::time::{Instant, sleep};

/// A load that a machine with two cores can run beside three servers and their engines.
pub fn sizes(seconds: u64) -> Sizes {
    Sizes { clients: 18, conversations: 8, seconds, ..Sizes::from_environment() }
}

/// Bounds every wait for progress. It allows for a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Load {
    pub sizes: Sizes,
    pub scene: Scene,
    pub devices: Vec<Device>,
    pub meter: Arc<Meter>,
    dice: Dice,
}

/// The result of a run.
#[derive(Debug)]
pub struct Verdict {
    pub happened: DeviceCounts,
    /// The reconnect delays that servers sent at shutdown, in milliseconds.
    pub sent_away_ms: Vec<u64>,
}

impl Load {
    pub async fn connect(fleet: &FleetProcesses, sizes: Sizes) -> Load {
        println!("{sizes}");
        let mut dice = Dice::new(sizes.seed);
        let scene = Scene::set_up(fleet.address(0), &sizes, &mut dice).await;
        let meter: Arc<Meter> = Arc::default();
        let devices = scene.devices(&sizes, &mut dice).into_iter();
        let mut devices: Vec<Device> = devices.map(|device| device.patient().counted_by(&meter)).collect();
        for device in &mut devices {
            device.habits.pause_ms *= 2;
        }
        Load { sizes, scene, devices, meter, dice }
    }

    /// Runs the load until `disturbance` ends, then checks every device.
    pub async fn run_with_faults(
        mut self,
        fleet: &mut FleetProcesses,
        disturbance: impl AsyncFnOnce(&mut FleetProcesses, &Meter),
    ) -> Verdict {
        let situation = fleet.situation();
        let running: Vec<_> = self.devices.drain(..).map(|device| device.storm(situation.clone())).collect();
        let changes = comings_and_goings(ChurningMember::all(&self.scene), self.dice.fork(), situation);
        let meter = Arc::clone(&self.meter);
        let warm = 2 * self.sizes.clients as u64;
        let disturbance = async {
            // Wait for a warm-up: servers and engines are slow right after their start.
            let start = Instant::now();
            while meter.read().acknowledged < warm && start.elapsed() < PATIENCE {
                sleep(Duration::from_millis(50)).await;
            }
            disturbance(fleet, &meter).await;
            fleet.stop_the_crowd();
        };
        let ((), devices, changes) = tokio::join!(disturbance, together(running), changes);
        println!("{changes} changes of members");
        self.devices = devices;
        self.judge(fleet).await
    }

    /// Brings every device up to date, each step on another node, and compares everything.
    async fn judge(mut self, fleet: &FleetProcesses) -> Verdict {
        let addresses = fleet.addresses();
        let node = |number: usize| addresses[number % addresses.len()].as_str();
        let devices = flush(self.devices, node(0)).await;
        let devices = last_words(devices, &self.scene, node(1)).await;
        let devices = settle(devices, node(2)).await;
        let judge = Judge::new(&self.scene, node(0)).await;
        let checked = judge.logs(&devices);
        let compared = judge.views(&devices);
        judge.ticks_within_bounds(node(1), &devices).await;
        let standing = judge.last_marks(node(2), &devices, &mut self.dice).await;
        for address in &addresses {
            judge.numbers(address, &standing, &mut self.dice).await;
        }
        let complaints = fleet.complaints();
        let seed = self.sizes.seed;
        assert!(complaints.is_empty(), "seed {seed}: the servers logged\n{}", complaints.join("\n"));
        let happened =
            devices.iter().fold(DeviceCounts::default(), |sum, device| sum.and(device.record.happened));
        let voids = judge.threads.values().flat_map(|thread| &thread.messages);
        let voids = voids.filter(|message| message.is_void()).count();
        let sent_away_ms = devices.iter().flat_map(|device| device.record.sent_away_ms.clone()).collect();
        println!("{checked:?}\n{happened:?}\n{compared} messages compared, {voids} voids");
        assert!(checked.acknowledged > self.sizes.clients, "too little traffic");
        Verdict { happened, sent_away_ms }
    }
}

/// Prints the rate of acks over `time`, and returns the counts. If no ack arrives, it waits up to
/// `PATIENCE` longer, because a slow machine is not a fault.
pub async fn measure(meter: &Meter, what: &str, time: Duration) -> Reading {
    let (before, start) = (meter.read(), Instant::now());
    sleep(time).await;
    while meter.read().acknowledged == before.acknowledged && start.elapsed() < time + PATIENCE {
        sleep(Duration::from_millis(50)).await;
    }
    let reading = meter.read().since(before);
    println!("{what}: {:.0} acks/s", reading.acknowledged_per_second(start.elapsed()));
    reading
}
