//! What changes something comes to its end, whether anybody waits for the answer or not.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bluetick_server::audit::{AuditSettings, Trail};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::harness::{ADMIN_KEY, PATIENCE, World};
use crate::rigged_store::RiggedStore;

struct Scene {
    store: RiggedStore,
    world: World,
    trail: tempfile::TempDir,
}

impl Scene {
    /// Alice has an account, and one address has one connection at a time.
    async fn start() -> Scene {
        let (store, trail) = (RiggedStore::default(), tempfile::tempdir().unwrap());
        let mut setup = store.setup();
        setup.audit = Arc::new(Trail::new(&AuditSettings::default(), trail.path()));
        setup.limits.connections_per_address = 1;
        setup.settings.trusted_proxies = Vec::new();
        let world = setup.start().await;
        let scene = Scene { store, world, trail };
        let alice = json!({"user_id": "alice", "password": "correct horse"});
        assert!(scene.asks("POST", "/v1/users", Some(alice)).await.starts_with("HTTP/1.1 201"));
        scene
    }

    fn request(method: &str, path: &str, body: Option<Value>) -> String {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {ADMIN_KEY}\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    /// Asks until it is let in, which it is when the connection before it is gone.
    async fn asks(&self, method: &str, path: &str, body: Option<Value>) -> String {
        let request = Scene::request(method, path, body);
        let asking = async {
            loop {
                let mut stream = TcpStream::connect(self.world.addr).await.unwrap();
                let mut answer = String::new();
                let is_sent = stream.write_all(request.as_bytes()).await.is_ok();
                if is_sent && stream.read_to_string(&mut answer).await.is_ok() && !answer.is_empty() {
                    return answer;
                }
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, asking).await.expect("it is let in some time")
    }

    /// Begins to set a password and is gone before that is done, and the server has seen it go.
    async fn sets_a_password_and_hangs_up(&self) {
        self.store.hold_updates(true);
        let request =
            Scene::request("PUT", "/v1/users/alice/password", Some(json!({"password": "battery staple"})));
        let begun = async {
            while self.store.updates.load(Ordering::SeqCst) == 0 {
                let mut stream = TcpStream::connect(self.world.addr).await.unwrap();
                let _turned_away = stream.write_all(request.as_bytes()).await;
                for _ in 0..100 {
                    if self.store.updates.load(Ordering::SeqCst) > 0 {
                        break;
                    }
                    sleep(Duration::from_millis(5)).await;
                }
            }
        };
        timeout(PATIENCE, begun).await.expect("the store is asked to change the user");
        self.asks("GET", "/healthz", None).await;
    }

    fn ends_of_the_act(&self) -> Vec<String> {
        let text = fs::read_to_string(self.trail.path().join("audit.log")).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines
            .filter(|line| line["act"] == "user.password")
            .map(|line| line["outcome"].as_str().unwrap().to_owned())
            .collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_hangs_up_while_a_password_is_set_has_set_it_with_all_that_follows() {
    let scene = Scene::start().await;
    let before = scene.world.person("alice").token;
    scene.sets_a_password_and_hangs_up().await;
    scene.store.hold_updates(false);
    let ended = async {
        while scene.ends_of_the_act() != ["begun", "done"] {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, ended).await.expect("its end is written down");
    let me = "GET /v1/me HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer ";
    let mut stream = TcpStream::connect(scene.world.addr).await.unwrap();
    stream.write_all(format!("{me}{before}\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("token_revoked"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_waits_for_what_nobody_waits_for_any_more() {
    let mut scene = Scene::start().await;
    scene.sets_a_password_and_hangs_up().await;
    let draining = tokio::spawn(scene.world.take_server().drain());
    assert!(!draining.is_finished());
    scene.store.hold_updates(false);
    timeout(PATIENCE, draining).await.expect("it ends").unwrap();
    assert_eq!(scene.ends_of_the_act(), ["begun", "done"]);
}
