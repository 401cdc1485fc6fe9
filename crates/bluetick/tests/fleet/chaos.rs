//! All faults at random, by seed: nodes are killed and restarted, Redis is emptied, killed and
//! suspended, and the connections to the tables fail in every way. The environment sets the sizes,
//! see `tests/chaos/main.rs`.

use std::time::Duration;

use bluetick_testkit::dice::Dice;
use bluetick_testkit::dynamo_proxy::{DynamoProxy, FaultRule, RequestFault};
use bluetick_testkit::fleet::FleetProcesses;
use bluetick_testkit::load::Sizes;
use bluetick_testkit::redis::RedisServer;
use tokio::task::block_in_place;
use tokio::time::{Instant, sleep};

use crate::dependencies::FleetDependencies;
use crate::load::{Load, measure};
use crate::tables::fleet_behind_proxies;

/// Number of nodes of the fleet.
const NODES: usize = 3;

/// The sizes from the environment. The defaults are small, because other tests run concurrently.
fn sizes() -> Sizes {
    let given = |name: &str| std::env::var_os(format!("BLUETICK_CHAOS_{name}")).is_some();
    let sizes = Sizes::from_environment();
    Sizes {
        // Three nodes and their engines share one machine, so use a fraction of the load.
        clients: if given("CLIENTS") { (sizes.clients / 5).max(18) } else { 18 },
        conversations: if given("CONVERSATIONS") { (sizes.conversations / 5).max(8) } else { 8 },
        seconds: if given("SECONDS") { sizes.seconds } else { 20 },
        ..sizes
    }
}

/// Injects random faults.
struct FaultInjector<'a> {
    dice: Dice,
    redis: &'a mut RedisServer,
    proxies: &'a [DynamoProxy],
}

impl FaultInjector<'_> {
    async fn strike(&mut self, fleet: &mut FleetProcesses) {
        let node = self.dice.below(NODES as u64) as usize;
        let time = Duration::from_millis(self.dice.between(100, 3_000));
        match self.dice.below(9) {
            0 | 1 => {
                println!("kill -9 of node {node}");
                fleet.kill(node).await;
                sleep(time).await;
                fleet.start_again(node).await;
            }
            2 => {
                println!("node {node} is drained");
                let status = fleet.drain(node).await;
                assert!(status.success(), "{status}");
                fleet.start_again(node).await;
            }
            3 => {
                println!("Redis is emptied");
                self.redis.command(&["FLUSHALL"]);
            }
            4 => {
                println!("Redis is killed for {time:?}");
                block_in_place(|| self.redis.stop());
                sleep(time).await;
                block_in_place(|| self.redis.start_again_empty());
            }
            5 => {
                println!("Redis is suspended for {time:?}");
                self.redis.pause();
                sleep(time).await;
                self.redis.resume();
            }
            6 => {
                println!("node {node} is suspended for {time:?}");
                fleet.pause(node);
                sleep(time).await;
                fleet.resume(node);
            }
            _ => {
                println!("the tables fail for {time:?}");
                for proxy in self.proxies {
                    let mut rule = |fault| FaultRule::sometimes(self.dice.below(12), fault);
                    proxy.meet([
                        rule(RequestFault::TableThrottled),
                        rule(RequestFault::ErrorBefore),
                        rule(RequestFault::ErrorAfter),
                        rule(RequestFault::CutBefore),
                        rule(RequestFault::CutAfter),
                        rule(RequestFault::Slow(Duration::from_millis(300))),
                    ]);
                }
                sleep(time).await;
                self.proxies.iter().for_each(DynamoProxy::pass);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_faults_together_leave_every_device_complete_and_in_order() {
    let sizes = sizes();
    let mut redis = RedisServer::start();
    let dependencies = FleetDependencies::on(&redis).await;
    let (mut fleet, proxies) = fleet_behind_proxies(&dependencies, NODES, sizes.seed).await;
    let load = Load::connect(&fleet, sizes).await;
    let mut faults =
        FaultInjector { dice: Dice::new(sizes.seed ^ 0xFA7E), redis: &mut redis, proxies: &proxies };
    let verdict = load
        .run_with_faults(&mut fleet, async |fleet, meter| {
            let end = Instant::now() + Duration::from_secs(sizes.seconds);
            let mut strikes = 0;
            while Instant::now() < end {
                measure(meter, "calm", Duration::from_millis(faults.dice.between(200, 2_000))).await;
                faults.strike(fleet).await;
                strikes += 1;
            }
            println!("{strikes} strikes");
        })
        .await;
    println!("{verdict:?}");
}
