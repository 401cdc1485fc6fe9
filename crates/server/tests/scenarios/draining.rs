//! The graceful shutdown.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;

use crate::faulty_store::FaultyStore;
use crate::harness::{Device, Setup, TIMEOUT, World};

#[tokio::test(flavor = "multi_thread")]
async fn drain_sends_reconnect_delay_closes_sockets_and_stops_listening() {
    let mut world = World::new().await;
    let mut device = world.person("alice").connect().await;
    let mut unknown = Device::open(world.addr).await;
    let server = world.take_server();
    let drained = tokio::spawn(server.drain());
    let come_back = device.receive_type("come_back").await;
    let after_ms = come_back["after_ms"].as_u64().unwrap();
    assert!((500..=3_000).contains(&after_ms), "{after_ms}");
    assert_eq!(device.closed_with().await, (1012, "restarting".into()));
    assert_eq!(unknown.closed_with().await.0, 1012);
    tokio::time::timeout(TIMEOUT, drained).await.unwrap().unwrap();
    assert!(tokio::net::TcpStream::connect(world.addr).await.is_err());
}

/// Sends wait in the store when the drain begins. They are stored and acknowledged; later ones are
/// refused.
#[tokio::test(flavor = "multi_thread")]
async fn drain_acknowledges_accepted_sends_and_refuses_later_ones() {
    let store = FaultyStore::default();
    let mut world = store.setup().start().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    let (mut phone, mut tablet) = (alice.connect().await, bob.connect().await);
    store.hold_appends(true);
    let before = store.appends.load(Ordering::SeqCst);
    phone.send(&chat, "m1", "accepted").await;
    phone.receives_nothing().await;
    let over_http = tokio::spawn({
        let (alice, chat) = (alice.clone(), chat.clone());
        async move { alice.send(&chat, "m2", "accepted too").await }
    });
    while store.appends.load(Ordering::SeqCst) < before + 2 {
        tokio::task::yield_now().await;
    }
    // An HTTP connection that was opened before the drain.
    let mut inside = KeepAliveConnection::open(world.addr).await;
    assert!(inside.get("/readyz").await.contains("200 OK"));
    while !world.get("/metrics").await.text().contains("bluetick_connections 2") {}

    let drained = tokio::spawn(world.take_server().drain());
    let refused_at = tokio::time::Instant::now();
    loop {
        phone.send(&chat, "m3", "too late").await;
        let answer = tokio::time::timeout(Duration::from_millis(100), phone.receive()).await;
        if let Ok(answer) = answer {
            assert_eq!(
                (answer["code"].as_str(), answer["message_id"].as_str()),
                (Some("draining"), Some("m3"))
            );
            break;
        }
        assert!(refused_at.elapsed() < TIMEOUT);
    }
    let not_ready = inside.get("/readyz").await;
    assert!(not_ready.contains("503") && not_ready.contains("shutting down"), "{not_ready}");
    // The server accepts new connections and refuses their work.
    let not_ready = world.get("/readyz").await;
    assert_eq!(
        (not_ready.status, not_ready.json()["reason"].as_str()),
        (503, Some("the server is shutting down"))
    );
    assert_eq!(world.get("/healthz").await.status, 200);
    alice.send(&chat, "m4", "too late").await.refused(503, "draining");
    assert_eq!(Device::try_open(world.addr, None).await.err(), Some(503));
    assert!(!drained.is_finished() && !store.closed.load(Ordering::SeqCst));

    store.hold_appends(false);
    let acknowledged = loop {
        let frame = phone.receive().await;
        if frame["type"] == "ack" && frame["message_id"] == "m1" {
            break frame;
        }
    };
    assert_eq!(tablet.receive_type("message").await["conversation_id"], acknowledged["conversation_id"]);
    assert_eq!(over_http.await.unwrap().status, 201);
    assert_eq!(phone.closed_with().await.0, 1012);
    assert_eq!(tablet.closed_with().await.0, 1012);
    tokio::time::timeout(TIMEOUT, drained).await.unwrap().unwrap();
    assert!(store.closed.load(Ordering::SeqCst));
}

#[tokio::test(flavor = "multi_thread")]
async fn drain_ends_in_time_when_the_store_hangs() {
    let store = FaultyStore::default();
    let mut setup = store.setup();
    setup.settings.drain_seconds = 1;
    let mut world = setup.start().await;
    let alice = world.person("alice");
    let chat = alice.direct("bob").await;
    let mut phone = alice.connect().await;
    store.hold_appends(true);
    phone.send(&chat, "m1", "never stored").await;
    phone.receives_nothing().await;
    tokio::time::timeout(TIMEOUT, world.take_server().drain()).await.expect("it ends");
}

/// A load balancer that checks periodically keeps routing to this server for some time.
#[tokio::test(flavor = "multi_thread")]
async fn server_is_not_ready_but_serves_during_the_drain_delay() {
    let mut setup = Setup::default();
    setup.settings.drain_delay_seconds = 3_600;
    let mut world = setup.start().await;
    let alice = world.person("alice");
    let chat = alice.direct("bob").await;
    let mut phone = alice.connect_now().await;
    let drained = tokio::spawn(world.take_server().drain());
    while world.get("/readyz").await.status != 503 {}
    phone.send(&chat, "m1", "still here").await;
    phone.receive_type("ack").await;
    let mut tablet = world.person("bob").connect_at(json!({})).await;
    assert_eq!(tablet.backlog[0]["content"], "still here");
    assert_eq!(alice.send(&chat, "m2", "and still").await.status, 201);
    tablet.receive_type("message").await;
    assert!(!drained.is_finished());
    drained.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn server_drains_after_the_drain_delay() {
    let mut setup = Setup::default();
    setup.settings.drain_delay_seconds = 1;
    let mut world = setup.start().await;
    let mut phone = world.person("alice").connect_now().await;
    let started = tokio::time::Instant::now();
    let drained = tokio::spawn(world.take_server().drain());
    assert_eq!(phone.closed_with().await.0, 1012);
    assert!(started.elapsed() >= Duration::from_secs(1));
    tokio::time::timeout(TIMEOUT, drained).await.unwrap().unwrap();
}

/// One HTTP connection for several calls.
struct KeepAliveConnection(tokio::net::TcpStream);

impl KeepAliveConnection {
    async fn open(addr: std::net::SocketAddr) -> KeepAliveConnection {
        KeepAliveConnection(tokio::net::TcpStream::connect(addr).await.unwrap())
    }

    /// A small response arrives in one read.
    async fn get(&mut self, path: &str) -> String {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        self.0.write_all(request.as_bytes()).await.unwrap();
        let mut answer = vec![0; 4096];
        let mut length = 0;
        while !answer[..length].ends_with(b"}") {
            let read =
                tokio::time::timeout(TIMEOUT, self.0.read(&mut answer[length..])).await.unwrap().unwrap();
            assert!(read > 0, "the connection ended");
            length += read;
        }
        String::from_utf8(answer[..length].to_vec()).unwrap()
    }
}
