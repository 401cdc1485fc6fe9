//! Users of the operator's product beside users who sign up: no user gets the name of another.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

use bluetick_testkit::http::request;
use bluetick_testkit::process::Launcher;
use serde_json::json;

/// The admin key of every server under test.
const ADMIN_KEY: &str = "an-admin-key-for-this-test-alone";

fn launcher(data_dir: &tempfile::TempDir) -> Launcher {
    Launcher::new(env!("CARGO_BIN_EXE_bluetick"), data_dir.path())
        .open()
        .with("BLUETICK_ADMIN__KEY", ADMIN_KEY)
}

async fn sign_up(address: &str, user: &str) -> (u16, String) {
    let body = json!({"user_id": user, "password": "correct horse"});
    let (status, answer) = request(address, "POST", "/v1/signup", "", Some(&body)).await.unwrap();
    (status, answer["error"]["code"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn name_with_a_minted_token_refuses_sign_up() {
    let data_dir = tempfile::tempdir().unwrap();
    let server = launcher(&data_dir).start().await;
    let body = json!({"user_id": "customer-1"});
    for _ in 0..2 {
        let minted = request(&server.address, "POST", "/v1/tokens", ADMIN_KEY, Some(&body)).await.unwrap();
        assert_eq!(minted.0, 201);
    }
    assert_eq!(sign_up(&server.address, "customer-1").await, (409, "user_exists".into()));
    assert_eq!(sign_up(&server.address, "somebody-else").await.0, 201);
}

/// With a public key of the operator, the server verifies tokens and signs none.
#[tokio::test]
async fn token_command_shows_why_a_server_with_a_public_key_signs_no_token() {
    let data_dir = tempfile::tempdir().unwrap();
    let key = concat!(env!("CARGO_MANIFEST_DIR"), "/../auth/tests/fixtures/rsa_public.pem");
    let server = launcher(&data_dir).with("BLUETICK_AUTH__PUBLIC_KEY_FILE", key).start().await;
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_bluetick"))
        .args(["token", "alice", "--data-dir"])
        .arg(data_dir.path())
        .env_clear()
        .env("BLUETICK_ADMIN__KEY", ADMIN_KEY)
        .env("BLUETICK_AUTH__PUBLIC_KEY_FILE", key)
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    let body = json!({"user_id": "alice"});
    let (status, answer) =
        request(&server.address, "POST", "/v1/tokens", ADMIN_KEY, Some(&body)).await.unwrap();
    assert_eq!(status, 403);
    assert!(stderr.contains(answer["error"]["message"].as_str().unwrap()), "{stderr}");
    assert!(!stderr.contains("admin key"), "{stderr}");
}

#[tokio::test]
async fn shared_secret_disables_sign_up_unless_configured_otherwise() {
    let data_dir = tempfile::tempdir().unwrap();
    let with_secret = launcher(&data_dir).with("BLUETICK_AUTH__HS256_SECRET", &"s".repeat(32));
    let server = with_secret.start().await;
    assert_eq!(sign_up(&server.address, "customer-1").await, (403, "signup_disabled".into()));
    server.kill().await;
    let server = with_secret.with("BLUETICK_AUTH__SIGNUP_BESIDE_OWN_USERS", "true").start().await;
    assert_eq!(sign_up(&server.address, "customer-1").await.0, 201);
}
