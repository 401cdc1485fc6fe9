//! An archive in a directory: permissions, history after a restart, and turning the archive off.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use bluetick_testkit::http::{messages, request};
use bluetick_testkit::process::{Launcher, ServerProcess};
use rustix::fs::Mode;
use serde_json::{Value, json};
use support::{Outcome, Shell};

/// The admin key of every server under test.
const ADMIN_KEY: &str = "an-admin-key-for-this-test-alone";
/// Number of messages that the test archives.
const MESSAGES: u64 = 40;
/// Settings of an archive that takes messages of any age and runs only on command.
const ARCHIVED: [(&str, &str); 5] = [
    ("BLUETICK_ADMIN__KEY", ADMIN_KEY),
    ("BLUETICK_ARCHIVE__ENGINE", "directory"),
    ("BLUETICK_ARCHIVE__DIRECTORY", "../cold"),
    ("BLUETICK_ARCHIVE__AGE_SECONDS", "0"),
    ("BLUETICK_ARCHIVE__EVERY_SECONDS", "0"),
];
/// The warning of a server whose archive is disabled but holds messages.
const OFF_WARNING: &str = "archive disabled but it holds messages";

/// A data directory and an archive directory beside it. All users can read both at first.
struct World {
    shell: Shell,
    token: String,
    conversation: String,
}

impl World {
    /// Two users with 40 messages, all archived. No server runs.
    async fn archived() -> World {
        rustix::process::umask(Mode::from_raw_mode(0o022));
        let shell = Shell::new();
        for name in ["bluetick-data", "cold"] {
            std::fs::create_dir(shell.path(name)).unwrap();
        }
        let mut world = World { shell, token: String::new(), conversation: String::new() };
        let server = world.launcher(&ARCHIVED).start().await;
        let ask = |path: String, key: String, body: Value| {
            let address = server.address.clone();
            async move {
                let (status, answer) = request(&address, "POST", &path, &key, Some(&body)).await.unwrap();
                assert!(status < 300, "{status} {answer}");
                answer
            }
        };
        let minted = json!({"user_id": "alice", "ttl_s": 3600});
        let minted = ask("/v1/tokens".into(), ADMIN_KEY.into(), minted).await;
        world.token = minted["token"].as_str().unwrap().to_owned();
        let opened = json!({"kind": "direct", "peer": "bob"});
        let opened = ask("/v1/conversations".into(), world.token.clone(), opened).await;
        world.conversation = opened["conversation_id"].as_str().unwrap().to_owned();
        for number in 1..=MESSAGES {
            let path = format!("/v1/conversations/{}/messages", world.conversation);
            let body = json!({"message_id": format!("m{number}"), "content": format!("message {number}")});
            ask(path, world.token.clone(), body).await;
        }
        ask("/v1/archive/run".into(), ADMIN_KEY.into(), json!({"partial": true})).await;
        loop {
            let status = request(&server.address, "GET", "/v1/archive", ADMIN_KEY, None).await.unwrap().1;
            if !status["last_job"].is_null() {
                assert_eq!(status["cold"]["messages"], json!(MESSAGES), "{status}");
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        server.kill().await;
        world
    }

    fn launcher(&self, variables: &[(&str, &str)]) -> Launcher {
        let launcher = Launcher::new(env!("CARGO_BIN_EXE_bluetick"), &self.shell.path("bluetick-data"));
        variables.iter().fold(launcher, |launcher, (name, value)| launcher.with(name, value))
    }

    /// Runs a command while no server runs.
    fn run(&self, arguments: &[&str]) -> Outcome {
        let mut command = self.shell.command(arguments);
        Outcome::of(command.envs(ARCHIVED).output().unwrap())
    }

    async fn everything(&self, server: &ServerProcess) -> Vec<Value> {
        messages(&server.address, &self.token, &self.conversation).await
    }
}

fn assert_private(directory: &Path) -> usize {
    let mut files = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let (path, metadata) = entry.map(|entry| (entry.path(), entry.metadata().unwrap())).unwrap();
        // The test itself creates this file.
        if path.file_name().is_some_and(|name| name == "server.log") {
            continue;
        }
        let mode = metadata.permissions().mode();
        assert_eq!(mode & 0o077, 0, "{} is {:o}", path.display(), mode);
        files += if metadata.is_dir() { assert_private(&path) } else { 1 };
    }
    files
}

#[tokio::test(flavor = "multi_thread")]
async fn archive_files_are_readable_by_the_owner_only() {
    let world = World::archived().await;
    world.run(&["user", "add", "carol", "--generate"]).printed();
    assert!(assert_private(&world.shell.path("bluetick-data")) > 3);
    assert_eq!(assert_private(&world.shell.path("cold")), 2, "one segment and the marker");
}

#[tokio::test(flavor = "multi_thread")]
async fn last_archive_run_is_reported_after_a_restart() {
    let world = World::archived().await;
    let status = world.run(&["archive", "status"]).printed();
    assert!(status.contains("\nLast run       2"), "{status}");
    assert!(!status.contains("Paused"), "{status}");

    std::fs::rename(world.shell.path("cold"), world.shell.path("away")).unwrap();
    let refused = world.run(&["archive", "run"]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("does not hold this store's archive"), "{}", refused.stderr);
    let status = world.run(&["archive", "status"]).printed();
    assert!(status.contains("\nPaused         the object store cannot be used now: "), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn restore_all_allows_disabling_the_archive() {
    let world = World::archived().await;
    let off = &[("BLUETICK_ADMIN__KEY", ADMIN_KEY)];
    let launcher = world.launcher(off);
    launcher.start().await.kill().await;
    assert_eq!(launcher.log().matches(OFF_WARNING).count(), 1, "{}", launcher.log());

    for wrong in [&["archive", "restore"][..], &["archive", "restore", "--all", &world.conversation]] {
        assert_eq!(world.run(wrong).code, 2, "{wrong:?}");
    }
    let printed = world.run(&["archive", "restore", "--all"]).printed();
    assert!(printed.starts_with("Restored       40 messages from 1 segment\n"), "{printed}");
    let server = launcher.start().await;
    assert_eq!(world.everything(&server).await.len() as u64, MESSAGES);
    assert_eq!(launcher.log().matches(OFF_WARNING).count(), 1, "the number does not grow");
    server.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn erasing_an_unknown_user_reports_that_nothing_was_found() {
    let world = World::archived().await;
    let printed = world.run(&["erase", "user", "alicia", "--yes"]).printed();
    assert!(printed.starts_with("Erased         nothing; no messages by alicia were found"), "{printed}");
    let printed = world.run(&["erase", "user", "alice", "--yes"]).printed();
    assert!(printed.starts_with("Erased         40 messages in 1 conversation\n"), "{printed}");
}
