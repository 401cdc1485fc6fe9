//! Messages over HTTP: sending, history pages and invalid input.

use serde_json::json;

use crate::harness::{Setup, World, call};

#[tokio::test(flavor = "multi_thread")]
async fn message_sent_over_http_is_read_back_unchanged() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    let id = "0199c0de-0000-7000-8000-000000000001";
    let body = json!({"message_id": id, "content": "Lunch? 🥪\n\"now\"", "timestamp": 1_234});
    let sent = alice.post(&format!("/v1/conversations/{chat}/messages"), body).await;
    assert_eq!(sent.status, 201);
    let sent = sent.json();
    let expected = json!({
        "conversation_id": chat, "message_id": id, "seq": 1, "received_at": sent["received_at"], "duplicate": false,
    });
    assert_eq!(sent, expected);

    let page = bob.history(&chat, "").await.json();
    let message = json!({
        "conversation_id": chat, "seq": 1, "message_id": id, "sender_id": "alice", "receiver_id": "bob",
        "content": "Lunch? 🥪\n\"now\"", "content_type": "text", "timestamp": 1_234, "received_at": sent["received_at"],
    });
    assert_eq!(
        page,
        json!({"messages": [message], "next_before_seq": null, "next_after_seq": null, "head_seq": 1})
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_conversation_has_empty_pages_in_both_directions() {
    let world = World::new().await;
    let alice = world.person("alice");
    let chat = alice.direct("bob").await;
    for query in ["", "?before_seq=5", "?after_seq=0", "?limit=100"] {
        let page = alice.history(&chat, query).await.json();
        assert_eq!(
            page,
            json!({"messages": [], "next_before_seq": null, "next_after_seq": null, "head_seq": 0})
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn history_pages_in_both_directions_with_any_allowed_limit() {
    let world = World::new().await;
    let alice = world.person("alice");
    let chat = alice.direct("bob").await;
    for number in 1..=25 {
        assert_eq!(alice.send(&chat, &format!("m{number}"), "x").await.status, 201);
    }
    let newest = alice.history(&chat, "").await;
    assert_eq!(newest.seqs(), (6..=25).rev().collect::<Vec<_>>());
    assert_eq!(
        (&newest.json()["next_before_seq"], &newest.json()["next_after_seq"]),
        (&json!(6), &json!(null))
    );
    assert_eq!(alice.history(&chat, "?before_seq=6").await.seqs(), [5, 4, 3, 2, 1]);
    let one = alice.history(&chat, "?after_seq=0&limit=1").await;
    assert_eq!((one.seqs(), &one.json()["next_after_seq"]), (vec![1], &json!(1)));
    assert_eq!(alice.history(&chat, "?limit=100").await.seqs().len(), 25);
    assert_eq!(alice.history(&chat, "?after_seq=25").await.seqs(), [0; 0]);
    assert_eq!(alice.history(&chat, "?after_seq=9007199254740991&unknown=x").await.seqs(), [0; 0]);
    assert_eq!(alice.history(&chat, "?before_seq=1").await.seqs(), [0; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_history_parameter_is_named() {
    let world = World::new().await;
    let alice = world.person("alice");
    let chat = alice.direct("bob").await;
    for (query, says) in [
        ("?after_seq=9007199254740992", "after_seq"),
        ("?before_seq=9007199254740992", "before_seq"),
        ("?limit=0", "limit"),
        ("?limit=101", "limit"),
        ("?limit=abc", "limit"),
        ("?limit=-1", "limit"),
        ("?limit=", "limit"),
        ("?limit=1.5", "limit"),
        ("?limit=5&limit=6", "limit"),
        ("?before_seq=0", "before_seq"),
        ("?before_seq=-1", "before_seq"),
        ("?before_seq=x", "before_seq"),
        ("?after_seq=-1", "after_seq"),
        ("?before_seq=5&after_seq=1", "exclude each other"),
    ] {
        let message = alice.history(&chat, query).await.refused(400, "invalid_request");
        assert!(message.contains(says), "{query} gave: {message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_message_names_the_field_and_is_not_stored() {
    let world = World::new().await;
    let alice = world.person("alice");
    let chat = alice.direct("bob").await;
    let path = format!("/v1/conversations/{chat}/messages");
    for (body, says) in [
        (json!({"content": "x"}), "message_id"),
        (json!({"message_id": "m1"}), "content"),
        (json!({"message_id": 7, "content": "x"}), "message_id"),
        (json!({"message_id": "", "content": "x"}), "message_id"),
        (json!({"message_id": "has space", "content": "x"}), "message_id"),
        (json!({"message_id": "system:1", "content": "x"}), "message_id"),
        (json!({"message_id": "m1", "content": ""}), "content"),
        (json!({"message_id": "m1", "content": ["x"]}), "content"),
        (json!({"message_id": "m1", "content": "x", "timestamp": "noon"}), "timestamp"),
        (json!({"message_id": "m1", "content": "x", "content_type": "system"}), "content_type"),
        (json!({"message_id": "m1", "content": "x", "after_seq": -3}), "after_seq"),
    ] {
        let message = alice.post(&path, body.clone()).await.refused(400, "invalid_request");
        assert!(message.contains(says), "{body} gave: {message}");
    }
    assert_eq!(alice.history(&chat, "").await.json()["head_seq"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn content_and_body_above_their_limits_are_refused() {
    let world = Setup::limits(|limits| limits.content_bytes = 100).start().await;
    let alice = world.person("alice");
    let chat = alice.direct("bob").await;
    assert_eq!(alice.send(&chat, "m1", &"x".repeat(100)).await.status, 201);
    alice.send(&chat, "m2", &"x".repeat(101)).await.refused(413, "content_too_large");
    alice.send(&chat, "m3", &"x".repeat(2_200_000)).await.refused(413, "body_too_large");
    let mut phone = alice.connect().await;
    phone.send(&chat, "m4", &"x".repeat(101)).await;
    assert_eq!(phone.receive_error("content_too_large").await["message_id"], "m4");
}

#[tokio::test(flavor = "multi_thread")]
async fn chunked_body_above_the_limit_is_refused() {
    let world = Setup::limits(|limits| limits.body_bytes = 1_000).start().await;
    let alice = world.person("alice");
    let mut request = format!(
        "POST /v1/conversations HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {}\r\n\
         Transfer-Encoding: chunked\r\n\r\n",
        alice.token
    );
    for _ in 0..3 {
        request += &format!("1f4\r\n{}\r\n", "x".repeat(500));
    }
    request += "0\r\n\r\n";
    crate::harness::raw_call(world.addr, request.as_bytes()).await.refused(413, "body_too_large");
}

#[tokio::test(flavor = "multi_thread")]
async fn incomplete_body_times_out() {
    let world = Setup::limits(|limits| limits.body_seconds = 1).start().await;
    let request =
        b"POST /v1/login HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 100\r\n\r\n{";
    crate::harness::raw_call(world.addr, request).await.refused(408, "request_timeout");
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_path_and_method_return_an_error_body() {
    let world = World::new().await;
    let alice = world.person("alice");
    alice.get("/v1/nothing").await.refused(404, "not_found");
    alice.get("/v1/login").await.refused(405, "method_not_allowed");
    alice.call("PATCH", "/v1/login", None).await.refused(405, "method_not_allowed");
    world.get("/v1/ws").await.refused(426, "upgrade_required");
    let nonsense = call(world.addr, "GET", "/assets/%FF", None, None).await;
    nonsense.refused(400, "invalid_request");
}

/// Forty messages of 100,000 bytes exceed the page size.
#[tokio::test(flavor = "multi_thread")]
async fn page_of_large_messages_is_cut_and_its_cursor_continues() {
    let world = World::new().await;
    let alice = world.person("alice");
    let chat = alice.direct("bob").await;
    const MESSAGES: u64 = 40;
    // A quote takes two bytes in JSON.
    let content = "\"".repeat(50_000);
    for number in 1..=MESSAGES {
        assert_eq!(alice.send(&chat, &format!("m{number}"), &content).await.status, 201);
    }
    let everything: Vec<u64> = (1..=MESSAGES).collect();
    for (first, cursor, parameter) in [
        ("?limit=100", "next_before_seq", "before_seq"),
        ("?limit=100&after_seq=0", "next_after_seq", "after_seq"),
    ] {
        let (mut seqs, mut query, mut pages) = (Vec::new(), first.to_string(), 0);
        loop {
            let page = alice.history(&chat, &query).await;
            assert!(page.body.len() < 1_100_000, "a page of {} bytes", page.body.len());
            assert!(!page.seqs().is_empty());
            seqs.extend(page.seqs());
            pages += 1;
            match page.json()[cursor].as_u64() {
                Some(next) => query = format!("?limit=100&{parameter}={next}"),
                None => break,
            }
        }
        seqs.sort();
        assert_eq!((&seqs, pages), (&everything, 4));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn message_above_the_page_size_is_a_page_of_its_own() {
    let world = Setup::limits(|limits| limits.content_bytes = 0).start().await;
    let alice = world.person("alice");
    let chat = alice.direct("bob").await;
    for number in 1..=3 {
        assert_eq!(alice.send(&chat, &format!("m{number}"), &"x".repeat(1_500_000)).await.status, 201);
    }
    let page = alice.history(&chat, "?after_seq=1").await;
    assert_eq!((page.seqs(), page.json()["next_after_seq"].as_u64()), (vec![2], Some(2)));
    assert_eq!(page.json()["next_before_seq"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn body_of_a_wrong_type_names_the_expected_type() {
    let world = World::new().await;
    let alice = world.person("alice");
    let chat = alice.direct("bob").await;
    let path = format!("/v1/conversations/{chat}/messages");
    for (body, says) in [
        (json!(["m1", "hi"]), "expected an object"),
        (json!("hi"), "expected an object"),
        (
            json!({"message_id": "m1", "content": "hi", "after_seq": -1}),
            "after_seq: expected a whole number that is not negative",
        ),
        (
            json!({"message_id": "m1", "content": "hi", "timestamp": "now at line 3"}),
            "timestamp: expected a whole number",
        ),
        (json!({"message_id": "m1", "content": ["hi"]}), "content: expected a string"),
        (json!({"message_id": "m1", "content": "hi", "retry": 1}), "retry: expected true or false"),
    ] {
        assert_eq!(alice.post(&path, body).await.refused(400, "invalid_request"), says);
    }
    for body in [json!(["direct", "bob"]), json!([])] {
        let refused = alice.post("/v1/conversations", body).await;
        assert_eq!(refused.refused(400, "invalid_request"), "expected an object");
    }
    assert_eq!(alice.history(&chat, "").await.seqs(), [0; 0]);
}
