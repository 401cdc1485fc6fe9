//! Servers and commands record every change to a data directory in the audit trail.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use bluetick_testkit::http::request;
use bluetick_testkit::process::Launcher;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use support::Shell;

/// The data directory, relative to the working directory of the commands.
const DATA: &str = "bluetick-data";

fn lines(shell: &Shell) -> Vec<Value> {
    let text = fs::read_to_string(shell.path(DATA).join("audit.log")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Act, outcome, subject and actor of the entries, beginning with entry `from`.
fn said(shell: &Shell, from: usize) -> Vec<String> {
    let word = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let line = |line: &Value| {
        let subject = &line["subject"]["user_id"];
        format!(
            "{} {} {} by {}",
            word(&line["act"]),
            word(&line["outcome"]),
            word(subject),
            word(&line["who"]["by"])
        )
    };
    lines(shell)[from..].iter().map(line).collect()
}

#[test]
fn offline_commands_are_audited_with_the_operating_system_user() {
    let shell = Shell::new();
    let password = shell.run(&["user", "add", "alice", "--generate"]).printed();
    let other = shell.run(&["user", "password", "alice", "--generate"]).printed();
    shell.run(&["user", "revoke", "alice"]).printed();
    let token = shell.run(&["token", "bob"]).printed();
    shell.run(&["erase", "user", "alice", "--yes"]).printed();
    assert_ne!(shell.run(&["user", "add", "alice", "--generate"]).code, 0);
    assert_ne!(shell.run(&["archive", "verify"]).code, 0, "no archive is configured");
    let by_hand = |act: &str, outcome: &str, user: &str| format!("{act} {outcome} {user} by command_line");
    let mut expected = Vec::new();
    for (act, user, end) in [
        ("user.create", "alice", "done"),
        ("user.password", "alice", "done"),
        ("user.revoke", "alice", "done"),
        ("token.mint", "bob", "done"),
        ("erase", "alice", "done"),
        ("user.create", "alice", "failed"),
        ("archive.verify", "-", "failed"),
    ] {
        expected.extend([by_hand(act, "begun", user), by_hand(act, end, user)]);
    }
    assert_eq!(said(&shell, 0), expected);
    assert!(lines(&shell)[0]["who"]["uid"].is_number());
    let file = shell.path(DATA).join("audit.log");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let text = fs::read_to_string(file).unwrap();
    for secret in [&password, &other, &token] {
        assert!(!text.contains(secret.trim()));
    }
}

#[tokio::test]
async fn server_audits_start_stop_and_requests_of_commands() {
    let shell = Shell::new();
    fs::create_dir(shell.path(DATA)).unwrap();
    let launcher = Launcher::new(env!("CARGO_BIN_EXE_bluetick"), &shell.path(DATA))
        .open()
        .with("BLUETICK_ADMIN__KEY", "a-secret-of-the-operator")
        .with("BLUETICK_LIMITS__GROUP_MEMBERS", "77");
    let mut server = launcher.start().await;
    let start = &lines(&shell)[0];
    assert_eq!((&start["act"], &start["who"]["by"]), (&json!("server.start"), &json!("process")));
    assert_eq!(start["detail"]["settings"]["limits.group_members"], "77");
    assert_eq!(start["detail"]["settings"]["admin.key"], "\"***\"");
    let key = ("BLUETICK_ADMIN__KEY", "a-secret-of-the-operator");
    let signed_up = json!({"user_id": "alice", "password": "correct horse"});
    let (_, body) = request(&server.address, "POST", "/v1/signup", "", Some(&signed_up)).await.unwrap();
    let token = body["token"].as_str().unwrap().to_owned();
    assert_eq!(request(&server.address, "GET", "/v1/me", &token, None).await.unwrap().0, 200);
    shell.run_with(key, &["user", "revoke", "alice"]).printed();
    let (status, body) = request(&server.address, "GET", "/v1/me", &token, None).await.unwrap();
    assert_eq!((status, &body["error"]["code"]), (401, &json!("token_revoked")));
    let pid = Pid::from_raw(server.id().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    server.wait().await;
    let expected = [
        "user.revoke begun alice by admin_key",
        "user.revoke done alice by admin_key",
        "server.drain begun - by process",
    ];
    assert_eq!(said(&shell, 1), expected);
    assert!(
        lines(&shell)[1]["who"]["command_line"]["uid"].is_number(),
        "the entry names the user of the command"
    );
    assert!(!fs::read_to_string(shell.path(DATA).join("audit.log")).unwrap().contains("a-secret-of"));
    let again = launcher.start().await;
    let (status, _) = request(&again.address, "GET", "/v1/me", &token, None).await.unwrap();
    assert_eq!(status, 401, "the token stays revoked");
    again.kill().await;
    let killed = launcher.start().await;
    let (status, _) = request(&killed.address, "GET", "/v1/me", &token, None).await.unwrap();
    assert_eq!(status, 401, "also after a crash");
}

#[test]
fn user_revoked_offline_stays_revoked_after_server_start() {
    let shell = Shell::new();
    let token = shell.run(&["token", "alice"]).printed();
    shell.run(&["user", "revoke", "alice"]).printed();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let server = Launcher::new(env!("CARGO_BIN_EXE_bluetick"), &shell.path(DATA)).start().await;
        let (status, body) = request(&server.address, "GET", "/v1/me", token.trim(), None).await.unwrap();
        assert_eq!((status, &body["error"]["code"]), (401, &json!("token_revoked")));
        let fresh = shell.run(&["token", "alice"]).printed();
        assert_eq!(request(&server.address, "GET", "/v1/me", fresh.trim(), None).await.unwrap().0, 200);
    });
}

#[test]
fn unwritable_audit_trail_refuses_the_command() {
    let shell = Shell::new();
    fs::create_dir_all(shell.path(DATA).join("audit.log")).unwrap();
    let refused = shell.run(&["user", "add", "alice", "--generate"]);
    assert!(refused.code == 1 && refused.stderr.contains("audit.log"), "{}", refused.stderr);
    let refused = shell.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(refused.code == 1 && refused.stderr.contains("audit.log"), "{}", refused.stderr);
    let off = ("BLUETICK_AUDIT__FILE", "off");
    shell.run_with(off, &["user", "add", "alice", "--generate"]).printed();
    let on_stderr = shell.run_with(("BLUETICK_AUDIT__FILE", "stderr"), &["user", "revoke", "alice"]);
    assert_eq!(on_stderr.stderr.lines().filter(|line| line.contains("user.revoke")).count(), 2);
}

#[test]
fn invalid_audit_settings_are_refused() {
    for (variable, value) in [
        ("BLUETICK_AUDIT__FILE", " "),
        ("BLUETICK_AUDIT__ROTATE_BYTES", "10"),
        ("BLUETICK_AUDIT__KEEP_FILES", "0"),
    ] {
        let outcome = Shell::new().run_with((variable, value), &["config", "check", "--settings-only"]);
        assert!(outcome.code == 2 && outcome.stderr.contains("audit."), "{}", outcome.stderr);
    }
}
