//! Soak test: the real server with an archive, under constant load, while devices connect,
//! disconnect and are cut off. At the end the history is complete, in order and without duplicates.
//! Ticks and unread are exact, and memory, file handles and threads of the server stayed flat. The
//! test runs for a minute by default, and for an hour with `./test soak`.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `BLUETICK_SOAK_SEED` | the seed of the participants and their actions | the clock |
//! | `BLUETICK_SOAK_MINUTES` | duration in minutes | 1 |
//! | `BLUETICK_SOAK_RATE` | messages a second, all devices together | 100 |
//! | `BLUETICK_SOAK_CLIENTS` | devices; every fifth user has two | 30 |
//! | `BLUETICK_SOAK_CONVERSATIONS` | number; two in five are groups, the first has 20 | 15 |
//! | `BLUETICK_SOAK_BINARY` | the path of another build of the server | the build of this test |
//! | `BLUETICK_SOAK_GRAPH` | a file for the graph | no graph |
//!
//! No check depends on speed. docs/explanation/testing.md defines the checks and the limits of
//! "flat".

mod report;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bluetick_testkit::client::Situation;
use bluetick_testkit::dice::Dice;
use bluetick_testkit::load::{ADMIN_KEY, Scene};
use bluetick_testkit::process::Launcher;
use bluetick_testkit::soak::sampler::Gauge;
use bluetick_testkit::soak::{SoakPlan, devices, judge, live, settle};
use report::{Flat, HANDLES_AT_REST};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

/// A server with short intervals and small limits: messages move to the archive after 15 seconds,
/// checkpoints and archive runs are frequent, backlogs are capped, the dedupe window is 10 seconds.
/// Caches are small, so that they are full when the measurement begins.
fn launcher(data_dir: &Path, archive_dir: &Path) -> Launcher {
    let other_build = std::env::var_os("BLUETICK_SOAK_BINARY").map(PathBuf::from);
    Launcher::new(other_build.unwrap_or_else(|| env!("CARGO_BIN_EXE_bluetick").into()), data_dir)
        .with("BLUETICK_ADMIN__KEY", ADMIN_KEY)
        .with("BLUETICK_LIMITS__REQUESTS_PER_SECOND", "0")
        .with("BLUETICK_LIMITS__CONNECTS_PER_ADDRESS_PER_SECOND", "0")
        .with("BLUETICK_LIMITS__CONNECTS_PER_USER_PER_MINUTE", "0")
        .with("BLUETICK_LIMITS__BACKLOG_MESSAGES", "25")
        .with("BLUETICK_LIMITS__PING_SECONDS", "5")
        .with("BLUETICK_LIMITS__IDLE_SECONDS", "15")
        .with("BLUETICK_STORE__SEGMENT_BYTES", "4194304")
        .with("BLUETICK_STORE__CHECKPOINT_BYTES", "4194304")
        .with("BLUETICK_STORE__CHECKPOINT_IDLE_SECONDS", "2")
        .with("BLUETICK_STORE__AWAKE_CONVERSATIONS", "8")
        .with("BLUETICK_STORE__PAGE_CACHE_BYTES", "1048576")
        .with("BLUETICK_STORE__DEDUPE_WINDOW_SECONDS", "10")
        .with("BLUETICK_ARCHIVE__ENGINE", "directory")
        .with("BLUETICK_ARCHIVE__DIRECTORY", &archive_dir.to_string_lossy())
        .with("BLUETICK_ARCHIVE__AGE_SECONDS", "15")
        .with("BLUETICK_ARCHIVE__PATIENCE_SECONDS", "5")
        .with("BLUETICK_ARCHIVE__SEGMENT_MESSAGES", "256")
        .with("BLUETICK_ARCHIVE__EVERY_SECONDS", "3")
        .with("BLUETICK_ARCHIVE__CACHE_BYTES", "1048576")
}

/// Bounds the wait until a busy machine has closed the connections of all devices.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until at most `most_handles` handles are open, or `PATIENCE` has passed. Returns their
/// number.
async fn at_rest(gauge: &Gauge, most_handles: usize) -> usize {
    let start = Instant::now();
    while gauge.handles() > most_handles && start.elapsed() < PATIENCE {
        sleep(Duration::from_millis(200)).await;
    }
    gauge.handles()
}

#[tokio::test(flavor = "multi_thread")]
async fn constant_load_keeps_memory_and_handles_flat_and_every_message_in_order() {
    let plan = SoakPlan::from_environment();
    println!("{plan}");
    let mut dice = Dice::new(plan.seed);
    let (data_dir, archive_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let launcher = launcher(data_dir.path(), archive_dir.path());
    let server = launcher.start().await;
    let scene = Arc::new(Scene::set_up(&server.address, &plan.sizes(), &mut dice).await);
    let (world, lives) = devices(&plan, &scene, &server.address, &mut dice);
    let gauge = Gauge {
        process: server.id(),
        address: server.address.clone(),
        data_dir: data_dir.path().to_owned(),
        archive_dir: archive_dir.path().to_owned(),
        acks: Arc::clone(&world.acks),
    };
    sleep(Duration::from_secs(1)).await;
    let before = gauge.handles();

    let (announce, mut situation) = watch::channel(Situation::default());
    let end = Instant::now() + plan.time();
    let time = async {
        tokio::select! {
            () = sleep_until(end) => announce.send_modify(|now| now.stop = true),
            // A device found a violation.
            _ = situation.wait_for(|now| now.stop) => {}
        }
    };
    let ((), lives, samples) = tokio::join!(time, live(lives, &announce), gauge.watch(end));
    let lives = settle(lives).await;
    let after = at_rest(&gauge, before + HANDLES_AT_REST).await;
    let verdict = judge(&scene, &world, &lives, &mut dice).await;
    let flat = Flat::of(&samples);
    report::print(&plan, &samples, &flat, (before, after), &verdict);
    if let Some(path) = std::env::var_os("BLUETICK_SOAK_GRAPH") {
        std::fs::write(path, report::graph(&samples).svg()).unwrap();
    }

    flat.assert();
    assert!(after <= before + HANDLES_AT_REST, "file handles leaked: {before} before, {after} after");
    let complaints = complaints(&launcher.log());
    assert!(complaints.is_empty(), "the server logged\n{}", complaints.join("\n"));
    let happened = verdict.happened;
    let last = samples.last().unwrap();
    assert!(verdict.messages > plan.rate, "too little traffic: {verdict:?}");
    assert!(happened.cuts > 0 && happened.abandoned > 0 && happened.long_absences > 0, "{happened:?}");
    assert!(happened.backlog_frames > 0 && happened.old_pages > 0 && happened.statuses > 0, "{happened:?}");
    assert!(
        last.archived > 0.0 && last.frame_reads > 0.0,
        "no message was archived, or no archived message was read: {last:?}"
    );
    assert!(last.checkpoints > 1.0, "no checkpoints: {last:?}");
}

fn complaints(log: &str) -> Vec<String> {
    let is_one = |line: &&str| line.contains("panicked") || line.contains(r#""level":"ERROR""#);
    log.lines().filter(is_one).map(str::to_owned).collect()
}
