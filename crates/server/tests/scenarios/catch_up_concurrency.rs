//! Events during catch-up: live messages, sends, resends, slow reads and removals.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bluetick_core::ports::CommitListener;
use bluetick_server::Hub;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::catch_up::{range, seqs, without_rates, write};
use crate::faulty_store::FaultyStore;
use crate::harness::Device;
use crate::idempotency::committed;

/// Reads frames until seq `last` of the conversation. Returns all of them.
async fn receive_through(device: &mut Device, conversation: &str, last: u64) -> Vec<Value> {
    let mut frames = Vec::new();
    loop {
        let frame = device.receive_any().await;
        assert_ne!(frame["type"], "error", "{frame}");
        let done = frame["conversation_id"] == conversation && frame["seq"] == last;
        frames.push(frame);
        if done {
            return frames;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn live_messages_follow_a_long_backlog_in_order_without_repeats() {
    const MISSED: u64 = 800;
    const LIVE: u64 = 800;
    let mut setup = without_rates();
    setup.limits.backlog_messages = 0;
    let world = setup.start().await;
    let [alice, bob, carol] = world.people(["alice", "bob", "carol"]);
    let (chat, other) = (alice.direct("bob").await, carol.direct("bob").await);
    write(&alice, &chat, usize::try_from(MISSED).unwrap()).await;
    write(&carol, &other, 300).await;
    let mut writers = JoinSet::new();
    let mut views = JoinSet::new();
    let mut phone = alice.connect().await;
    writers.spawn({
        let chat = chat.clone();
        async move {
            for number in 0..LIVE {
                phone.send(&chat, &format!("live-{number}"), "hi").await;
                phone.receive_type("ack").await;
            }
        }
    });
    // Devices connect continuously while alice sends.
    for _ in 0..12 {
        let (bob, chat, other) = (bob.clone(), chat.clone(), other.clone());
        let mut device = bob.send_hello(json!({})).await;
        views.spawn(async move {
            let mut frames = receive_through(&mut device, &chat, MISSED + LIVE).await;
            // If alice is faster than the catch-up, the last message is part of the backlog.
            while !frames.iter().any(|frame| frame["type"] == "caught_up") {
                frames.push(device.receive_any().await);
            }
            assert_eq!(frames.iter().filter(|frame| frame["type"] == "caught_up").count(), 1);
            (seqs(&frames, &chat), seqs(&frames, &other))
        });
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    writers.join_all().await;
    for (chat, other) in views.join_all().await {
        assert_eq!(chat, range(1, MISSED + LIVE));
        assert!(other.is_empty() || other == range(1, 300));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn send_during_catch_up_is_acked_at_its_seq() {
    const MISSED: u64 = 700;
    const OWN: u64 = 200;
    const OTHERS: u64 = 300;
    let mut setup = without_rates();
    setup.limits.backlog_messages = 0;
    let world = setup.start().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    write(&alice, &chat, usize::try_from(MISSED).unwrap()).await;
    let mut phone = alice.connect().await;
    let writer = tokio::spawn({
        let chat = chat.clone();
        async move {
            for number in 0..OTHERS {
                phone.send(&chat, &format!("live-{number}"), "hi").await;
            }
            receive_through(&mut phone, &chat, MISSED + OWN + OTHERS).await;
        }
    });
    let mut tablet = bob.send_hello(json!({})).await;
    for number in 0..OWN {
        tablet.send(&chat, &format!("own-{number}"), "hi").await;
    }
    let frames = receive_through(&mut tablet, &chat, MISSED + OWN + OTHERS).await;
    assert_eq!(seqs(&frames, &chat), range(1, MISSED + OWN + OTHERS));
    let acks: Vec<&str> = frames
        .iter()
        .filter(|frame| frame["type"] == "ack")
        .map(|frame| frame["message_id"].as_str().unwrap())
        .collect();
    assert_eq!(acks, (0..OWN).map(|number| format!("own-{number}")).collect::<Vec<_>>());
    writer.await.unwrap();
}

/// The store holds the page back while the device sends a message and resends one of its backlog.
#[tokio::test(flavor = "multi_thread")]
async fn resend_ack_does_not_overtake_the_backlog() {
    let store = FaultyStore::default();
    let world = store.setup().start().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    alice.send(&chat, "m1", "hi").await;
    bob.send(&chat, "m2", "said before the connection was lost").await;
    alice.send(&chat, "m3", "hi").await;
    store.hold_pages(true);
    let mut tablet = bob.send_hello(json!({chat.clone(): 0})).await;
    tablet.send(&chat, "m2", "said before the connection was lost").await;
    tablet.send(&chat, "m4", "new").await;
    tablet.receives_nothing().await;
    alice.wait_for_delivery().await;
    tablet.receives_nothing().await;
    store.hold_pages(false);
    let mut heard = Vec::new();
    for _ in 0..6 {
        let frame = tablet.receive().await;
        let id = frame["message_id"].as_str().unwrap_or("").to_string();
        heard.push((frame["type"].as_str().unwrap().to_string(), id));
    }
    let heard: Vec<(&str, &str)> = heard.iter().map(|(kind, id)| (&**kind, &**id)).collect();
    let expected = [
        ("message", "m1"),
        ("message", "m2"),
        ("ack", "m2"),
        ("message", "m3"),
        ("ack", "m4"),
        ("caught_up", ""),
    ];
    assert_eq!(heard, expected);
}

/// The fan-out is busy, so the ack arrives after the send has completed.
#[tokio::test(flavor = "multi_thread")]
async fn own_message_on_a_page_waits_for_its_ack_from_a_busy_fan_out() {
    let store = FaultyStore::default();
    let hub = Arc::new(OnceLock::<Arc<Hub>>::new());
    let mut setup = store.setup();
    setup.store = Box::new({
        let (inner, hub) = (setup.store, Arc::clone(&hub));
        move |listener| {
            let _ = hub.set(Arc::clone(&listener));
            inner(listener)
        }
    });
    let world = setup.start().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    alice.send(&chat, "m1", "hi").await;
    store.hold_pages(true);
    let mut tablet = bob.send_hello(json!({})).await;
    tablet.receives_nothing().await;
    hub.get().unwrap().committed(vec![committed("nobody-here", 1); 200_000]);
    tablet.send(&chat, "m2", "mine").await;
    while !world.get("/metrics").await.text().contains("bluetick_ack_seconds_count 2\n") {}
    store.hold_pages(false);
    assert_eq!(tablet.receive_type("message").await["message_id"], "m1");
    assert_eq!(tablet.receive_type("ack").await["message_id"], "m2");
    tablet.receive_type("caught_up").await;
}

/// Acks held for their seqs take memory, so their number is bounded.
#[tokio::test(flavor = "multi_thread")]
async fn device_that_sends_during_catch_up_is_throttled_and_loses_nothing() {
    const OWN: u64 = 2_000;
    let store = FaultyStore::default();
    let mut setup = store.setup();
    setup.limits = without_rates().limits;
    setup.limits.backlog_messages = 0;
    let world = setup.start().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    alice.send(&chat, "m1", "hi").await;
    store.hold_pages(true);
    let mut tablet = bob.send_hello(json!({})).await;
    for number in 0..OWN {
        tablet.send(&chat, &format!("own-{number}"), "hi").await;
    }
    tablet.send_json(json!({"type": "ping"})).await;
    let early = tokio::time::timeout(Duration::from_millis(300), tablet.receive()).await;
    assert!(early.is_err(), "the server read all frames while acks were held: {early:?}");
    store.hold_pages(false);
    let frames = receive_through(&mut tablet, &chat, OWN + 1).await;
    assert_eq!(seqs(&frames, &chat), range(1, OWN + 1));
    assert_eq!(frames.iter().filter(|frame| frame["type"] == "ack").count() as u64, OWN);
}

/// The device stops reading within a backlog many times larger than its outbox.
#[tokio::test(flavor = "multi_thread")]
async fn slow_backlog_reader_is_waited_for_without_delaying_others() {
    const MISSED: u64 = 300;
    let mut setup = without_rates();
    setup.limits.outbox_bytes = 512 * 1024;
    let world = setup.start().await;
    let [alice, bob, carol] = world.people(["alice", "bob", "carol"]);
    let (chat, other) = (alice.direct("bob").await, alice.direct("carol").await);
    let content = "x".repeat(50_000);
    for number in 0..MISSED {
        alice.send(&chat, &format!("m{number}"), &content).await;
    }
    let mut slow = bob.send_hello(json!({})).await;
    // Live messages arrive in the conversation that is being caught up.
    for number in 0..20 {
        alice.send(&chat, &format!("live{number}"), &content).await;
    }
    let mut phone = carol.connect().await;
    for number in 1..=50 {
        alice.send(&other, &format!("m{number}"), "hi").await;
        assert_eq!(phone.receive_type("message").await["seq"], number);
    }
    let waiting = world.get("/metrics").await.text();
    let waiting = waiting.lines().find_map(|line| line.strip_prefix("bluetick_outbox_bytes ")).unwrap();
    assert!(waiting.parse::<usize>().unwrap() < 300 * 1024, "{waiting} bytes are queued");
    let frames = receive_through(&mut slow, &chat, MISSED + 20).await;
    assert_eq!(seqs(&frames, &chat), range(1, MISSED + 20));
}

#[tokio::test(flavor = "multi_thread")]
async fn removal_during_catch_up_ends_the_backlog_with_its_notice() {
    let store = FaultyStore::default();
    let world = store.setup().start().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let group = alice.group(&["bob"]).await;
    alice.send(&group, "m1", "hi").await;
    store.hold_pages(true);
    let mut tablet = bob.send_hello(json!({})).await;
    tablet.receives_nothing().await;
    assert_eq!(alice.remove(&group, "bob").await.status, 204);
    alice.wait_for_delivery().await;
    store.hold_pages(false);
    assert_eq!(tablet.receive_type("message").await["seq"], 3);
    assert_eq!(tablet.receive().await, json!({"type": "gone", "conversation_id": group}));
    tablet.receive_type("caught_up").await;
}
