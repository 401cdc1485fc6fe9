//! An archive on a real S3 server: messages are archived and restored, also after an S3 outage.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

use std::time::Duration;

use bluetick_testkit::http::{get_text, messages, request};
use bluetick_testkit::process::{Launcher, ServerProcess};
use bluetick_testkit::s3::{S3Kind, S3Server};
use serde_json::{Value, json};

/// The admin key of every server under test.
const ADMIN_KEY: &str = "an-admin-key-for-this-test-alone";
/// Number of messages that the test archives, enough for several pages.
const MESSAGES: u64 = 300;

struct World {
    objects: S3Server,
    server: ServerProcess,
    token: String,
    conversation: String,
    _data_dir: tempfile::TempDir,
}

impl World {
    /// Starts S3 and a server, and sends 300 messages between two users.
    async fn start(kind: S3Kind, timeout_seconds: &str) -> World {
        let objects = S3Server::start(kind).await;
        let data_dir = tempfile::tempdir().unwrap();
        let mut launcher = Launcher::new(env!("CARGO_BIN_EXE_bluetick"), data_dir.path())
            .with("BLUETICK_ADMIN__KEY", ADMIN_KEY)
            .with("BLUETICK_LIMITS__SENDS_PER_SECOND", "0")
            .with("BLUETICK_LIMITS__REQUESTS_PER_SECOND", "0")
            .with("BLUETICK_ARCHIVE__ENGINE", "s3")
            .with("BLUETICK_ARCHIVE__ENDPOINT", &objects.endpoint())
            .with("BLUETICK_ARCHIVE__BUCKET", objects.bucket())
            .with("BLUETICK_ARCHIVE__PREFIX", "chat/cold")
            .with("BLUETICK_ARCHIVE__TIMEOUT_SECONDS", timeout_seconds)
            .with("BLUETICK_ARCHIVE__AGE_SECONDS", "0")
            .with("BLUETICK_ARCHIVE__EVERY_SECONDS", "0")
            .with("BLUETICK_ARCHIVE__CACHE_BYTES", "0");
        for (variable, value) in objects.credentials() {
            launcher = launcher.with(variable, value);
        }
        let server = launcher.start().await;
        let ask = |path: &'static str, key: String, body: Value| {
            let address = server.address.clone();
            async move {
                let (status, answer) = request(&address, "POST", path, &key, Some(&body)).await.unwrap();
                assert!(status < 300, "{status} {answer}");
                answer
            }
        };
        let minted =
            ask("/v1/tokens", ADMIN_KEY.to_owned(), json!({"user_id": "alice", "ttl_s": 3600})).await;
        let token = minted["token"].as_str().unwrap().to_owned();
        let opened = ask("/v1/conversations", token.clone(), json!({"kind": "direct", "peer": "bob"})).await;
        let conversation = opened["conversation_id"].as_str().unwrap().to_owned();
        let world = World { objects, server, token, conversation, _data_dir: data_dir };
        for number in 1..=MESSAGES {
            world.send(number).await;
        }
        world
    }

    async fn send(&self, number: u64) {
        let body =
            json!({"message_id": format!("m{number}"), "content": format!("message number {number} 🙂")});
        let (status, answer) = self.ask("POST", "messages", Some(&body)).await;
        assert_eq!((status, &answer["seq"]), (201, &json!(number)), "{answer}");
    }

    async fn ask(&self, method: &str, what: &str, body: Option<&Value>) -> (u16, Value) {
        let path = format!("/v1/conversations/{}/{what}", self.conversation);
        request(&self.server.address, method, &path, &self.token, body).await.unwrap()
    }

    /// Runs a job and returns the status of the archive afterwards.
    async fn job(&self, kind: &str, body: Value) -> Value {
        let address = &self.server.address;
        let path = format!("/v1/archive/{kind}");
        let (status, asked) = request(address, "POST", &path, ADMIN_KEY, Some(&body)).await.unwrap();
        assert_eq!(status, 202, "{asked}");
        loop {
            let now = self.status().await;
            if now["last_job"]["job_id"] == asked["job_id"] {
                assert_eq!(now["last_job"]["error"], Value::Null);
                return now;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn status(&self) -> Value {
        request(&self.server.address, "GET", "/v1/archive", ADMIN_KEY, None).await.unwrap().1
    }

    async fn everything(&self) -> Vec<Value> {
        messages(&self.server.address, &self.token, &self.conversation).await
    }

    async fn metric(&self, name: &str) -> String {
        let metrics = get_text(&self.server.address, "/metrics").await.unwrap();
        let found = metrics.lines().find_map(|line| line.strip_prefix(name));
        found.unwrap_or_else(|| panic!("no {name}")).trim().to_owned()
    }
}

async fn there_and_back(kind: S3Kind) {
    let world = World::start(kind, "60").await;
    let before = world.everything().await;
    let moved = world.job("run", json!({"partial": true})).await;
    assert_eq!(moved["cold"]["messages"], json!(MESSAGES));
    world.send(MESSAGES + 1).await;
    let after = world.everything().await;
    assert_eq!(
        &after[..before.len()],
        &before[..],
        "the pages are unchanged across hot and archived messages"
    );
    assert_eq!(after.len() as u64, MESSAGES + 1);
    let (_, border) = world.ask("GET", "messages?before_seq=302&limit=20", None).await;
    assert_eq!(border["messages"].as_array().unwrap().len(), 20);
    let verified = world.job("verify", json!({})).await;
    assert_eq!(verified["last_job"]["report"]["problems"], json!([]));
    let restored = world.job("restore", json!({"conversation_id": world.conversation})).await;
    assert_eq!(restored["cold"]["messages"], json!(0));
    assert_eq!(&world.everything().await[..before.len()], &before[..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn archived_messages_return_unchanged_from_s3s_fs() {
    there_and_back(S3Kind::S3sFs).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn archived_messages_return_unchanged_from_ministack() {
    there_and_back(S3Kind::Ministack).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unavailable_bucket_leaves_new_messages_working_until_it_returns() {
    let mut world = World::start(S3Kind::S3sFs, "8").await;
    let before = world.everything().await;
    world.job("run", json!({"partial": true})).await;
    for number in MESSAGES + 1..=MESSAGES + 10 {
        world.send(number).await;
    }
    world.objects.stop().await;
    world.send(MESSAGES + 11).await;
    let (status, page) = world.ask("GET", "messages?limit=100", None).await;
    assert_eq!(
        (status, page["messages"].as_array().unwrap().len()),
        (200, 11),
        "messages in the hot store are served"
    );
    assert_eq!(page["next_before_seq"], json!(MESSAGES + 1), "the cursor names the archived rest");
    let (status, refused) = world.ask("GET", "messages?before_seq=100", None).await;
    assert_eq!((status, &refused["error"]["code"]), (503, &json!("archive_unavailable")));
    let body = json!({"partial": true});
    let address = world.server.address.clone();
    let asked = request(&address, "POST", "/v1/archive/run", ADMIN_KEY, Some(&body)).await.unwrap();
    assert!(asked.0 == 503 || asked.0 == 202, "{asked:?}");
    while world.status().await["paused"] == Value::Null {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(world.metric("bluetick_archive_paused ").await, "1");

    world.objects.start_again().await;
    // The server stops asking S3 for a moment after each failure.
    while world.ask("GET", "messages?before_seq=100", None).await.0 == 503 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(&world.everything().await[..before.len()], &before[..]);
    let moved = world.job("run", body).await;
    assert_eq!((&moved["cold"]["messages"], &moved["paused"]), (&json!(MESSAGES + 11), &Value::Null));
    assert_eq!(world.metric("bluetick_archive_paused ").await, "0");
}
