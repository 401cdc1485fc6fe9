//! Rate limits, size limits, connection limits and quotas.

use std::sync::Arc;

use bluetick_core::Timestamp;
use bluetick_core::time::ManualClock;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::faulty_store::FaultyStore;
use crate::harness::{Device, Setup};

/// Returns a setup with a manual clock, so that limits refill only when the test advances it.
fn with_stopped_clock(mut setup: Setup) -> (Setup, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_800_000_000_000)));
    setup.clock = clock.clone();
    (setup, clock)
}

#[tokio::test(flavor = "multi_thread")]
async fn sends_above_the_rate_are_refused_on_http_and_socket_until_time_passes() {
    let (setup, clock) = with_stopped_clock(Setup::limits(|limits| {
        limits.sends_per_second = 1;
        limits.sends_burst = 2;
    }));
    let world = setup.start().await;
    let alice = world.person("alice");
    let chat = alice.direct("bob").await;
    let mut phone = alice.connect().await;
    assert_eq!(alice.send(&chat, "m1", "x").await.status, 201);
    phone.receive_type("message").await;
    phone.send(&chat, "m2", "x").await;
    phone.receive_type("ack").await;
    let refused = alice.send(&chat, "m3", "x").await;
    refused.refused(429, "rate_limited");
    assert_eq!(refused.header("retry-after"), Some("1"));
    phone.send(&chat, "m3", "x").await;
    assert_eq!(phone.receive_error("rate_limited").await["message_id"], "m3");
    clock.advance_millis(1_000);
    phone.send(&chat, "m3", "x").await;
    assert_eq!(phone.receive_type("ack").await["seq"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_above_the_rate_are_refused_for_that_user_only() {
    let (setup, clock) = with_stopped_clock(Setup::limits(|limits| {
        limits.requests_per_second = 1;
        limits.requests_burst = 3;
    }));
    let world = setup.start().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    alice.history(&chat, "").await;
    assert_eq!(alice.history(&chat, "").await.status, 200);
    alice.history(&chat, "").await.refused(429, "rate_limited");
    assert_eq!(bob.history(&chat, "").await.status, 200);
    clock.advance_millis(1_000);
    assert_eq!(alice.history(&chat, "").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn client_that_continues_above_its_rate_is_closed_as_a_flood() {
    let (setup, _clock) = with_stopped_clock(Setup::limits(|limits| {
        limits.requests_per_second = 1;
        limits.requests_burst = 5;
        limits.flood_rejections = 10;
    }));
    let world = setup.start().await;
    let mut device = world.person("alice").connect().await;
    for _ in 0..16 {
        device.send_json(json!({"type": "ping"})).await;
    }
    assert_eq!(device.closed_with().await, (4429, "flood".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn unsolicited_pongs_are_a_flood() {
    let (setup, _clock) = with_stopped_clock(Setup::limits(|limits| {
        limits.requests_per_second = 1;
        limits.requests_burst = 5;
        limits.flood_rejections = 10;
    }));
    let world = setup.start().await;
    let mut device = world.person("alice").connect().await;
    for _ in 0..16 {
        device.send_raw(Message::Pong(Vec::new().into())).await;
    }
    assert_eq!(device.closed_with().await, (4429, "flood".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn client_that_pings_instead_of_hello_is_closed() {
    let world = Setup::default().start().await;
    let mut device = Device::open(world.addr).await;
    for _ in 0..17 {
        device.send_raw(Message::Ping(Vec::new().into())).await;
    }
    assert_eq!(device.closed_with().await, (4429, "flood".into()));
}

/// The rate limit also counts the users that a call names, so one call cannot do the work of many.
#[tokio::test(flavor = "multi_thread")]
async fn call_with_many_users_costs_several_requests() {
    let (setup, clock) = with_stopped_clock(Setup::limits(|limits| {
        limits.requests_per_second = 1;
        limits.requests_burst = 10;
    }));
    let world = setup.start().await;
    let alice = world.person("alice");
    let names: Vec<String> = (0..500).map(|number| format!("user{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let group = alice.group(&names[..300]).await;
    // Six of ten requests are left; this call costs one plus five.
    assert_eq!(alice.add(&group, &names).await.status, 200);
    clock.advance_millis(5_000);
    let refused = alice.add(&group, &names).await;
    refused.refused(429, "rate_limited");
    assert_eq!(refused.header("retry-after"), Some("1"));
    let body = json!({"kind": "group", "title": "Lunch", "members": names});
    alice.post("/v1/conversations", body).await.refused(429, "rate_limited");
    assert_eq!(alice.add(&group, &["bob"]).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_log_in_body_is_refused() {
    let world = Setup::default().start().await;
    let body = json!({"user_id": "alice", "password": "x".repeat(16 * 1024)});
    world.call("POST", "/v1/login", None, Some(body)).await.refused(413, "body_too_large");
}

#[tokio::test(flavor = "multi_thread")]
async fn rate_limited_send_names_its_message() {
    let (setup, _clock) = with_stopped_clock(Setup::limits(|limits| {
        limits.requests_per_second = 1;
        limits.requests_burst = 3;
    }));
    let world = setup.start().await;
    let alice = world.person("alice");
    let chat = alice.direct("bob").await;
    let mut phone = alice.connect().await;
    for number in 0..2 {
        phone.send(&chat, &format!("m{number}"), "x").await;
        phone.receive_type("ack").await;
    }
    phone.send(&chat, "m2", "x").await;
    assert_eq!(phone.receive_error("rate_limited").await["message_id"], "m2");
}

#[tokio::test(flavor = "multi_thread")]
async fn rates_of_zero_disable_the_limits() {
    let (setup, _clock) = with_stopped_clock(Setup::limits(|limits| {
        limits.requests_per_second = 0;
        limits.sends_per_second = 0;
    }));
    let world = setup.start().await;
    let alice = world.person("alice");
    let chat = alice.direct("bob").await;
    let mut phone = alice.connect().await;
    for number in 0..3_000 {
        phone.send(&chat, &format!("m{number}"), "x").await;
        phone.receive_type("ack").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_frame_closes_with_frame_too_large() {
    let world = Setup::limits(|limits| limits.frame_bytes = 10_000).start().await;
    let alice = world.person("alice");
    let mut device = alice.connect().await;
    device.send_raw(Message::text("x".repeat(10_001))).await;
    assert_eq!(device.closed_with().await, (1009, "frame_too_large".into()));
    // The close code also arrives if the server does not read most of the frame.
    let mut device = alice.connect().await;
    let _ = tokio::time::timeout(
        std::time::Duration::from_millis(500),
        futures_util::SinkExt::send(&mut device.socket, Message::text("x".repeat(1_000_000))),
    )
    .await;
    assert_eq!(device.closed_with().await.0, 1009);
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_above_user_limit_is_closed_until_another_ends() {
    let world = Setup::limits(|limits| limits.connections_per_user = 2).start().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let mut first = alice.connect().await;
    let _second = alice.connect().await;
    let mut third = Device::open(world.addr).await;
    third.send_json(json!({"type": "hello", "token": alice.token})).await;
    assert_eq!(third.closed_with().await, (4409, "too_many_connections".into()));
    bob.connect().await;
    first.socket.close(None).await.unwrap();
    while first.receive_raw().await.is_some() {}
    alice.connect().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_above_server_limit_gets_503() {
    let world = Setup::limits(|limits| limits.connections = 2).start().await;
    let _one = Device::try_open(world.addr, None).await;
    let _two = Device::try_open(world.addr, None).await;
    assert_eq!(Device::try_open(world.addr, None).await.err(), Some(503));
    let request = format!(
        "GET /v1/ws HTTP/1.1\r\nHost: {}\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
        world.addr
    );
    let mut stream = tokio::net::TcpStream::connect(world.addr).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await.unwrap();
    let mut answer = [0; 1024];
    let length = tokio::io::AsyncReadExt::read(&mut stream, &mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer[..length]).to_lowercase();
    assert!(answer.contains("retry-after: "), "{answer}");
}

/// One member of a group reads more slowly than the others write. The server closes it with a code
/// when its outbox is full. The other members are not affected.
#[tokio::test(flavor = "multi_thread")]
async fn slow_reader_is_closed_as_slow_consumer_without_affecting_others() {
    let world = Setup::limits(|limits| {
        limits.outbox_bytes = 256 * 1024;
        limits.sends_per_second = 0;
        limits.requests_per_second = 0;
    })
    .start()
    .await;
    let [alice, bob, carol] = world.people(["alice", "bob", "carol"]);
    let group = alice.group(&["bob", "carol"]).await;
    let mut sender = alice.connect().await;
    let mut reader = bob.connect().await;
    let mut slow = carol.connect().await;
    let slow = tokio::spawn(async move {
        let mut got = 0;
        loop {
            match slow.receive_raw().await {
                Some(Ok(Message::Text(_))) => got += 1,
                Some(Ok(Message::Close(Some(frame)))) => return (got, u16::from(frame.code)),
                Some(Ok(_)) => {}
                other => panic!("a close frame was expected, not {other:?}"),
            }
            // Read slowly for longer than the close timeout, then read the rest.
            if got < 16 {
                tokio::time::sleep(std::time::Duration::from_millis(400)).await;
            }
        }
    });
    let content = "x".repeat(60_000);
    // More than the outbox and the kernel buffers hold.
    const MESSAGES: u64 = 400;
    for number in 0..MESSAGES {
        sender.send(&group, &format!("m{number}"), &content).await;
        assert_eq!(sender.receive_type("ack").await["seq"], number + 2);
        assert_eq!(reader.receive_type("message").await["seq"], number + 2);
    }
    let (got, code) = slow.await.unwrap();
    assert_eq!(code, 4413);
    assert!(got < MESSAGES, "the connection was not closed");
    let closes = world.get("/metrics").await.text();
    assert!(closes.contains(r#"bluetick_closes_total{reason="slow_consumer"} 1"#), "{closes}");
    // No message is lost: the history is complete.
    assert_eq!(carol.history(&group, "").await.json()["head_seq"], MESSAGES + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn socket_is_not_read_while_too_many_sends_wait_and_nothing_is_lost() {
    let store = FaultyStore::default();
    let mut setup = store.setup();
    setup.limits.in_flight_sends_per_connection = 4;
    let world = setup.start().await;
    let alice = world.person("alice");
    let chat = alice.direct("bob").await;
    let mut phone = alice.connect().await;
    store.hold_appends(true);
    for number in 0..4 {
        phone.send(&chat, &format!("m{number}"), "x").await;
    }
    phone.send_json(json!({"type": "ping"})).await;
    let early = tokio::time::timeout(std::time::Duration::from_millis(200), phone.receive()).await;
    assert!(early.is_err(), "the server read the ping while four sends were waiting: {early:?}");
    store.hold_appends(false);
    let mut kinds = Vec::new();
    for _ in 0..5 {
        kinds.push(phone.receive().await["type"].as_str().unwrap().to_string());
    }
    assert_eq!(kinds.iter().filter(|kind| *kind == "ack").count(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn new_conversations_above_the_daily_limit_are_refused_and_existing_ones_open() {
    let (setup, clock) =
        with_stopped_clock(Setup::limits(|limits| limits.conversations_per_user_per_day = 3));
    let world = setup.start().await;
    let [mallory, bob] = world.people(["mallory", "bob"]);
    let first = mallory.direct("bob").await;
    mallory.direct("carol").await;
    mallory.group(&[]).await;
    let direct = |peer: &str| json!({"kind": "direct", "peer": peer});
    let refused = mallory.post("/v1/conversations", direct("dave")).await;
    refused.refused(429, "rate_limited");
    assert_eq!(refused.header("retry-after"), Some("28800"), "a third of a day");
    mallory
        .post("/v1/conversations", json!({"kind": "group", "title": "x", "members": []}))
        .await
        .refused(429, "rate_limited");
    let found = mallory.post("/v1/conversations", direct("bob")).await;
    assert_eq!((found.status, found.json()["conversation_id"].as_str()), (200, Some(&*first)));
    assert_eq!(
        bob.post("/v1/conversations", direct("mallory")).await.status,
        200,
        "bob's quota is unchanged"
    );
    assert_eq!(bob.post("/v1/conversations", direct("dave")).await.status, 201);
    clock.advance_millis(28_800_000);
    let mallory = world.person("mallory");
    assert_eq!(mallory.post("/v1/conversations", direct("dave")).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_conversation_costs_none_of_the_quota() {
    let (setup, _clock) =
        with_stopped_clock(Setup::limits(|limits| limits.conversations_per_user_per_day = 1));
    let world = setup.start().await;
    let alice = world.person("alice");
    for _ in 0..5 {
        let with_oneself = json!({"kind": "direct", "peer": "alice"});
        alice.post("/v1/conversations", with_oneself).await.refused(400, "invalid_request");
    }
    alice.direct("bob").await;
}

/// One user adds another user to one group after another.
#[tokio::test(flavor = "multi_thread")]
async fn group_invitations_above_the_hourly_limit_are_refused() {
    let (setup, clock) =
        with_stopped_clock(Setup::limits(|limits| limits.group_invitations_per_user_per_hour = 5));
    let world = setup.start().await;
    let [mallory, victim] = world.people(["mallory", "victim"]);
    let body = json!({"kind": "group", "title": "x", "members": ["victim"]});
    let mut groups = Vec::new();
    for _ in 0..4 {
        groups.push(mallory.group(&["victim"]).await);
    }
    let of_oneself = mallory.group(&[]).await;
    assert_eq!(mallory.add(&of_oneself, &["victim"]).await.status, 200);
    let mut refused = 0;
    for _ in 0..50 {
        mallory.post("/v1/conversations", body.clone()).await.refused(429, "rate_limited");
        mallory.remove(&groups[0], "victim").await;
        let again = mallory.add(&groups[0], &["victim"]).await;
        again.refused(429, "rate_limited");
        assert_eq!(again.header("retry-after"), Some("720"));
        refused += 1;
    }
    assert_eq!(refused, 50);
    let inbox = victim.get("/v1/conversations?limit=100").await.json();
    assert_eq!(
        inbox["conversations"].as_array().unwrap().len(),
        4,
        "bob is in five groups and left one of them"
    );
    assert_eq!(victim.post("/v1/conversations", body.clone()).await.status, 201, "the limit is per user");
    clock.advance_millis(720_000);
    assert_eq!(mallory.post("/v1/conversations", body).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn members_added_above_the_hourly_limit_are_refused() {
    let (setup, _clock) =
        with_stopped_clock(Setup::limits(|limits| limits.members_added_per_user_per_hour = 4));
    let world = setup.start().await;
    let mallory = world.person("mallory");
    let group = mallory.group(&["a", "b"]).await;
    mallory.add(&group, &["c", "d", "e"]).await.refused(429, "rate_limited");
    assert_eq!(mallory.add(&group, &["c", "d"]).await.status, 200, "the refused call was free");
    mallory.add(&group, &["e"]).await.refused(429, "rate_limited");
}

#[tokio::test(flavor = "multi_thread")]
async fn quota_counts_each_added_user_once_and_neither_members_nor_the_caller() {
    let (setup, _clock) = with_stopped_clock(Setup::limits(|limits| {
        limits.members_added_per_user_per_hour = 4;
        limits.group_invitations_per_user_per_hour = 2;
    }));
    let world = setup.start().await;
    let alice = world.person("alice");
    let group = alice.group(&["alice", "b", "b", "b", "c"]).await;
    for _ in 0..5 {
        assert_eq!(alice.add(&group, &["alice", "b", "c"]).await.status, 200, "the call adds no member");
    }
    assert_eq!(alice.add(&group, &["alice", "b", "d", "d", "e"]).await.status, 200);
    alice.add(&group, &["f"]).await.refused(429, "rate_limited");
    assert_eq!(alice.add(&group, &["d", "e"]).await.status, 200, "a call that adds no member needs no quota");
    alice.group(&["alice"]).await;
}
