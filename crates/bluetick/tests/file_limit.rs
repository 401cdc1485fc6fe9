//! The server under a small limit on open files.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bluetick_testkit::http::{get_text, request};
use bluetick_testkit::load::ADMIN_KEY;
use bluetick_testkit::process::Launcher;
use bluetick_testkit::talker::Talker;
use serde_json::json;
use support::{Outcome, Shell};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// Bounds every wait. It allows for a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Writes a script that runs the binary under a limit on open files. `limit` is an argument of
/// `ulimit`.
fn limited(directory: &Path, limit: &str) -> PathBuf {
    let script = directory.join("limited");
    let binary = env!("CARGO_BIN_EXE_bluetick");
    fs::write(&script, format!("#!/bin/sh\nulimit {limit} && exec '{binary}' \"$@\"\n")).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    script
}

async fn token(address: &str, user: &str) -> String {
    let body = json!({"user_id": user});
    let (status, answer) = request(address, "POST", "/v1/tokens", ADMIN_KEY, Some(&body)).await.unwrap();
    assert_eq!(status, 201, "{answer}");
    answer["token"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn sends_succeed_while_idle_connections_reach_the_file_limit() {
    let shell = Shell::new();
    let data_dir = shell.path("data");
    fs::create_dir(&data_dir).unwrap();
    let launcher = Launcher::new(limited(shell.directory.path(), "-n 200"), &data_dir)
        .with("BLUETICK_ADMIN__KEY", ADMIN_KEY)
        .with("BLUETICK_LIMITS__SENDS_PER_SECOND", "0")
        .with("BLUETICK_LIMITS__HEADERS_SECONDS", "600")
        .with("BLUETICK_STORE__SEGMENT_BYTES", "4194304")
        .with("BLUETICK_STORE__CHECKPOINT_BYTES", "4194304");
    let server = launcher.start().await;
    let address = server.address.as_str();
    let alice = token(address, "alice").await;
    token(address, "bob").await;
    let body = json!({"kind": "direct", "peer": "bob"});
    let opened = request(address, "POST", "/v1/conversations", &alice, Some(&body)).await.unwrap();
    let conversation = opened.1["conversation_id"].as_str().unwrap_or_else(|| panic!("{opened:?}"));
    let mut talker = Talker::connect(address, &alice).await;

    let mut idle = Vec::new();
    for _ in 0..400 {
        idle.extend(TcpStream::connect(address).await);
    }
    // The server closes those above its limit.
    let mut refused = Vec::new();
    let all_refused = async {
        while idle.len() > 150 {
            sleep(Duration::from_millis(20)).await;
            let mut byte = [0];
            refused.extend(idle.extract_if(.., |stream| stream.try_read(&mut byte).is_ok_and(|n| n == 0)));
        }
    };
    let refuses = timeout(PATIENCE, all_refused).await.is_ok();

    // Twelve log segments.
    let content = "x".repeat(60_000);
    for number in 0..840 {
        let message_id = format!("00000000-0000-4000-8000-{number:012}");
        talker.send(conversation, &message_id, &content).await;
        talker.hear("ack").await;
    }
    assert!(refuses, "{} of 400 connections stay open", idle.len());

    drop((idle, refused));
    let metrics = async {
        loop {
            match get_text(address, "/metrics").await {
                Ok(metrics) if !metrics.is_empty() => return metrics,
                _ => sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let metrics = timeout(PATIENCE, metrics).await.unwrap();
    assert!(metrics.contains("turned_away_total{reason=\"open_files\"} 2"), "{metrics}");
    let log = launcher.log();
    let lines = log.lines().filter(|line| line.contains("the limit on open files is reached"));
    assert_eq!(lines.count(), 1, "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn server_raises_the_soft_limit_on_open_files_to_the_hard_limit() {
    let shell = Shell::new();
    let data_dir = shell.path("data");
    fs::create_dir(&data_dir).unwrap();
    let launcher = Launcher::new(limited(shell.directory.path(), "-S -n 64"), &data_dir);
    let server = launcher.start().await;
    let mut idle = Vec::new();
    for _ in 0..100 {
        idle.push(TcpStream::connect(&server.address).await.unwrap());
    }
    let ready = timeout(PATIENCE, request(&server.address, "GET", "/readyz", "", None)).await;
    assert_eq!(ready.unwrap().unwrap().0, 200);
}

#[test]
fn config_check_warns_if_the_file_limit_is_too_small_for_the_connections() {
    let shell = Shell::new();
    let script = limited(shell.directory.path(), "-n 300");
    let check = |connections: &str| {
        let mut command = std::process::Command::new(&script);
        command.args(["config", "check", "--listen", "127.0.0.1:0"]).current_dir(shell.directory.path());
        command.env_clear().env("BLUETICK_LIMITS__CONNECTIONS", connections);
        Outcome::of(command.output().unwrap())
    };
    let warned = check("226");
    assert_eq!(warned.code, 0, "{}", warned.stderr);
    assert!(warned.stderr.contains("300 open files allows 225 connections"), "{}", warned.stderr);
    let fits = check("225");
    assert_eq!((fits.code, fits.stderr.as_str()), (0, ""));
}
