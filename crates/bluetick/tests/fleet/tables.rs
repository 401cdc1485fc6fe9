//! Proxies before the tables throttle, fail, lose answers and delay requests at random, under load.
//! A client receives an ack, a temporary refusal or a close, and never an ack for a lost message.

use std::time::Duration;

use bluetick_testkit::dynamo_proxy::{DynamoProxy, FaultRule, RequestFault};
use bluetick_testkit::fleet::FleetProcesses;
use bluetick_testkit::load::ADMIN_KEY;
use bluetick_testkit::redis::RedisServer;

use crate::dependencies::FleetDependencies;
use crate::load::{Load, measure, sizes};

/// Starts nodes, each with its own proxy to the tables.
pub async fn fleet_behind_proxies(
    dependencies: &FleetDependencies,
    nodes: usize,
    seed: u64,
) -> (FleetProcesses, Vec<DynamoProxy>) {
    let mut proxies = Vec::new();
    for number in 0..nodes {
        proxies.push(DynamoProxy::start(dependencies.dynamo().address(), seed + number as u64).await);
    }
    let fleet = FleetProcesses::start(nodes, |number, data_dir| {
        dependencies.launcher(data_dir, &proxies[number].endpoint()).with("BLUETICK_ADMIN__KEY", ADMIN_KEY)
    });
    (fleet.await, proxies)
}

#[tokio::test(flavor = "multi_thread")]
async fn table_throttling_errors_and_delays_under_load_lose_nothing() {
    let redis = RedisServer::start();
    let dependencies = FleetDependencies::on(&redis).await;
    let sizes = sizes(20);
    let (mut fleet, proxies) = fleet_behind_proxies(&dependencies, 2, sizes.seed).await;
    let load = Load::connect(&fleet, sizes).await;
    let troubles: [(&str, &[FaultRule]); 4] = [
        (
            "throttled",
            &[
                FaultRule::sometimes(15, RequestFault::TableThrottled),
                FaultRule::sometimes(10, RequestFault::AccountThrottled),
            ],
        ),
        (
            "failing",
            &[
                FaultRule::sometimes(15, RequestFault::ErrorBefore),
                FaultRule::sometimes(5, RequestFault::CutBefore),
            ],
        ),
        (
            "answers lost",
            &[
                FaultRule::sometimes(8, RequestFault::ErrorAfter),
                FaultRule::sometimes(8, RequestFault::CutAfter),
                FaultRule::sometimes(2, RequestFault::SilenceAfter),
            ],
        ),
        ("slow", &[FaultRule::sometimes(20, RequestFault::Slow(Duration::from_millis(400)))]),
    ];
    let verdict = load
        .run_with_faults(&mut fleet, async |_, meter| {
            measure(meter, "before", Duration::from_secs(2)).await;
            for (what, rules) in troubles {
                let before: u64 = proxies.iter().map(DynamoProxy::faults).sum();
                proxies.iter().for_each(|proxy| proxy.meet(rules.iter().cloned()));
                measure(meter, what, Duration::from_secs(4)).await;
                let faults = proxies.iter().map(DynamoProxy::faults).sum::<u64>() - before;
                println!("{what}: {faults} requests");
                assert!(faults > 0, "{what}: no request failed");
            }
            proxies.iter().for_each(DynamoProxy::pass);
            measure(meter, "after", Duration::from_secs(2)).await;
        })
        .await;
    println!("{} temporarily refused", verdict.happened.put_off);
}
