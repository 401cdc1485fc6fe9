//! Power failures: writes of the log and of the tables that were not synced are lost.

use std::time::Duration;

use bluetick_testkit::checker::Violation;
use bluetick_testkit::dice::Dice;

use crate::world::{Switch, Traffic, World, stopped};

/// Number of power failures during the run.
const CUTS: usize = 10;

#[tokio::test(flavor = "multi_thread")]
async fn repeated_power_loss_keeps_every_acked_message() {
    let world = World::new();
    world.set(Switch::Volatile, 1);
    let mut dice = Dice::new(9);
    let mut server = world.launcher.start().await;
    let traffic = Traffic::begin(&server.address, 6).await;
    let mut taken_back = 0;
    for _ in 0..CUTS {
        traffic.more(&server.address, 30).await;
        tokio::time::sleep(Duration::from_millis(dice.below(150))).await;
        traffic.goes_nowhere();
        server.kill().await;
        taken_back += world.cut_power(&mut dice);
        server = world.launcher.start().await;
        traffic.goes_to(&server.address);
    }
    traffic.more(&server.address, 30).await;
    let checked =
        traffic.judged(&server.address).await.unwrap_or_else(|violations| panic!("{violations:#?}"));
    let (held, synced) = (world.get(Switch::Held), world.get(Switch::Synced));
    println!("{checked:?}, {held} writes, {synced} syncs, {taken_back} writes taken back");
    assert!(
        held > 100 && synced > 100 && taken_back > 0,
        "too few writes were at risk: {held}, {synced}, {taken_back}"
    );
    assert!(checked.acknowledged > 500, "too little traffic: {checked:?}");
    stopped(server).await;
    assert_eq!(world.check().0, 0, "{}", world.check().1);
}

/// A disk that acknowledges syncs but does not perform them. The checker detects the loss, so it
/// would also detect a server that does not wait for the sync.
#[tokio::test(flavor = "multi_thread")]
async fn disk_that_ignores_fsync_is_detected() {
    let world = World::new();
    world.set(Switch::Volatile, 1);
    let server = world.launcher.start().await;
    let traffic = Traffic::begin(&server.address, 6).await;
    traffic.more(&server.address, 50).await;
    world.set(Switch::Lies, 1);
    traffic.more(&server.address, 200).await;
    traffic.goes_nowhere();
    server.kill().await;
    assert!(world.cut_power(&mut Dice::new(9)) > 0);
    world.set(Switch::Lies, 0);
    let launcher = world.launcher.clone();
    let Ok(server) = tokio::spawn(async move { launcher.start().await }).await else {
        // The start failed, because the files are damaged.
        assert_eq!(world.check().0, 1, "{}", world.check().1);
        return;
    };
    let violations =
        traffic.judged(&server.address).await.expect_err("acknowledged messages are lost and not reported");
    assert!(
        violations.iter().any(|found| matches!(found, Violation::AcknowledgedThenLost { .. })),
        "{violations:#?}"
    );
}
