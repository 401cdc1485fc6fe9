//! `bluetick check`: what it says, and with which exit code.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod support;

use std::os::unix::fs::FileExt;

use bluetick_testkit::http::request;
use bluetick_testkit::process::Launcher;
use serde_json::{Value, json};
use support::Shell;

#[tokio::test(flavor = "multi_thread")]
async fn a_check_says_sound_damaged_or_not_looked_through() {
    let shell = Shell::new();
    let nothing = shell.run(&["check", "--data-dir", "nowhere"]).refused();
    assert!(nothing.contains("there is no store here"), "{nothing}");
    assert!(!shell.path("nowhere").exists());

    let data_dir = shell.path("data");
    std::fs::create_dir(&data_dir).unwrap();
    let launcher = Launcher::new(env!("CARGO_BIN_EXE_bluetick"), &data_dir);
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
