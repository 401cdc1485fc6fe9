//! `bluetick archive` and `bluetick erase` as an operator uses them on a terminal.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod support;

use std::io::{Read, Write};

use bluetick_testkit::process::Launcher;
use pty_process::blocking::{Command, open};
use serde_json::Value;
use support::Shell;

/// A valid conversation id that does not exist.
const CONVERSATION: &str = "g144gj289144gj289144gj289";

/// A shell with an existing data directory.
fn shell() -> Shell {
    let shell = Shell::new();
    shell.run(&["user", "add", "alice", "--generate"]).printed();
    shell
}

#[test]
fn missing_data_directory_is_refused() {
    for arguments in [&["archive", "status"][..], &["archive", "run"], &["erase", "user", "alice", "--yes"]] {
        let shell = Shell::new();
        let sentence = shell.run(arguments).refused();
        assert!(sentence.contains("data directory") && sentence.contains("does not exist"), "{sentence}");
        assert!(!shell.path("bluetick-data").exists());
    }
}

#[test]
fn disabled_archive_is_reported_with_the_setting_that_enables_it() {
    let shell = shell();
    let printed = shell.run(&["archive", "status"]).printed();
    assert!(
        printed.starts_with("Archive        off (archive.engine in the settings)\nArchived       nothing\n")
    );
    let json: Value = serde_json::from_str(&shell.run(&["archive", "status", "--json"]).printed()).unwrap();
    assert_eq!((&json["engine_on"], &json["job"]), (&Value::Bool(false), &Value::Null));
    for arguments in [&["archive", "run"][..], &["archive", "verify"], &["archive", "restore", CONVERSATION]]
    {
        let sentence = shell.run(arguments).refused();
        assert!(sentence.contains("set archive.engine to"), "{sentence}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn archive_command_uses_the_running_server() {
    let shell = Shell::new();
    let data_dir = shell.path("bluetick-data");
    std::fs::create_dir(&data_dir).unwrap();
    let server = Launcher::new(env!("CARGO_BIN_EXE_bluetick"), &data_dir).start().await;
    let (printed, sentence) = tokio::task::block_in_place(|| {
        (shell.run(&["archive", "status"]).printed(), shell.run(&["archive", "verify"]).refused())
    });
    assert!(printed.starts_with("Archive        off"), "{printed}");
    assert!(sentence.contains("in the running server, the archive is off"), "{sentence}");
    server.kill().await;
}

#[test]
fn erase_without_confirmation_deletes_nothing() {
    let shell = shell();
    for arguments in [&["erase", "user", "alice"][..], &["erase", "conversation", CONVERSATION]] {
        let sentence = shell.run(arguments).refused();
        assert!(sentence.contains("cannot be undone") && sentence.contains("--yes"), "{sentence}");
    }
    for arguments in [
        &["erase", "conversation", "lunch"][..],
        &["erase", "conversation", CONVERSATION, "--through", "0"],
        &["erase", "user", "two words"],
        &["archive", "restore"],
    ] {
        assert_eq!(shell.run(arguments).code, 2, "{arguments:?}");
    }
}

#[test]
fn erase_on_a_terminal_requires_typing_the_id() {
    let shell = shell();
    let (pty, pts) = open().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_bluetick"))
        .args(["erase", "user", "alice"])
        .current_dir(shell.directory.path())
        .env_clear()
        .spawn(pts)
        .unwrap();
    let mut seen = Vec::new();
    let mut is_asked = false;
    let mut buffer = [0; 4096];
    // Reading fails when the last process closes the other side of the pseudo-terminal.
    while let Ok(count @ 1..) = (&pty).read(&mut buffer) {
        seen.extend_from_slice(&buffer[..count]);
        // Type only after the prompt: earlier input would be echoed into the middle of it.
        if !is_asked && String::from_utf8_lossy(&seen).contains("to continue: ") {
            is_asked = true;
            (&pty).write_all(b"alicia\n").unwrap();
        }
    }
    assert_eq!(child.wait().unwrap().code(), Some(2));
    let seen = String::from_utf8_lossy(&seen);
    assert!(seen.contains("This deletes every message alice wrote, in all conversations"), "{seen}");
    assert!(seen.contains("This cannot be undone. Type the id to continue: "), "{seen}");
    assert!(seen.contains("nothing was erased"), "{seen}");
}
