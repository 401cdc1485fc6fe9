//! Chaos test: many devices in many conversations, random disconnects, repeated `kill -9` of the
//! server, and devices that stay offline for long. At the end every device has the server's history
//! of every conversation, in order and once. Ticks and unread match a model computed from the log.
//!
//! The printed seed decides the participants and their actions. Clock and scheduler also take part,
//! so a run with the same seed is similar but not identical. The environment sets the sizes:
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `BLUETICK_CHAOS_SEED` | the seed | the clock |
//! | `BLUETICK_CHAOS_CLIENTS` | devices; every fifth user has two | 50 |
//! | `BLUETICK_CHAOS_CONVERSATIONS` | number; two in five are groups, the first has 20 | 20 |
//! | `BLUETICK_CHAOS_SECONDS` | duration of the faults | 10 |
//! | `BLUETICK_CHAOS_KILLS` | number of kills of the server | 4 |

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod kills;

use std::path::Path;

use bluetick_testkit::client::Situation;
use bluetick_testkit::device::{Device, DeviceCounts};
use bluetick_testkit::dice::Dice;
use bluetick_testkit::load::{
    ADMIN_KEY, ChurningMember, Judge, Scene, Sizes, comings_and_goings, flush, last_words, settle, together,
};
use bluetick_testkit::process::{Launcher, ServerProcess};
use kills::inject;
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::watch;

/// A server with small limits, so that segments fill and backlogs are capped within seconds. The
/// seed decides how often checkpoints run and how many conversations stay resident.
fn launcher(data_dir: &Path, dice: &mut Dice) -> Launcher {
    let mut one_of = |choices: [&'static str; 2]| choices[dice.below(2) as usize];
    Launcher::new(env!("CARGO_BIN_EXE_bluetick"), data_dir)
        .with("BLUETICK_ADMIN__KEY", ADMIN_KEY)
        .with("BLUETICK_LIMITS__SENDS_PER_SECOND", "0")
        .with("BLUETICK_LIMITS__REQUESTS_PER_SECOND", "0")
        .with("BLUETICK_LIMITS__ACKS_PER_SECOND", "0")
        .with("BLUETICK_LIMITS__BACKLOG_MESSAGES", one_of(["5", "15"]))
        .with("BLUETICK_STORE__SEGMENT_BYTES", "4194304")
        .with("BLUETICK_STORE__CHECKPOINT_BYTES", "4194304")
        .with("BLUETICK_STORE__CHECKPOINT_IDLE_SECONDS", one_of(["0", "5"]))
        .with("BLUETICK_STORE__AWAKE_CONVERSATIONS", one_of(["4", "1000"]))
}

fn received(devices: &[Device]) -> usize {
    devices.iter().map(Device::received).sum()
}

async fn restarted_gently(mut server: ServerProcess, launcher: &Launcher) -> ServerProcess {
    let pid = Pid::from_raw(i32::try_from(server.id()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let status = server.wait().await;
    assert!(status.success(), "{status}");
    launcher.start().await
}

/// Panics and errors in the log of the server. A kill logs none.
fn complaints(launcher: &Launcher) -> Vec<String> {
    let is_one = |line: &&str| line.contains("panicked") || line.contains(r#""level":"ERROR""#);
    launcher.log().lines().filter(is_one).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn chaos_on_one_server_leaves_every_device_complete_and_in_order() {
    let sizes = Sizes::from_environment();
    println!("{sizes}");
    let mut dice = Dice::new(sizes.seed);
    let data_dir = tempfile::tempdir().unwrap();
    let launcher = launcher(data_dir.path(), &mut dice);
    let server = launcher.start().await;
    let scene = Scene::set_up(&server.address, &sizes, &mut dice).await;

    let (announce, situation) = watch::channel(Situation::default());
    let devices = scene.devices(&sizes, &mut dice);
    let storm: Vec<_> = devices.into_iter().map(|device| device.storm(situation.clone())).collect();
    let changes = comings_and_goings(ChurningMember::all(&scene), dice.fork(), situation.clone());
    let mut people = dice.fork();
    let kills = inject(server, &launcher, &announce, &sizes, &mut people);
    let (mut server, devices, changes) = tokio::join!(kills, together(storm), changes);

    let address = server.address.clone();
    let devices = flush(devices, &address).await;
    let devices = last_words(devices, &scene, &address).await;
    let devices = settle(devices, &address).await;

    let judge = Judge::new(&scene, &address).await;
    let checked = judge.logs(&devices);
    let compared = judge.views(&devices);
    judge.ticks_within_bounds(&address, &devices).await;
    let standing = judge.last_marks(&address, &devices, &mut dice).await;
    let unread = judge.numbers(&address, &standing, &mut dice).await;

    // Acknowledged state survives a kill, and acknowledged messages are not sent again.
    server.kill().await;
    server = launcher.start().await;
    assert_eq!(judge.numbers(&server.address, &standing, &mut dice).await, unread);
    let before = received(&devices);
    let address = server.address.clone();
    let devices = settle(devices, &address).await;
    assert_eq!(received(&devices), before, "seed {}: acknowledged messages were sent again", sizes.seed);
    let server = restarted_gently(server, &launcher).await;
    assert_eq!(judge.numbers(&server.address, &standing, &mut dice).await, unread);

    let complaints = complaints(&launcher);
    assert!(complaints.is_empty(), "seed {}: the server logged\n{}", sizes.seed, complaints.join("\n"));

    let happened =
        devices.iter().fold(DeviceCounts::default(), |sum, device| sum.and(device.record.happened));
    println!(
        "{checked:?}\n{happened:?}\n{compared} messages compared, {unread} unread, {changes} changes of members"
    );
    assert!(checked.acknowledged > sizes.clients * 5, "too little traffic");
    assert!(
        happened.cuts > sizes.clients && happened.abandoned > 0 && happened.closes > 0,
        "too few broken connections"
    );
    assert!(happened.statuses > sizes.clients && happened.marks_answered > 0, "too few ticks");
    assert!(happened.backlog_frames > 0 && happened.pages > 0, "no backlog reached its limit");
    assert!(happened.resends > 0 && happened.rejoined > 0, "no message was resent, or no member rejoined");
    assert!(unread > 0, "everything was read");
}
