//! `bluetick check`: its output and its exit codes.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod support;

use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bluetick_testkit::http::request;
use bluetick_testkit::process::Launcher;
use serde_json::{Value, json};
use support::Shell;

#[tokio::test(flavor = "multi_thread")]
async fn check_reports_sound_damaged_or_unchecked() {
    let shell = Shell::new();
    let nothing = shell.run(&["check", "--data-dir", "nowhere"]).refused();
    assert!(nothing.contains("there is no store here"), "{nothing}");
    assert!(!shell.path("nowhere").exists());

    let data_dir = shell.path("data");
    std::fs::create_dir(&data_dir).unwrap();
    let launcher = Launcher::new(env!("CARGO_BIN_EXE_bluetick"), &data_dir).open();
    let server = launcher.start().await;
    let in_use = shell.run(&["check", "--data-dir", "data"]).refused();
    assert!(in_use.contains("is in use by process") && in_use.contains("stop the server"), "{in_use}");
    let (status, answer) = request(
        &server.address,
        "POST",
        "/v1/signup",
        "",
        Some(&json!({"user_id": "alice", "password": "long enough"})),
    )
    .await
    .unwrap();
    assert!(status < 300, "{answer}");
    server.kill().await;

    let said = shell.run(&["check", "--data-dir", "data"]).printed();
    assert!(said.contains("none; the store is sound"), "{said}");
    let json: Value =
        serde_json::from_str(&shell.run(&["check", "--data-dir", "data", "--json"]).printed()).unwrap();
    assert_eq!((&json["sound"], &json["findings"]), (&json!(true), &json!([])));

    let tables = std::fs::OpenOptions::new().write(true).open(data_dir.join("tables/data.mdb")).unwrap();
    tables.write_all_at(b"?", 17).unwrap();
    let damaged = shell.run(&["check", "--data-dir", "data", "--json"]);
    assert_eq!(damaged.code, 1, "{}", damaged.stderr);
    let json: Value = serde_json::from_str(&damaged.stdout).unwrap();
    assert_eq!((&json["sound"], &json["findings"][0]["file"]), (&json!(false), &json!("tables/data.mdb")));
    let fleet = shell.run_with(("BLUETICK_STORE__ENGINE", "dynamodb"), &["check"]);
    assert_eq!(fleet.code, 2, "{}", fleet.stderr);
}

/// The admin key of every server under test.
const ADMIN_KEY: &str = "an-admin-key-for-this-test-alone";
/// Number of acknowledged messages, each in its own batch of the log.
const MESSAGES: usize = 60;

/// A data directory whose server was killed after it acknowledged [`MESSAGES`] messages, each in a
/// batch of its own. They are only in the log.
async fn killed(data_dir: &Path) {
    std::fs::create_dir(data_dir).unwrap();
    let launcher = Launcher::new(env!("CARGO_BIN_EXE_bluetick"), data_dir)
        .with("BLUETICK_ADMIN__KEY", ADMIN_KEY)
        .with("BLUETICK_LIMITS__REQUESTS_PER_SECOND", "0")
        .with("BLUETICK_LIMITS__SENDS_PER_SECOND", "0")
        .with("BLUETICK_STORE__CHECKPOINT_IDLE_SECONDS", "3600");
    let server = launcher.start().await;
    let ask = async |path: &str, token: &str, body: Value| {
        let (status, answer) = request(&server.address, "POST", path, token, Some(&body)).await.unwrap();
        assert!(status < 300, "{answer}");
        answer
    };
    let answer = ask("/v1/tokens", ADMIN_KEY, json!({"user_id": "alice", "ttl_s": 3600})).await;
    let token = answer["token"].as_str().unwrap().to_owned();
    let answer = ask("/v1/conversations", &token, json!({"kind": "direct", "peer": "bob"})).await;
    let path = format!("/v1/conversations/{}/messages", answer["conversation_id"].as_str().unwrap());
    for number in 0..MESSAGES {
        let body = json!({"message_id": format!("m-{number}"), "content": format!("number {number}")});
        ask(&path, &token, body).await;
    }
    server.kill().await;
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        match entry.path().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

/// Overwrites the last `count` batches of the log with `byte`.
fn destroy(data_dir: &Path, count: usize, byte: u8) {
    let files = std::fs::read_dir(data_dir.join("log")).unwrap().flatten().map(|entry| entry.path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|kind| kind == "log")).collect();
    files.sort();
    let segment = files.pop().unwrap();
    let mut bytes = std::fs::read(&segment).unwrap();
    let batches: Vec<_> =
        (4096..bytes.len() - 4).step_by(8).filter(|at| bytes[*at..*at + 4] == *b"BTLB").collect();
    assert!(batches.len() >= MESSAGES, "{} batches", batches.len());
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    bytes[batches[batches.len() - count]..end].fill(byte);
    std::fs::write(segment, bytes).unwrap();
}

/// Returns the output of a start that fails. Panics if the server starts.
fn refusal(shell: &Shell, data_dir: &str) -> String {
    let mut command = shell.command(&["serve", "--listen", "127.0.0.1:0", "--data-dir", data_dir]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    for line in BufReader::new(child.stderr.take().unwrap()).lines() {
        let line = line.unwrap();
        if line.contains("listening") || line.contains("http://") {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("the server started: {said}{line}");
        }
        said += &line;
    }
    assert_eq!(child.wait().unwrap().code(), Some(1), "{said}");
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_batches_destroyed_at_the_end_of_the_log_are_reported_and_refused() {
    let shell = Shell::new();
    killed(&shell.path("sound")).await;
    let said = shell.run(&["check", "--data-dir", "sound"]).printed();
    assert!(said.contains("none; the store is sound"), "{said}");
    // The messages are only in the log.
    assert!(said.contains("0 messages") && said.contains("only in the log are not counted"), "{said}");
    for (count, byte) in [(1, 0), (5, 0), (20, 0), (35, 0), (1, 0xA5), (5, 0xA5), (20, 0xA5), (35, 0xA5)] {
        let name = format!("lost-{count}-{byte}");
        copy(&shell.path("sound"), &shell.path(&name));
        destroy(&shell.path(&name), count, byte);
        let damaged = shell.run(&["check", "--data-dir", &name]);
        assert_eq!(damaged.code, 1, "{name}: {}{}", damaged.stdout, damaged.stderr);
        assert!(damaged.stdout.contains("are lost"), "{name}: {}", damaged.stdout);
        let said = refusal(&shell, &name);
        assert!(said.contains("are lost") && said.contains(".log"), "{name}: {said}");
    }
}

/// A read-only mount of a directory. Dropping it unmounts.
struct ReadOnly(PathBuf);

impl ReadOnly {
    fn mount(directory: &Path, at: PathBuf) -> ReadOnly {
        std::fs::create_dir(&at).unwrap();
        let run = |command: &mut Command| {
            let done = command.status().is_ok_and(|status| status.success());
            assert!(
                done,
                "this test mounts a directory read-only and needs the right to: run it as root, or in `unshare -rm`"
            );
        };
        run(Command::new("mount").arg("--bind").arg(directory).arg(&at));
        let mounted = ReadOnly(at);
        run(Command::new("mount").args(["-o", "remount,ro,bind"]).arg(&mounted.0));
        mounted
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn check_works_on_a_read_only_mount() {
    let shell = Shell::new();
    let data_dir = shell.path("data");
    killed(&data_dir).await;
    // A directory that was never opened on this machine has neither lock file.
    copy(&data_dir, &shell.path("unlocked"));
    std::fs::remove_file(shell.path("unlocked/LOCK")).unwrap();
    std::fs::remove_file(shell.path("unlocked/tables/lock.mdb")).unwrap();
    for name in ["data", "unlocked"] {
        let mounted = ReadOnly::mount(&shell.path(name), shell.path(&format!("{name}-mounted")));
        assert!(std::fs::write(mounted.0.join("x"), "").is_err(), "it is read-only");
        let arguments = ["check", "--json", "--data-dir", &format!("{name}-mounted")];
        let json: Value = serde_json::from_str(&shell.run(&arguments).printed()).unwrap();
        assert_eq!(json["sound"], json!(true), "{json}");
        assert!(json["batches"].as_u64().unwrap() > MESSAGES as u64, "{json}");
        // Exit code 1 would mean damage.
        let engine = ("BLUETICK_ARCHIVE__ENGINE", "directory");
        let mounted_name = format!("{name}-mounted");
        let outcome = shell.run_with(engine, &["check", "--archive", "--data-dir", &mounted_name]);
        assert_eq!(outcome.code, 2, "{}", outcome.stderr);
        assert!(outcome.stdout.contains("the store is sound"), "{}", outcome.stdout);
        assert!(outcome.stderr.contains("the archive was not checked"), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("is mounted read-only"), "{}", outcome.stderr);
        destroy(&shell.path(name), 5, 0);
        let damaged = shell.run(&arguments);
        assert!(damaged.code == 1 && damaged.stdout.contains("are lost"), "{}", damaged.stdout);
    }
    // The check detects a server that uses the directory through another mount.
    std::fs::remove_file(data_dir.join("log/durable")).unwrap();
    let server = Launcher::new(env!("CARGO_BIN_EXE_bluetick"), &data_dir).start().await;
    let mounted = ReadOnly::mount(&data_dir, shell.path("in-use"));
    let in_use = shell.run(&["check", "--data-dir", "in-use"]).refused();
    assert!(in_use.contains("is in use by process"), "{in_use}");
    drop(mounted);
    server.kill().await;
}
