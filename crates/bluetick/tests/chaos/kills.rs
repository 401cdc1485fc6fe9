//! The faults of the chaos test: kills of the server.

use std::time::Duration;

use bluetick_testkit::client::Situation;
use bluetick_testkit::dice::Dice;
use bluetick_testkit::load::Sizes;
use bluetick_testkit::process::{Launcher, ServerProcess};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

/// Kills and restarts the server, spread over the whole duration. Returns a running server.
pub async fn inject(
    mut server: ServerProcess,
    launcher: &Launcher,
    announce: &watch::Sender<Situation>,
    sizes: &Sizes,
    dice: &mut Dice,
) -> ServerProcess {
    let end = Instant::now() + Duration::from_secs(sizes.seconds);
    let share_ms = sizes.seconds * 1000 / u64::from(sizes.kills + 1);
    announce.send_modify(|now| now.addresses = vec![server.address.clone()]);
    for _ in 0..sizes.kills {
        sleep(Duration::from_millis(dice.between(share_ms / 4, share_ms * 5 / 4))).await;
        announce.send_modify(|now| now.addresses.clear());
        server.kill().await;
        server = launcher.start().await;
        announce.send_modify(|now| now.addresses = vec![server.address.clone()]);
    }
    sleep_until(end).await;
    announce.send_modify(|now| now.stop = true);
    server
}
