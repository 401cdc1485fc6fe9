//! Calls that write complete even if the client disconnects.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bluetick_core::User;
use bluetick_core::time::{Clock, SystemClock};
use bluetick_server::audit::{AuditSettings, Trail};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::faulty_store::FaultyStore;
use crate::harness::{ADMIN_KEY, TIMEOUT, World};

struct DisconnectFixture {
    store: FaultyStore,
    world: World,
    trail: tempfile::TempDir,
}

impl DisconnectFixture {
    /// Starts a server on which alice has an account and an address may hold two connections.
    async fn start() -> DisconnectFixture {
        let (store, trail) = (FaultyStore::default(), tempfile::tempdir().unwrap());
        let mut setup = store.setup();
        setup.audit = Arc::new(Trail::new(&AuditSettings::default(), trail.path()));
        setup.limits.connections_per_address = 2;
        let world = setup.start().await;
        // Use the store, because the connection of a call might still be open.
        let id = "alice".parse().unwrap();
        let alice = User { id, display_name: None, password_hash: None, created_at: SystemClock.now() };
        world.store.create_user(alice).await.unwrap();
        DisconnectFixture { store, world, trail }
    }

    /// Starts a password change and disconnects. Returns after the server has seen the disconnect.
    async fn sets_a_password_and_hangs_up(&self) {
        self.store.hold_updates(true);
        let before = self.store.updates.load(Ordering::SeqCst);
        let body = json!({"password": "battery staple"}).to_string();
        let request = format!(
            "PUT /v1/users/alice/password HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ADMIN_KEY}\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(self.world.addr).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let begun = async {
            while self.store.updates.load(Ordering::SeqCst) == before {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(TIMEOUT, begun).await.expect("the store gets the user update");
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        let closed = timeout(TIMEOUT, stream.read_to_end(&mut answer)).await;
        assert_eq!(closed.expect("the server closes the connection").unwrap(), 0, "without an answer");
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
async fn password_change_completes_after_the_client_disconnects() {
    let scene = DisconnectFixture::start().await;
    let alice = scene.world.person("alice");
    scene.sets_a_password_and_hangs_up().await;
    scene.store.hold_updates(false);
    let ended = async {
        while scene.ends_of_the_act() != ["begun", "done"] {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(TIMEOUT, ended).await.expect("the call is logged at its end");
    alice.get("/v1/me").await.refused(401, "token_revoked");
}

#[tokio::test(flavor = "multi_thread")]
async fn running_call_of_a_disconnected_client_keeps_its_connection_permit() {
    let scene = DisconnectFixture::start().await;
    scene.sets_a_password_and_hangs_up().await;
    scene.sets_a_password_and_hangs_up().await;
    let mut third = TcpStream::connect(scene.world.addr).await.unwrap();
    // The listener refuses the connection, with or without a reset.
    let _reset = third.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let mut answer = Vec::new();
    let _reset =
        timeout(TIMEOUT, third.read_to_end(&mut answer)).await.expect("the call is answered without delay");
    assert!(answer.is_empty(), "both connection permits of the address are taken");
    scene.store.hold_updates(false);
}

#[tokio::test(flavor = "multi_thread")]
async fn drain_waits_for_a_call_whose_client_disconnected() {
    let mut scene = DisconnectFixture::start().await;
    scene.sets_a_password_and_hangs_up().await;
    let draining = tokio::spawn(scene.world.take_server().drain());
    assert!(!draining.is_finished());
    scene.store.hold_updates(false);
    timeout(TIMEOUT, draining).await.expect("it ends").unwrap();
    assert_eq!(scene.ends_of_the_act(), ["begun", "done"]);
}
