//! Readiness, store failures, panics and metrics.

use std::sync::atomic::Ordering;

use serde_json::json;

use crate::faulty_store::FaultyStore;
use crate::harness::World;

#[tokio::test(flavor = "multi_thread")]
async fn read_only_store_makes_the_server_not_ready_and_reads_work() {
    let store = FaultyStore::default();
    let world = store.setup().start().await;
    let alice = world.person("alice");
    let chat = alice.direct("bob").await;
    assert_eq!(alice.send(&chat, "m1", "x").await.status, 201);
    assert_eq!(world.get("/readyz").await.status, 200);

    let mut phone = alice.connect().await;
    store.read_only.store(true, Ordering::SeqCst);
    assert_eq!(world.get("/healthz").await.status, 200);
    let ready = world.get("/readyz").await;
    assert_eq!((ready.status, ready.json()["reason"].as_str()), (503, Some("no space left")));
    let refused = alice.send(&chat, "m2", "x").await;
    assert!(!refused.refused(503, "store_unavailable").contains("secret"));
    assert!(refused.header("retry-after").is_some());
    phone.send(&chat, "m2", "x").await;
    assert_eq!(phone.receive_error("store_unavailable").await["message_id"], "m2");
    assert_eq!(alice.history(&chat, "").await.seqs(), [1]);

    store.read_only.store(false, Ordering::SeqCst);
    assert_eq!(world.get("/readyz").await.status, 200);
    assert_eq!(alice.send(&chat, "m2", "x").await.status, 201);
}

/// The store applied the operation, and its answer was lost.
#[tokio::test(flavor = "multi_thread")]
async fn lost_store_answer_returns_store_unavailable_and_a_resend_is_stored_once() {
    let store = FaultyStore::default();
    let world = store.setup().start().await;
    let alice = world.person("alice");
    let chat = alice.direct("bob").await;
    let mut phone = alice.connect().await;
    store.answers_are_lost.store(true, Ordering::SeqCst);
    let refused = alice.send(&chat, "m1", "over HTTP").await;
    assert!(!refused.refused(503, "store_unavailable").contains("secret"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    let page = alice.history(&chat, "").await;
    page.refused(503, "store_unavailable");
    assert_eq!(page.header("retry-after"), Some("1"));
    phone.send(&chat, "m2", "on a socket").await;
    // The message was stored, so its delivery may arrive before or after the error.
    let mut refused = phone.receive().await;
    while refused["type"] != "error" {
        refused = phone.receive().await;
    }
    assert_eq!((&refused["code"], &refused["message_id"]), (&json!("store_unavailable"), &json!("m2")));

    store.answers_are_lost.store(false, Ordering::SeqCst);
    assert_eq!(alice.send(&chat, "m1", "over HTTP").await.json()["duplicate"], true);
    phone.send(&chat, "m2", "on a socket").await;
    let mut ack = phone.receive().await;
    while ack["duplicate"] != true {
        ack = phone.receive().await;
    }
    assert_eq!((&ack["message_id"], &ack["seq"]), (&json!("m2"), &json!(2)));
    assert_eq!(alice.history(&chat, "").await.seqs(), [2, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn panic_in_a_call_returns_500_and_the_server_continues() {
    let store = FaultyStore::default();
    let world = store.setup().start().await;
    let alice = world.person("alice");
    let chat = alice.direct("bob").await;
    store.pages_panic.store(true, Ordering::SeqCst);
    let message = alice.history(&chat, "").await.refused(500, "internal");
    assert!(!message.contains("rigged"));
    store.pages_panic.store(false, Ordering::SeqCst);
    assert_eq!(alice.history(&chat, "").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn panic_on_a_socket_closes_only_that_socket() {
    let store = FaultyStore::default();
    let mut setup = store.setup();
    setup.limits.connections_per_user = 2;
    let world = setup.start().await;
    let alice = world.person("alice");
    let chat = alice.direct("bob").await;
    let (mut phone, mut laptop) = (alice.connect().await, alice.connect().await);
    store.appends_panic.store(true, Ordering::SeqCst);
    phone.send(&chat, "m1", "x").await;
    assert_eq!(phone.closed_with().await, (1011, "internal_error".into()));
    store.appends_panic.store(false, Ordering::SeqCst);
    laptop.receives_nothing().await;
    let mut phone = alice.connect().await;
    phone.send(&chat, "m1", "x").await;
    phone.receive_type("ack").await;
    assert_eq!(laptop.receive_type("message").await["message_id"], "m1");
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_have_their_documented_names_and_counts() {
    let world = World::new().await;
    let alice = world.person("alice");
    let chat = alice.direct("bob").await;
    let mut phone = alice.connect_now().await;
    phone.send(&chat, "m1", "x").await;
    phone.receive_type("ack").await;
    alice.send(&chat, "m1", "x").await;
    alice.send(&chat, "m1", "y").await;
    let text = world.get("/metrics").await.text();
    for line in [
        "bluetick_connections 1",
        "bluetick_outbox_bytes 0",
        r#"bluetick_sends_total{result="stored"} 1"#,
        r#"bluetick_sends_total{result="duplicate"} 1"#,
        r#"bluetick_sends_total{result="refused"} 1"#,
        r#"bluetick_rejects_total{code="message_id_conflict"} 1"#,
        "bluetick_ack_seconds_count 2",
        "bluetick_commit_messages_count",
        "bluetick_commit_bytes_count",
        "bluetick_fsync_seconds_count",
        "bluetick_checkpoint_seconds_count",
        "bluetick_pushes_total",
        r#"bluetick_closes_total{reason="slow_consumer"} 0"#,
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

/// The client disconnects before the store has stored its message.
#[tokio::test(flavor = "multi_thread")]
async fn message_of_a_disconnected_sender_is_counted_as_stored() {
    let store = FaultyStore::default();
    let world = store.setup().start().await;
    let alice = world.person("alice");
    let chat = alice.direct("bob").await;
    let mut tablet = world.person("bob").connect_now().await;
    let mut phone = alice.connect_now().await;
    store.hold_appends(true);
    phone.send(&chat, "m1", "x").await;
    phone.receives_nothing().await;
    drop(phone);
    while !world.get("/metrics").await.text().contains("bluetick_connections 1\n") {}
    store.hold_appends(false);
    tablet.receive_type("message").await;
    let text = world.get("/metrics").await.text();
    assert!(text.contains(r#"bluetick_sends_total{result="stored"} 1"#), "{text}");
    // Notices of the server are not counted as sends.
    alice.group(&["bob"]).await;
    tablet.receive_type("message").await;
    let text = world.get("/metrics").await.text();
    assert!(text.contains(r#"bluetick_sends_total{result="stored"} 1"#), "{text}");
}
