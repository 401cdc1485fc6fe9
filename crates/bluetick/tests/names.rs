//! Sign-up refuses a name that another user already has: by token, account, membership or profile.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod support;

use bluetick_testkit::http::request;
use bluetick_testkit::process::{Launcher, ServerProcess};
use serde_json::{Value, json};
use support::Shell;

/// The data directory, relative to the working directory of the commands.
const DATA: &str = "bluetick-data";

async fn start(shell: &Shell, is_open: bool) -> ServerProcess {
    std::fs::create_dir_all(shell.path(DATA)).unwrap();
    let closed = Launcher::new(env!("CARGO_BIN_EXE_bluetick"), &shell.path(DATA));
    (if is_open { closed.open() } else { closed }).start().await
}

async fn sign_up(server: &ServerProcess, name: &str) -> (u16, String) {
    let body = json!({"user_id": name, "password": "correct horse"});
    let (status, answer) = request(&server.address, "POST", "/v1/signup", "", Some(&body)).await.unwrap();
    (status, answer["error"]["code"].as_str().unwrap_or_default().to_owned())
}

async fn is_accepted(server: &ServerProcess, token: &str) -> bool {
    request(&server.address, "GET", "/v1/me", token.trim(), None).await.unwrap().0 == 200
}

#[tokio::test(flavor = "multi_thread")]
async fn name_with_a_command_line_token_refuses_sign_up() {
    let shell = Shell::new();
    // Without a server, and without a data directory.
    let alone = shell.run(&["token", "alone"]).printed();
    let closed = start(&shell, false).await;
    let while_closed = shell.run(&["token", "while-closed"]).printed();
    closed.kill().await;
    let open = start(&shell, true).await;
    let while_open = shell.run(&["token", "while-open"]).printed();
    let tokens = [("alone", alone), ("while-closed", while_closed), ("while-open", while_open)];
    for (name, token) in &tokens {
        assert!(is_accepted(&open, token).await, "{name}");
        for spelling in [name.to_string(), name.to_uppercase()] {
            assert_eq!(sign_up(&open, &spelling).await, (409, "user_exists".into()), "{spelling}");
        }
    }
    // The name is reserved before the token is printed, so the reservation survives a crash.
    open.kill().await;
    let stopped = shell.run(&["token", "stopped"]).printed();
    let again = start(&shell, true).await;
    assert!(is_accepted(&again, &stopped).await);
    for (name, _) in tokens.iter().map(|(name, token)| (*name, token)).chain([("stopped", &stopped)]) {
        assert_eq!(sign_up(&again, name).await.0, 409, "{name}");
    }
    assert_eq!(sign_up(&again, "somebody-else").await.0, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn member_of_a_conversation_without_messages_keeps_the_name() {
    let shell = Shell::new();
    let closed = start(&shell, false).await;
    let alice = shell.run(&["token", "alice"]).printed();
    let body = json!({"kind": "direct", "peer": "bob"});
    let (status, _) =
        request(&closed.address, "POST", "/v1/conversations", alice.trim(), Some(&body)).await.unwrap();
    assert_eq!(status, 201);
    closed.kill().await;
    // The name is found in the log, and later in the tables.
    for _ in 0..2 {
        let open = start(&shell, true).await;
        for name in ["bob", "Bob"] {
            assert_eq!(sign_up(&open, name).await, (409, "user_exists".into()), "{name}");
        }
        open.kill().await;
        // A command that opens the store and closes it leaves a checkpoint.
        shell.run(&["token", "alice"]).printed();
    }
}

#[test]
fn no_token_is_printed_when_its_name_cannot_be_reserved() {
    let shell = Shell::new();
    shell.run(&["token", "alice"]).printed();
    // Another process holds the store lock and serves no requests.
    let lock = bluetick_store_embedded::lock::DataLock::acquire(&shell.path(DATA)).unwrap();
    let refused = shell.run(&["token", "bob"]);
    assert_ne!(refused.code, 0);
    assert_eq!(refused.stdout, "");
    assert!(refused.stderr.contains("in use"), "{}", refused.stderr);
    drop(lock);
    let secret = ("BLUETICK_AUTH__HS256_SECRET", "the operator's shared secret, 32+ bytes");
    let elsewhere = shell
        .command(&["token", "alice", "--data-dir", "elsewhere"])
        .env(secret.0, secret.1)
        .output()
        .unwrap();
    let message = support::Outcome::of(elsewhere).refused();
    assert!(message.contains("can't be reserved"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn command_line_user_may_be_named_admin_but_not_like_another_user() {
    let shell = Shell::new();
    for name in ["admin", "alice"] {
        shell.run(&["user", "add", name, "--generate"]).printed();
    }
    let server = start(&shell, true).await;
    for name in ["Admin", "\u{430}lice"] {
        let refused = shell.run(&["user", "add", name, "--generate"]);
        assert!(refused.stderr.contains("looks like"), "{}", refused.stderr);
    }
    let hidden = shell.run(&["user", "add", "b\u{200b}ob", "--generate"]);
    assert_eq!(hidden.code, 2, "{}", hidden.stderr);
    assert_eq!(sign_up(&server, "support").await, (409, "name_reserved".into()));
    server.kill().await;
    let weak = shell.run_with_input("password1\n", &["user", "password", "alice", "--password-stdin"]);
    assert!(weak.refused().contains("most common"));
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_reserve_more_names_and_ask_for_longer_passwords() {
    let shell = Shell::new();
    shell.file("bluetick.toml", "[auth]\nreserved_names = [\"staff\"]\npassword_min_length = 14\n");
    std::fs::create_dir(shell.path(DATA)).unwrap();
    let config = shell.path("bluetick.toml");
    let launcher = Launcher::new(env!("CARGO_BIN_EXE_bluetick"), &shell.path(DATA)).open();
    let server = launcher.with("BLUETICK_CONFIG", config.to_str().unwrap()).start().await;
    let body = |name: &str, password: &str| json!({"user_id": name, "password": password});
    let ask = async |body: Value| {
        let answer = request(&server.address, "POST", "/v1/signup", "", Some(&body)).await.unwrap();
        (answer.0, answer.1["error"]["message"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(ask(body("Staff", "a correct horse")).await.0, 409);
    let (status, message) = ask(body("alice", "correct horse")).await;
    assert_eq!((status, &*message), (400, "password: a password has 14 to 1024 bytes"));
    assert_eq!(ask(body("alice", "a correct horse")).await.0, 201);
}

/// A killed server leaves the newest members in the log only.
#[tokio::test(flavor = "multi_thread")]
async fn check_lists_lookalike_members_that_are_only_in_the_log() {
    let shell = Shell::new();
    let alice = shell.run(&["token", "alice"]).printed();
    let closed = start(&shell, false).await;
    for peer in ["Zed", "zed"] {
        let body = json!({"kind": "direct", "peer": peer});
        let (status, _) =
            request(&closed.address, "POST", "/v1/conversations", alice.trim(), Some(&body)).await.unwrap();
        assert_eq!(status, 201);
    }
    closed.kill().await;
    let json: Value = serde_json::from_str(&shell.run(&["check", "--json"]).printed()).unwrap();
    assert_eq!((&json["sound"], &json["lookalikes"]), (&json!(true), &json!([["Zed", "zed"]])));
}

#[test]
fn check_lists_lookalike_names_and_reports_a_sound_store() {
    let shell = Shell::new();
    for name in ["alice", "Alice", "bob"] {
        shell.run(&["token", name]).printed();
    }
    let said = shell.run(&["check"]).printed();
    assert!(said.contains("- these names look alike: Alice, alice\n"), "{said}");
    assert!(said.contains("none; the store is sound"), "{said}");
    let json: Value = serde_json::from_str(&shell.run(&["check", "--json"]).printed()).unwrap();
    assert_eq!((&json["sound"], &json["lookalikes"]), (&json!(true), &json!([["Alice", "alice"]])));
}
