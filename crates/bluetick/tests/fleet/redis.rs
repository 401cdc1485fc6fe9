//! Redis loses its data, is killed, is suspended, returns to an old state and fails over, under
//! load. Redis is only a cache: sends continue, and no message is lost, duplicated, overwritten or
//! reordered.

use std::collections::BTreeSet;
use std::time::Duration;

use bluetick_testkit::checker::{Histories, check};
use bluetick_testkit::client::MessageSender;
use bluetick_testkit::fleet::FleetProcesses;
use bluetick_testkit::http::history;
use bluetick_testkit::load::ADMIN_KEY;
use bluetick_testkit::meter::Meter;
use bluetick_testkit::redis::{RedisCluster, RedisServer};
use serde_json::json;
use tokio::task::{JoinSet, block_in_place};
use tokio::time::{Instant, sleep};

use crate::chat::{mint, open};
use crate::dependencies::FleetDependencies;
use crate::load::{Load, measure, sizes};

/// Duration of each measurement.
const MOMENT: Duration = Duration::from_secs(3);
/// Bounds every wait for recovery. It allows for a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until the nodes stop storing messages without Redis.
async fn full_speed(fleet: &FleetProcesses) {
    let start = Instant::now();
    let mut before = fleet.metrics("bluetick_fallback_sends_total").await;
    loop {
        sleep(Duration::from_millis(1500)).await;
        let now = fleet.metrics("bluetick_fallback_sends_total").await;
        if now == before {
            return;
        }
        before = now;
        assert!(start.elapsed() < PATIENCE, "messages are still stored without Redis: {now}");
    }
}

/// Asserts that sends continue during the fault, ends it with `back`, and waits for full speed.
async fn while_away(fleet: &FleetProcesses, meter: &Meter, what: &str, time: Duration, back: impl FnOnce()) {
    let during = measure(meter, &format!("{what}, meanwhile"), time).await;
    assert!(during.acknowledged > 0, "{what}: no message was acknowledged meanwhile");
    block_in_place(back);
    full_speed(fleet).await;
    measure(meter, &format!("{what}, afterwards"), MOMENT).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_flush_crash_and_pause_under_load_lose_nothing() {
    let mut redis = RedisServer::start();
    let mut fleet = FleetDependencies::on(&redis).await.fleet(2).await;
    let load = Load::connect(&fleet, sizes(30)).await;
    load.run_with_faults(&mut fleet, async |fleet, meter| {
        measure(meter, "before", MOMENT).await;
        redis.command(&["FLUSHALL"]);
        while_away(fleet, meter, "FLUSHALL", MOMENT, || {}).await;

        block_in_place(|| redis.stop());
        while_away(fleet, meter, "kill -9", MOMENT, || redis.start_again_empty()).await;

        redis.pause();
        while_away(fleet, meter, "SIGSTOP for 10 s", Duration::from_secs(10), || redis.resume()).await;
    })
    .await;
    // Print the count for the analysis of a failure.
    println!("{} reseeds", fleet.metrics("bluetick_reseeds_total").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_cluster_primary_failure_under_load_loses_nothing() {
    let mut redis = block_in_place(RedisCluster::start);
    let mut fleet = FleetDependencies::on_cluster(&redis).await.fleet(2).await;
    let load = Load::connect(&fleet, sizes(15)).await;
    let busy = load.scene.plans[0].name.to_string();
    load.run_with_faults(&mut fleet, async |fleet, meter| {
        measure(meter, "before", MOMENT).await;
        let pattern = format!("*:c:{busy}");
        let keys =
            (0..6).flat_map(|server| redis.server(server).command(&["KEYS", &pattern]).many().to_vec());
        let key = keys.map(|key| key.text()).next().expect("Redis has the counter of the conversation");
        block_in_place(|| redis.kill_primary_of(&key));
        while_away(fleet, meter, "failover", Duration::from_secs(6), || redis.wait_until_whole()).await;
    })
    .await;
}

/// By how much the counter is set back, as after a failover to a replica that lagged behind.
const SET_BACK: u64 = 1_000;

#[tokio::test(flavor = "multi_thread")]
async fn counter_set_back_by_a_thousand_overwrites_no_message() {
    let redis = RedisServer::start();
    let fleet = FleetDependencies::on(&redis).await.fleet(2).await;
    let names = ["alice", "bob", "carol", "dave"];
    let mut tokens = Vec::new();
    for name in names {
        tokens.push(mint(fleet.address(0), ADMIN_KEY, name).await);
    }
    let group = json!({"kind": "group", "title": "busy", "members": names});
    let group = open(fleet.address(0), &tokens[0], &group).await;
    let mut senders = JoinSet::new();
    for (name, token) in names.iter().zip(&tokens) {
        let (name, token, conversations) = ((*name).to_owned(), token.clone(), vec![group.clone()]);
        senders.spawn(MessageSender { name, token, conversations, window: 16 }.run(fleet.situation()));
    }
    let key = format!("*:c:{group}");
    let counter = |key: &str| redis.command(&["HGET", key, "reserved"]).text().parse().unwrap_or(0_u64);
    let start = Instant::now();
    let mut key_name = String::new();
    for round in 0..2 {
        let goal = (SET_BACK + 100) * (round + 1);
        while counter(&key_name) < goal {
            assert!(start.elapsed() < 4 * PATIENCE, "the senders are stuck at {}", counter(&key_name));
            sleep(Duration::from_millis(50)).await;
            key_name =
                redis.command(&["KEYS", &key]).many().first().map(|key| key.text()).unwrap_or_default();
        }
        let before = counter(&key_name);
        redis.command(&["HINCRBY", &key_name, "reserved", &format!("-{SET_BACK}")]);
        println!("set back from {before} after {:?}", start.elapsed());
    }
    let reseeds = fleet.metrics("bluetick_reseeds_total").await;
    sleep(MOMENT).await;
    fleet.stop_the_crowd();
    let logs = senders.join_all().await;
    let mut seen = BTreeSet::new();
    for node in 0..2 {
        let history = history(fleet.address(node), &tokens[0], &group).await;
        seen.insert(history.len());
        let histories: Histories = [(group.clone(), history)].into();
        let checked = check(&logs, &histories).unwrap_or_else(|violations| panic!("{violations:#?}"));
        println!("{checked:?}");
        assert!(checked.acknowledged as u64 > 2 * SET_BACK);
    }
    assert_eq!(seen.len(), 1, "the nodes return different histories");
    assert!(reseeds > 0, "no node noticed that the counter was behind");
    assert_eq!(fleet.complaints(), Vec::<String>::new());
}
