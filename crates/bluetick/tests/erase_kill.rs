//! An accepted erasure survives `kill -9` at any time. After completion, no file of the data
//! directory holds the erased content. The settings are the defaults, so the archive is disabled.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod support;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use bluetick_testkit::http::{messages, request};
use bluetick_testkit::process::{Launcher, ServerProcess};
use bluetick_testkit::remains::remains;
use serde_json::{Value, json};
use support::{Outcome, Shell};
use tokio::time::Instant;

/// The admin key of every server under test.
const ADMIN_KEY: &str = "an-admin-key-for-this-test-alone";
/// Deadline for a running server to finish every accepted erasure.
const PATIENCE: Duration = Duration::from_secs(60);
/// Number of conversations. High enough that the search can be interrupted.
const CONVERSATIONS: usize = 12;

struct World {
    shell: Shell,
    token: String,
    ids: Vec<String>,
}

impl World {
    async fn new() -> (World, ServerProcess) {
        let shell = Shell::new();
        std::fs::create_dir(shell.path("bluetick-data")).unwrap();
        let mut world = World { shell, token: String::new(), ids: Vec::new() };
        let server = world.launcher().start().await;
        let minted = json!({"user_id": "alice", "ttl_s": 3600});
        let minted = ask(&server.address, "/v1/tokens", ADMIN_KEY, minted).await;
        world.token = minted["token"].as_str().unwrap().to_owned();
        for number in 0..CONVERSATIONS {
            let body = json!({"kind": "direct", "peer": format!("bob{number}")});
            let opened = ask(&server.address, "/v1/conversations", &world.token, body).await;
            world.ids.push(opened["conversation_id"].as_str().unwrap().to_owned());
        }
        (world, server)
    }

    fn launcher(&self) -> Launcher {
        Launcher::new(env!("CARGO_BIN_EXE_bluetick"), &self.directory())
            .with("BLUETICK_ADMIN__KEY", ADMIN_KEY)
            .with("BLUETICK_LIMITS__SENDS_PER_SECOND", "0")
            .with("BLUETICK_LIMITS__REQUESTS_PER_SECOND", "0")
            .with("BLUETICK_STORE__SEGMENT_BYTES", "4194304")
            .with("BLUETICK_STORE__CHECKPOINT_BYTES", "4194304")
            .with("BLUETICK_STORE__CHECKPOINT_IDLE_SECONDS", "1")
    }

    fn directory(&self) -> std::path::PathBuf {
        self.shell.path("bluetick-data")
    }

    /// Sends one message to each conversation and returns the texts.
    async fn send(&self, server: &ServerProcess, round: usize) -> Vec<String> {
        let mut texts = Vec::new();
        for (number, id) in self.ids.iter().enumerate() {
            let text = format!("quicksilver in round {round} of conversation {number};");
            let body = json!({"message_id": format!("m{round}"), "content": text});
            ask(&server.address, &format!("/v1/conversations/{id}/messages"), &self.token, body).await;
            texts.push(text);
        }
        texts
    }

    /// How many messages are erased and how many are not.
    async fn counted(&self, server: &ServerProcess) -> (usize, usize) {
        let (mut erased, mut left) = (0, 0);
        for id in &self.ids {
            for message in messages(&server.address, &self.token, id).await {
                match message["content_type"] == "erased" {
                    true => erased += 1,
                    false => left += 1,
                }
            }
        }
        (erased, left)
    }
}

async fn ask(address: &str, path: &str, key: &str, body: Value) -> Value {
    let (status, answer) = request(address, "POST", path, key, Some(&body)).await.unwrap();
    assert!(status < 300, "{path}: {status} {answer}");
    answer
}

/// Waits until the server has finished every erasure that was accepted.
async fn finished(server: &ServerProcess, launcher: &Launcher) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (_, status) = request(&server.address, "GET", "/v1/archive", ADMIN_KEY, None).await.unwrap();
        if status["unfinished_erasures"] == 0 && status["job"].is_null() {
            return;
        }
        assert!(Instant::now() < deadline, "{status} {}", launcher.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn assert_no_remains(directory: &Path, texts: &[String], at: &str) {
    let left = remains(directory, texts);
    assert!(left.is_empty(), "{at}: {} texts are still in the files, such as {:?}", left.len(), left.first());
}

#[tokio::test(flavor = "multi_thread")]
async fn accepted_erasure_finishes_after_kills_at_different_times() {
    let (world, mut server) = World::new().await;
    let launcher = world.launcher();
    let mut texts = Vec::new();
    for (round, wait_ms) in [0, 0, 5, 20, 60, 150].into_iter().enumerate() {
        texts.extend(world.send(&server, round).await);
        assert!(!remains(&world.directory(), &texts).is_empty(), "the search finds existing texts");
        ask(&server.address, "/v1/erasures", ADMIN_KEY, json!({"user_id": "alice"})).await;
        tokio::time::sleep(Duration::from_millis(wait_ms)).await;
        server.kill().await;
        server = launcher.start().await;
        // Kill the server again during the erasure.
        if round % 2 == 1 {
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
            server.kill().await;
            server = launcher.start().await;
        }
        finished(&server, &launcher).await;
        let at = format!("killed after {wait_ms} ms");
        assert_eq!(world.counted(&server).await, (CONVERSATIONS * (round + 1), 0), "{at}");
        assert_no_remains(&world.directory(), &texts, &at);
    }
    server.kill().await;
}

/// `bluetick erase` on a directory that no server uses: once to completion, and then killed at
/// several moments after it has reported progress.
#[tokio::test(flavor = "multi_thread")]
async fn interrupted_offline_erasure_is_finished_by_the_next_server() {
    let (world, mut server) = World::new().await;
    let launcher = world.launcher();
    let mut texts = Vec::new();
    for (round, wait_ms) in [None, Some(0), Some(5), Some(20), Some(60)].into_iter().enumerate() {
        texts.extend(world.send(&server, round).await);
        server.kill().await;
        let mut command = world.shell.command(&["erase", "user", "alice", "--yes"]);
        match wait_ms {
            None => {
                let printed = Outcome::of(command.output().unwrap()).printed();
                assert!(printed.starts_with("Erased         12 messages in 12 conversations"), "{printed}");
                assert_no_remains(&world.directory(), &texts, "without a server");
            }
            Some(wait_ms) => {
                let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
                let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
                assert!(said.any(|line| line.unwrap().contains('%')), "no progress was reported");
                tokio::time::sleep(Duration::from_millis(wait_ms)).await;
                // The process may have exited already.
                child.kill().unwrap();
                child.wait().unwrap();
            }
        }
        server = launcher.start().await;
        finished(&server, &launcher).await;
        let at = format!("killed after {wait_ms:?} ms");
        assert_eq!(world.counted(&server).await, (CONVERSATIONS * (round + 1), 0), "{at}");
        assert_no_remains(&world.directory(), &texts, &at);
    }
    server.kill().await;
}
