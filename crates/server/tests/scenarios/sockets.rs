//! The WebSocket protocol: hello, frames, pings, origins and close codes.

use std::sync::Arc;
use std::time::Duration;

use bluetick_core::Timestamp;
use bluetick_core::time::ManualClock;
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio_tungstenite::tungstenite::Message;

use crate::harness::{Device, Setup, TIMEOUT, World, send_frame};

#[tokio::test(flavor = "multi_thread")]
async fn hello_returns_welcome_with_user_session_and_epoch() {
    let world = World::new().await;
    let alice = world.person("alice");
    let mut device = Device::open(world.addr).await;
    let hello = json!({
        "type": "hello", "token": alice.token, "device_id": "phone",
        "positions": {"d0123456789abcdefghjkmnpq": {"epoch": 1, "seq": 5}}, "from_the_future": [1],
    });
    device.send_json(hello).await;
    let welcome = device.receive_type("welcome").await;
    assert_eq!((welcome["user_id"].as_str(), welcome["epoch"].as_u64()), (Some("alice"), Some(1)));
    assert!(
        welcome["session_id"].is_string() && welcome["server_time"].as_i64().unwrap() > 1_700_000_000_000
    );
    device.receive_type("gone").await;
    device.receive_type("caught_up").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_without_hello_times_out() {
    let world = Setup::limits(|limits| limits.hello_seconds = 1).start().await;
    let mut device = Device::open(world.addr).await;
    assert_eq!(device.closed_with().await, (4408, "hello_timeout".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_first_frame_closes_with_its_code() {
    let world = World::new().await;
    let cases = [
        (Message::text(r#"{"type":"ping"}"#), 4400),
        (Message::text("nonsense"), 4400),
        (Message::text(r#"{"type":"hello"}"#), 4400),
        (Message::binary(vec![1, 2]), 4400),
        (Message::text(r#"{"type":"hello","token":"nonsense"}"#), 4401),
    ];
    for (first, code) in cases {
        let mut device = Device::open(world.addr).await;
        device.send_raw(first).await;
        assert_eq!(device.closed_with().await.0, code);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn open_socket_closes_when_its_token_expires() {
    let world = World::new().await;
    let alice = world.person_for("alice", Duration::from_secs(1));
    let mut device = alice.connect().await;
    assert_eq!(device.closed_with().await, (4403, "token_expired".into()));
    let mut device = Device::open(world.addr).await;
    device.send_json(json!({"type": "hello", "token": alice.token})).await;
    assert_eq!(device.closed_with().await.0, 4403);
}

#[tokio::test(flavor = "multi_thread")]
async fn frame_after_token_expiry_is_not_processed() {
    let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_800_000_000_000)));
    let world = Setup { clock: clock.clone(), ..Setup::default() }.start().await;
    let alice = world.person("alice");
    let chat = alice.direct("bob").await;
    let mut device = alice.connect().await;
    clock.advance_millis(2 * 3_600_000);
    device.send(&chat, "m1", "too late").await;
    assert_eq!(device.closed_with().await.0, 4403);
    let bob = world.person("bob");
    assert_eq!(bob.history(&chat, "").await.json()["head_seq"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_frame_gets_an_error_and_the_connection_continues() {
    let world = World::new().await;
    let alice = world.person("alice");
    let chat = alice.direct("bob").await;
    let mut device = alice.connect().await;
    let send = |field: &str, value: serde_json::Value| {
        let mut frame = send_frame(&chat, "m1", "hi");
        frame[field] = value;
        Message::text(frame.to_string())
    };
    let cases = [
        (Message::binary(vec![0, 159]), "invalid_frame", "text"),
        (Message::text("not json"), "invalid_frame", "JSON"),
        (Message::text("[]"), "invalid_frame", ""),
        (Message::text(r#"{"type":5}"#), "invalid_frame", "type"),
        (Message::text(r#"{}"#), "invalid_frame", "type"),
        (Message::text(r#"{"type":"dance"}"#), "unknown_type", ""),
        (Message::text(r#"{"type":"typing","conversation_id":"x"}"#), "conversation_not_found", ""),
        (Message::text(r#"{"type":"read","conversation_id":"x","seq":1}"#), "conversation_not_found", ""),
        (Message::text(r#"{"type":"delivered","conversation_id":"x"}"#), "invalid_frame", "seq"),
        (Message::text(r#"{"type":"hello","token":"again"}"#), "invalid_frame", "hello"),
        (Message::text(r#"{"type":"send"}"#), "invalid_frame", "conversation_id"),
        (send("content", json!(7)), "invalid_frame", "content"),
        (send("content", json!("")), "invalid_frame", "content"),
        (send("timestamp", json!("noon")), "invalid_frame", "timestamp"),
        (send("message_id", json!("")), "invalid_frame", "message_id"),
        (send("conversation_id", json!("nonsense")), "conversation_not_found", ""),
        (send("conversation_id", json!("g0123456789abcdefghjkmnpq")), "conversation_not_found", ""),
    ];
    for (frame, code, says) in cases {
        device.send_raw(frame.clone()).await;
        let error = device.receive_error(code).await;
        assert!(error["message"].as_str().unwrap().contains(says), "{frame:?} gave: {error}");
    }
    device.send(&chat, "m1", "still here").await;
    assert_eq!(device.receive_type("ack").await["seq"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn json_ping_and_websocket_ping_get_a_pong() {
    let world = World::new().await;
    let mut device = world.person("alice").connect().await;
    device.receives_nothing().await;
    device.send_raw(Message::Ping("are you there".into())).await;
    match device.receive_raw().await {
        Some(Ok(Message::Pong(answer))) => assert_eq!(&answer[..], b"are you there"),
        other => panic!("a pong was expected, not {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connection_is_pinged_and_closed_without_a_pong() {
    let world = Setup::limits(|limits| {
        limits.ping_seconds = 1;
        limits.idle_seconds = 3;
    })
    .start()
    .await;
    let alice = world.person("alice");
    let mut lively = alice.connect().await;
    let mut silent = alice.connect().await;
    // The client library answers pings. Reading the raw stream answers none.
    let silence = tokio::spawn(async move {
        let mut bytes = Vec::new();
        let heard = silent.socket.get_mut().read_to_end(&mut bytes);
        tokio::time::timeout(TIMEOUT, heard).await.expect("the server closes the connection").unwrap();
        bytes
    });
    let mut pings = 0;
    while pings < 4 {
        match lively.receive_raw().await {
            Some(Ok(Message::Ping(_))) => pings += 1,
            other => panic!("a ping was expected, not {other:?}"),
        }
    }
    let bytes = silence.await.unwrap();
    let close_frame = [&[0x88, 14][..], &4410u16.to_be_bytes(), b"idle_timeout"].concat();
    assert!(bytes.ends_with(&close_frame), "{bytes:?}");
    lively.receives_nothing().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn client_close_frame_is_answered() {
    let world = World::new().await;
    let mut device = world.person("alice").connect().await;
    device.socket.close(None).await.unwrap();
    let end = device.receive_raw().await;
    assert!(matches!(end, Some(Ok(Message::Close(_))) | None), "a close frame was expected, not {end:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn page_of_another_origin_opens_a_socket_only_if_allowed() {
    let mut setup = Setup::default();
    setup.settings.allowed_origins = vec!["https://app.example".into()];
    let world = setup.start().await;
    let same = format!("http://{}", world.addr);
    assert!(Device::try_open(world.addr, Some(&same)).await.is_ok());
    assert!(Device::try_open(world.addr, Some("https://app.example")).await.is_ok());
    assert!(Device::try_open(world.addr, None).await.is_ok());
    for evil in ["https://evil.example", "null", "http://127.0.0.1"] {
        assert_eq!(Device::try_open(world.addr, Some(evil)).await.err(), Some(403));
    }
}

/// The error of an invalid send names its message.
#[tokio::test(flavor = "multi_thread")]
async fn refused_send_names_its_message_if_readable() {
    let world = World::new().await;
    let alice = world.person("alice");
    let chat = alice.direct("bob").await;
    let mut phone = alice.connect().await;
    for (field, value) in [
        ("content", json!(7)),
        ("content", json!(null)),
        ("timestamp", json!("now")),
        ("conversation_id", json!([])),
        ("retry", json!("yes")),
        ("content_type", json!({})),
    ] {
        let mut frame = send_frame(&chat, "m1", "hi");
        frame[field] = value;
        phone.send_json(frame).await;
        let error = phone.receive_error("invalid_frame").await;
        assert_eq!(error["message_id"], "m1", "{error}");
        assert!(error["message"].as_str().unwrap().starts_with(field), "{error}");
    }
    phone.send_json(json!({"type": "send", "message_id": 7})).await;
    assert_eq!(phone.receive_error("invalid_frame").await.get("message_id"), None);
    phone.send_json(json!(["send", chat, "m1", "hi"])).await;
    assert_eq!(phone.receive_error("invalid_frame").await["message"], "expected an object");
}

#[tokio::test(flavor = "multi_thread")]
async fn hello_with_an_invalid_field_gets_an_error_before_the_close() {
    let world = World::new().await;
    let mut device = Device::open(world.addr).await;
    let token = world.person("alice").token;
    device.send_json(json!({"type": "hello", "token": token, "device_id": 7})).await;
    assert_eq!(device.receive_error("invalid_frame").await["message"], "device_id: expected a string");
    assert_eq!(device.closed_with().await, (4400, "hello_expected".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_utf8_text_closes_with_not_utf8() {
    use tokio_tungstenite::tungstenite::protocol::frame::Frame;
    use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
    let world = World::new().await;
    let mut device = world.person("alice").connect().await;
    let frame = Frame::message(vec![0xff, 0xfe], OpCode::Data(Data::Text), true);
    device.send_raw(Message::Frame(frame)).await;
    assert_eq!(device.closed_with().await, (1007, "not_utf8".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn websocket_path_without_upgrade_returns_426() {
    let world = World::new().await;
    let refused = world.get("/v1/ws").await;
    refused.refused(426, "upgrade_required");
    assert_eq!(refused.header("upgrade"), Some("websocket"));
}
