//! Nodes are killed and restarted under load. Their clients reconnect to other nodes and converge.

use std::cell::Cell;
use std::path::Path;
use std::time::Duration;

use bluetick_testkit::fleet::FleetProcesses;
use bluetick_testkit::redis::RedisServer;
use tokio::time::{Instant, sleep};

use crate::dependencies::FleetDependencies;
use crate::graph::Graph;
use crate::load::{Load, measure, sizes};

/// Duration of each measurement.
const MOMENT: Duration = Duration::from_secs(3);
/// Bounds every wait. It allows for a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until a node counts `living` live nodes, itself included. Returns the time it took.
async fn counts(fleet: &FleetProcesses, number: usize, living: u64) -> Duration {
    let start = Instant::now();
    while fleet.metric(number, "bluetick_nodes").await != living {
        assert!(start.elapsed() < PATIENCE, "node {number} does not count {living} nodes");
        sleep(Duration::from_millis(100)).await;
    }
    start.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_a_killed_node_continue_on_other_nodes() {
    let redis = RedisServer::start();
    let mut fleet = FleetDependencies::on(&redis).await.fleet(3).await;
    let load = Load::connect(&fleet, sizes(20)).await;
    let verdict = load
        .run_with_faults(&mut fleet, async |fleet, meter| {
            counts(fleet, 0, 3).await;
            measure(meter, "before", MOMENT).await;
            fleet.kill(1).await;
            let after = measure(meter, "after the kill", MOMENT).await;
            assert!(after.acknowledged > 0, "no message was acknowledged after the kill");
            for other in [0, 2] {
                println!("node {other} noticed the kill after {:?}", MOMENT + counts(fleet, other, 2).await);
            }
            fleet.start_again(1).await;
            counts(fleet, 1, 3).await;
            measure(meter, "with a new node", MOMENT).await;
        })
        .await;
    assert!(verdict.happened.connections > 18, "{verdict:?}");
}

/// Restarts every node in turn; only the servers close connections. `BLUETICK_BLESS` writes the
/// graph to the documents.
#[tokio::test(flavor = "multi_thread")]
async fn rolling_restart_under_load_loses_nothing_and_spreads_reconnects() {
    let redis = RedisServer::start();
    let mut fleet = FleetDependencies::on(&redis).await.fleet(3).await;
    let mut load = Load::connect(&fleet, sizes(20)).await;
    for device in &mut load.devices {
        device.habits.stays_connected = true;
    }
    let mut graph = Graph { step: Duration::from_millis(500), steps: Vec::new(), away: Vec::new() };
    let verdict = load
        .run_with_faults(&mut fleet, async |fleet, meter| {
            let (is_over, start) = (Cell::new(false), Instant::now());
            let rolling = async {
                sleep(MOMENT).await;
                for node in 0..fleet.len() {
                    let from = start.elapsed();
                    let status = fleet.drain(node).await;
                    assert!(status.success(), "{status}");
                    fleet.start_again(node).await;
                    graph.away.push((from, start.elapsed()));
                    counts(fleet, node, 3).await;
                    sleep(MOMENT).await;
                }
                is_over.set(true);
            };
            let ((), steps) = tokio::join!(rolling, meter.watch(graph.step, || is_over.get()));
            graph.steps = steps;
        })
        .await;
    for (at, step) in graph.steps.iter().enumerate() {
        println!("{:>5.1} s: {step:?}", at as f64 * graph.step.as_secs_f64());
    }
    if std::env::var_os("BLUETICK_BLESS").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/rolling-restart.svg");
        std::fs::write(path, graph.svg()).unwrap();
    }
    let away = &verdict.sent_away_ms;
    // A device that is in the middle of a request finds the connection closed and gets no delay. On
    // a busy machine these are nearly all devices, and the others are too few to measure the
    // spread.
    assert!(!away.is_empty(), "no device got a reconnect delay: {verdict:?}");
    if away.len() > 8 {
        let (first, last) = (away.iter().min().unwrap(), away.iter().max().unwrap());
        assert!(last - first > 1_000, "all devices reconnect at the same time: {away:?}");
    }
}
