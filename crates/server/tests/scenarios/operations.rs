use std::sync::atomic::Ordering;

use serde_json::json;

use crate::harness::World;
use crate::rigged_store::RiggedStore;

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_store_refuses_writes_lives_is_not_ready_and_still_reads() {
    let store = RiggedStore::default();
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
    assert_eq!(phone.hear_error("store_unavailable").await["message_id"], "m2");
    assert_eq!(alice.history(&chat, "").await.seqs(), [1]);

    store.read_only.store(false, Ordering::SeqCst);
    assert_eq!(world.get("/readyz").await.status, 200);
    assert_eq!(alice.send(&chat, "m2", "x").await.status, 201);
}

/// The store did what it was asked, and its answer got lost.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_does_not_answer_is_told_as_such_and_a_resend_is_stored_once() {
    let store = RiggedStore::default();
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
    // It was stored, and what the fan-out tells of that comes before or after.
    let mut refused = phone.hear().await;
    while refused["type"] != "error" {
        refused = phone.hear().await;
    }
    assert_eq!((&refused["code"], &refused["message_id"]), (&json!("store_unavailable"), &json!("m2")));

    store.answers_are_lost.store(false, Ordering::SeqCst);
    assert_eq!(alice.send(&chat, "m1", "over HTTP").await.json()["duplicate"], true);
    phone.send(&chat, "m2", "on a socket").await;
    let mut ack = phone.hear().await;
    while ack["duplicate"] != true {
        ack = phone.hear().await;
    }
    assert_eq!((&ack["message_id"], &ack["seq"]), (&json!("m2"), &json!(2)));
    assert_eq!(alice.history(&chat, "").await.seqs(), [2, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_a_call_is_answered_and_the_server_lives() {
    let store = RiggedStore::default();
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
async fn a_panic_on_a_socket_closes_that_socket_alone_and_it_can_come_back() {
    let store = RiggedStore::default();
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
    laptop.hears_nothing().await;
    let mut phone = alice.connect().await;
    phone.send(&chat, "m1", "x").await;
    phone.hear_type("ack").await;
    assert_eq!(laptop.hear_type("message").await["message_id"], "m1");
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_count_what_happened_under_their_documented_names() {
    let world = World::new().await;
    let alice = world.person("alice");
    let chat = alice.direct("bob").await;
    let mut phone = alice.connect_now().await;
    phone.send(&chat, "m1", "x").await;
    phone.hear_type("ack").await;
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

/// The client is gone before the store has stored what it sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_counted_as_stored_also_when_its_sender_does_not_wait() {
    let store = RiggedStore::default();
    let world = store.setup().start().await;
    let alice = world.person("alice");
    let chat = alice.direct("bob").await;
    let mut tablet = world.person("bob").connect_now().await;
    let mut phone = alice.connect_now().await;
    store.hold_appends(true);
    phone.send(&chat, "m1", "x").await;
    phone.hears_nothing().await;
    drop(phone);
    while !world.get("/metrics").await.text().contains("bluetick_connections 1\n") {}
    store.hold_appends(false);
    tablet.hear_type("message").await;
    let text = world.get("/metrics").await.text();
    assert!(text.contains(r#"bluetick_sends_total{result="stored"} 1"#), "{text}");
    // The notices the server writes are nobody's sends.
    alice.group(&["bob"]).await;
    tablet.hear_type("message").await;
    let text = world.get("/metrics").await.text();
    assert!(text.contains(r#"bluetick_sends_total{result="stored"} 1"#), "{text}");
}
