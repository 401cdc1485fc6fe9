//! Connections without a network.

use std::net::{IpAddr, Ipv4Addr};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::timeout;

use crate::harness::{Device, Person, Setup, TIMEOUT, World};

const FROM: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

async fn connect(world: &World, person: &Person) -> Device<DuplexStream> {
    let device = Device::open_on(world.server().connect_in_memory(FROM)).await;
    let mut device = person.send_hello_on(device, json!({})).await;
    while device.receive_any().await["type"] != "caught_up" {}
    device
}

/// Makes one call over an in-memory connection. Returns the complete response.
async fn ask(world: &World, person: &Person, path: &str, body: &str) -> String {
    let mut stream = world.server().connect_in_memory(FROM);
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        person.token,
        body.len(),
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    timeout(TIMEOUT, stream.read_to_string(&mut answer))
        .await
        .expect("the server answers and closes the connection")
        .unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn server_without_listener_delivers_messages_and_drains() {
    let mut world = Setup::default().start_without_listener();
    let [alice, bob] = world.people(["alice", "bob"]);
    let opened = ask(&world, &alice, "/v1/conversations", r#"{"kind":"direct","peer":"bob"}"#).await;
    assert!(opened.starts_with("HTTP/1.1 201 "), "{opened}");
    let (_, body) = opened.split_once("\r\n\r\n").unwrap();
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    let chat = body["conversation_id"].as_str().unwrap();
    let mut phone = connect(&world, &alice).await;
    let mut laptop = connect(&world, &bob).await;
    phone.send(chat, "m1", "sent in memory").await;
    assert_eq!(phone.receive_type("ack").await["seq"], 1);
    assert_eq!(laptop.receive_type("message").await["content"], "sent in memory");
    world.take_server().drain().await;
    assert_eq!(laptop.closed_with().await.0, 1012);
}

#[tokio::test(flavor = "multi_thread")]
async fn listening_server_accepts_in_memory_connections() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    let mut outside = alice.connect().await;
    let mut inside = connect(&world, &bob).await;
    outside.send(&chat, "m1", "hello").await;
    assert_eq!(inside.receive_type("message").await["content"], "hello");
}

/// The close code arrives although the server drops its end at once.
#[tokio::test(flavor = "multi_thread")]
async fn in_memory_connection_gets_its_close_code() {
    let world = Setup::limits(|limits| limits.frame_bytes = 1_000).start_without_listener();
    let alice = world.person("alice");
    let mut phone = connect(&world, &alice).await;
    phone.send_json(json!({"type": "ping", "padding": "x".repeat(2_000)})).await;
    assert_eq!(phone.closed_with().await, (1009, "frame_too_large".into()));
}
