//! Receipts over HTTP: read states, and receipt counts per message.

use serde_json::{Value, json};

use crate::faulty_store::FaultyStore;
use crate::harness::{Person, Reply, TIMEOUT, World};

async fn mark(person: &Person, chat: &str, kind: &str, seq: u64) -> Reply {
    person.post(&format!("/v1/conversations/{chat}/{kind}"), json!({"seq": seq})).await
}

async fn status(person: &Person, chat: &str) -> Value {
    person.get(&format!("/v1/conversations/{chat}/status")).await.json()
}

/// Returns `(last_delivered_seq, last_read_seq)` of a member, as `person` sees it.
async fn read_state(person: &Person, chat: &str, of: &str) -> (u64, u64) {
    let status = status(person, chat).await;
    let members = status["members"].as_array().unwrap();
    let member = members.iter().find(|member| member["user_id"] == of).unwrap();
    (member["last_delivered_seq"].as_u64().unwrap(), member["last_read_seq"].as_u64().unwrap())
}

async fn receipts(person: &Person, chat: &str, seq: u64) -> Reply {
    person.get(&format!("/v1/conversations/{chat}/status?seq={seq}")).await
}

/// Returns `(delivered, read, recipients)`.
async fn counts(person: &Person, chat: &str, seq: u64) -> (u64, u64, u64) {
    let counted = receipts(person, chat, seq).await.json();
    let [delivered, read, recipients] =
        ["delivered_count", "read_count", "recipient_count"].map(|name| counted[name].as_u64().unwrap());
    assert_eq!(counted["seq"], seq);
    (delivered, read, recipients)
}

async fn send_some(person: &Person, chat: &str, count: u64) {
    for number in 1..=count {
        let sent = person.send(chat, &format!("{}{number}", person.name), "hi").await;
        assert_eq!(sent.status, 201, "{}", sent.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn delivered_and_read_receipts_move_the_read_state() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    send_some(&alice, &chat, 3).await;
    let nobody_yet = json!({"head_seq": 3, "members": [
        {"user_id": "alice", "last_delivered_seq": 2, "last_read_seq": 2, "joined_seq": 1},
        {"user_id": "bob", "last_delivered_seq": 0, "last_read_seq": 0, "joined_seq": 1},
    ]});
    assert_eq!(status(&alice, &chat).await, nobody_yet);

    let delivered = mark(&bob, &chat, "delivered", 2).await;
    let expected =
        json!({"conversation_id": chat, "user_id": "bob", "last_delivered_seq": 2, "last_read_seq": 0});
    assert_eq!((delivered.status, delivered.json()), (200, expected));
    assert_eq!(read_state(&alice, &chat, "bob").await, (2, 0));

    let read = mark(&bob, &chat, "read", 3).await.json();
    assert_eq!((&read["last_delivered_seq"], &read["last_read_seq"]), (&json!(3), &json!(3)));
    assert_eq!(read_state(&alice, &chat, "bob").await, (3, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn late_receipts_return_the_current_read_state_and_move_nothing_back() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    send_some(&alice, &chat, 5).await;
    for (kind, seq, stands) in [
        ("delivered", 4, (4, 0)),
        ("delivered", 4, (4, 0)),
        ("read", 3, (4, 3)),
        ("delivered", 1, (4, 3)),
        ("read", 2, (4, 3)),
        ("read", 0, (4, 3)),
        ("read", 5, (5, 5)),
        ("delivered", 5, (5, 5)),
    ] {
        let answer = mark(&bob, &chat, kind, seq).await.json();
        let told =
            (answer["last_delivered_seq"].as_u64().unwrap(), answer["last_read_seq"].as_u64().unwrap());
        assert_eq!(told, stands, "{kind} {seq}");
        assert_eq!(read_state(&alice, &chat, "bob").await, stands, "{kind} {seq}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn receipt_above_the_head_counts_as_the_head() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    assert_eq!(mark(&bob, &chat, "read", 99).await.json()["last_read_seq"], 0);
    send_some(&alice, &chat, 2).await;
    for forged in [3, 9_007_199_254_740_991, u64::MAX] {
        assert_eq!(mark(&bob, &chat, "read", forged).await.json()["last_read_seq"], 2);
    }
    alice.send(&chat, "next", "hi").await;
    assert_eq!(read_state(&alice, &chat, "bob").await, (2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn receipt_applies_to_the_caller_only() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    send_some(&alice, &chat, 2).await;
    let forged = json!({"seq": 2, "user_id": "bob", "conversation_id": "another"});
    let answer = alice.post(&format!("/v1/conversations/{chat}/read"), forged).await.json();
    assert_eq!((&answer["user_id"], &answer["conversation_id"]), (&json!("alice"), &json!(chat)));
    assert_eq!(read_state(&bob, &chat, "bob").await, (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn reply_moves_the_read_state_of_its_sender() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    send_some(&alice, &chat, 3).await;
    assert_eq!(bob.send(&chat, "reply", "yes").await.json()["seq"], 4);
    assert_eq!(read_state(&alice, &chat, "bob").await, (3, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_receipt_names_the_field_and_moves_nothing() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    send_some(&alice, &chat, 2).await;
    for kind in ["delivered", "read"] {
        let path = format!("/v1/conversations/{chat}/{kind}");
        for (body, says) in [
            (json!({}), "missing field `seq`"),
            (json!({"seq": null}), "seq: expected a whole number that is not negative"),
            (json!({"seq": -1}), "seq: expected a whole number that is not negative"),
            (json!({"seq": 1.5}), "seq: expected a whole number that is not negative"),
            (json!({"seq": "2"}), "seq: expected a whole number that is not negative"),
            (json!([2]), "expected an object"),
            (json!(2), "expected an object"),
        ] {
            assert_eq!(bob.post(&path, body).await.refused(400, "invalid_request"), says);
        }
        let nothing = bob.call("POST", &path, None).await.refused(400, "invalid_request");
        assert!(nothing.contains("not valid JSON"), "{nothing}");
    }
    assert_eq!(read_state(&alice, &chat, "bob").await, (0, 0));
}

/// Every call on a conversation except those on messages and members.
#[tokio::test(flavor = "multi_thread")]
async fn non_member_receipts_and_status_calls_get_conversation_not_found() {
    let world = World::new().await;
    let [alice, mallory] = world.people(["alice", "mallory"]);
    let chat = alice.direct("bob").await;
    send_some(&alice, &chat, 2).await;
    let before = status(&alice, &chat).await;
    for (method, rest, body) in [
        ("POST", "/delivered", Some(json!({"seq": 2}))),
        ("POST", "/read", Some(json!({"seq": 2}))),
        ("GET", "/status", None),
        ("GET", "/status?seq=1", None),
        ("GET", "/status?seq=77", None),
        ("PATCH", "/settings", Some(json!({"pinned": true}))),
        ("GET", "/presence", None),
    ] {
        let mut answers = Vec::new();
        for id in [&*chat, "g0123456789abcdefghjkmnpq", "nonsense"] {
            let path = format!("/v1/conversations/{id}{rest}");
            let reply = mallory.call(method, &path, body.clone()).await;
            reply.refused(404, "conversation_not_found");
            answers.push(reply.body);
            world.call(method, &path, None, body.clone()).await.refused(401, "unauthenticated");
        }
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{method} {rest}");
    }
    assert_eq!(status(&alice, &chat).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_member_cannot_send_receipts_and_is_not_counted() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let group = alice.group(&["bob", "carol"]).await;
    send_some(&alice, &group, 1).await;
    assert_eq!(counts(&alice, &group, 2).await, (0, 0, 2));
    assert_eq!(alice.remove(&group, "bob").await.status, 204);
    mark(&bob, &group, "read", 2).await.refused(404, "conversation_not_found");
    receipts(&bob, &group, 2).await.refused(404, "conversation_not_found");
    assert_eq!(counts(&alice, &group, 2).await, (0, 0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn receipt_counts_exclude_the_sender_and_later_members() {
    let world = World::new().await;
    let [alice, bob, carol, dave] = world.people(["alice", "bob", "carol", "dave"]);
    let group = alice.group(&["bob", "carol"]).await;
    send_some(&alice, &group, 1).await;
    assert_eq!(counts(&alice, &group, 2).await, (0, 0, 2));
    mark(&bob, &group, "delivered", 2).await;
    assert_eq!(counts(&alice, &group, 2).await, (1, 0, 2));
    mark(&carol, &group, "read", 2).await;
    assert_eq!(counts(&carol, &group, 2).await, (2, 1, 2));
    alice.add(&group, &["dave"]).await;
    mark(&dave, &group, "read", 3).await;
    assert_eq!(counts(&alice, &group, 2).await, (2, 1, 2), "dave was not there");
    mark(&alice, &group, "read", 2).await;
    assert_eq!(counts(&bob, &group, 2).await, (2, 1, 2), "alice wrote it");
    mark(&bob, &group, "read", 2).await;
    assert_eq!(counts(&alice, &group, 2).await, (2, 2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_or_invisible_message_has_no_receipts() {
    let world = World::new().await;
    let [alice, dave] = world.people(["alice", "dave"]);
    let group = alice.group(&["bob"]).await;
    send_some(&alice, &group, 1).await;
    alice.add(&group, &["dave"]).await;
    receipts(&alice, &group, 4).await.refused(404, "message_not_found");
    receipts(&dave, &group, 2).await.refused(404, "message_not_found");
    assert_eq!(counts(&dave, &group, 3).await, (0, 0, 2));
    for query in ["?seq=0", "?seq=-1", "?seq=", "?seq=x", "?seq=9007199254740992", "?seq=1&seq=2"] {
        let refused = alice.get(&format!("/v1/conversations/{group}/status{query}")).await;
        let message = refused.refused(400, "invalid_request");
        assert!(message.starts_with("seq: "), "{query} gave: {message}");
    }
    assert!(status(&alice, &group).await["members"].is_array());
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_with_receipts_off_stay_hidden_from_others() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    send_some(&alice, &chat, 3).await;
    mark(&bob, &chat, "read", 1).await;
    let settings = format!("/v1/conversations/{chat}/settings");
    let entry = bob.call("PATCH", &settings, Some(json!({"read_receipts": false}))).await.json();
    assert_eq!(entry["read_receipts"], false);
    assert_eq!(mark(&bob, &chat, "read", 3).await.json()["last_read_seq"], 3);
    assert_eq!(read_state(&bob, &chat, "bob").await, (3, 3));
    assert_eq!(read_state(&alice, &chat, "bob").await, (3, 1));
    assert_eq!(counts(&alice, &chat, 3).await, (1, 0, 1));
    bob.call("PATCH", &settings, Some(json!({"read_receipts": true}))).await;
    assert_eq!(read_state(&alice, &chat, "bob").await, (3, 1), "reads made with receipts off stay hidden");
    alice.send(&chat, "next", "hi").await;
    mark(&bob, &chat, "read", 4).await;
    assert_eq!(read_state(&alice, &chat, "bob").await, (4, 4));
}

/// A send waits in the store, so the drain waits and the server still answers.
#[tokio::test(flavor = "multi_thread")]
async fn draining_server_refuses_writes_and_answers_reads() {
    let store = FaultyStore::default();
    let mut world = store.setup().start().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    send_some(&alice, &chat, 1).await;
    let mut phone = alice.connect().await;
    store.hold_appends(true);
    phone.send(&chat, "waiting", "hi").await;
    phone.receives_nothing().await;
    let drained = tokio::spawn(world.take_server().drain());
    // Readiness changes before the server refuses work.
    while world.get("/readyz").await.status == 200 {}
    let settings = format!("/v1/conversations/{chat}/settings");
    while bob.call("PATCH", &settings, Some(json!({"muted": false}))).await.status != 503 {}

    mark(&bob, &chat, "delivered", 1).await.refused(503, "draining");
    mark(&bob, &chat, "read", 1).await.refused(503, "draining");
    bob.call("PATCH", &settings, Some(json!({"muted": true}))).await.refused(503, "draining");
    bob.call("PATCH", "/v1/me", Some(json!({"show_presence": false}))).await.refused(503, "draining");
    assert_eq!(read_state(&bob, &chat, "bob").await, (0, 0));
    assert_eq!(bob.get("/v1/conversations").await.json()["conversations"][0]["muted"], false);

    store.hold_appends(false);
    assert_eq!(phone.receive_type("ack").await["message_id"], "waiting");
    tokio::time::timeout(TIMEOUT, drained).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn status_of_a_group_of_2000_lists_and_counts_all_members() {
    let world = World::new().await;
    let alice = world.person("alice");
    let names: Vec<String> = (1..2_000).map(|number| format!("member{number}")).collect();
    let group = alice.group(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    send_some(&alice, &group, 1).await;
    for name in &names[..5] {
        mark(&world.person(name), &group, "read", 2).await;
    }
    mark(&world.person(&names[5]), &group, "delivered", 2).await;
    assert_eq!(counts(&alice, &group, 2).await, (6, 5, 1_999));
    assert_eq!(status(&alice, &group).await["members"].as_array().unwrap().len(), 2_000);
    assert_eq!(read_state(&alice, &group, "member6").await, (2, 0));
    assert_eq!(read_state(&alice, &group, "member7").await, (0, 0));
}
