//! Attacks from the same machine, and from web pages that a browser on it has open.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bluetick_core::Timestamp;
use bluetick_core::time::ManualClock;
use futures_util::future::join_all;
use serde_json::json;

use crate::harness::{ADMIN_KEY, Setup, World};
use crate::hostile::{HonestUsers, RawSocket, upgrade_request};

async fn answer(world: &World, request: &str) -> String {
    let mut raw = RawSocket::connect(world.addr).await;
    raw.write(request.as_bytes()).await;
    raw.rest().await
}

async fn log_in_from(world: &World, last: u8, forwarded: &str) -> String {
    let body = json!({"user_id": "victim", "password": "a wrong password"}).to_string();
    let request = format!(
        "POST /v1/login HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Forwarded-For: {forwarded}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut raw = RawSocket::connect_from(last, world.addr).await.unwrap();
    raw.write(request.as_bytes()).await;
    raw.rest().await
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_forwarded_address_from_loopback_does_not_evade_address_limits() {
    let mut setup = Setup::limits(|limits| {
        limits.logins_per_address_per_minute = 3;
        limits.logins_per_minute = 0;
    });
    setup.clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_800_000_000_000)));
    let world = setup.start().await;
    let mut honest = HonestUsers::pair(&world).await;
    let attack = async {
        let mut refused = 0;
        for number in 0..20 {
            let answer = log_in_from(&world, 1, &format!("192.0.2.{number}")).await;
            refused += usize::from(answer.contains("rate_limited"));
        }
        refused
    };
    assert_eq!(
        honest.chat_during(attack).await,
        19,
        "one is accepted at once, and none without time passing"
    );
    assert!(log_in_from(&world, 67, "x").await.contains("invalid_credentials"), "another address");
}

/// A page of `evil.example` whose name points to 127.0.0.1 sends same-origin requests to the
/// server.
#[tokio::test(flavor = "multi_thread")]
async fn dns_rebinding_page_reaches_neither_api_nor_socket_of_a_local_server() {
    let world = World::new().await;
    let mut honest = HonestUsers::pair(&world).await;
    let alice = world.person("alice");
    let attack = async {
        let port = world.addr.port();
        for host in ["evil.example".to_owned(), format!("evil.example:{port}"), "192.0.2.1".to_owned()] {
            for path in ["/v1/conversations", "/", "/metrics", "/openapi.json", "/v1/server"] {
                let request = format!(
                    "GET {path} HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n\
                     Authorization: Bearer {}\r\nConnection: close\r\n\r\n",
                    alice.token
                );
                let answer = answer(&world, &request).await;
                assert!(answer.starts_with("HTTP/1.1 421 "), "{host}{path}: {answer}");
                assert!(
                    answer.contains("host_not_allowed") && answer.contains("server.hostnames"),
                    "{answer}"
                );
                assert!(!answer.to_lowercase().contains("access-control-allow-origin"), "{answer}");
            }
            let upgrade = upgrade_request(world.addr, &format!("Origin: http://{host}\r\n"));
            let upgrade = upgrade.replace(&world.addr.to_string(), &host);
            let mut raw = RawSocket::connect(world.addr).await;
            raw.write(upgrade.as_bytes()).await;
            let head = raw.head().await;
            assert!(head.starts_with("HTTP/1.1 421 "), "{host}: {head}");
        }
    };
    honest.chat_during(attack).await;
    let metrics = world.get("/metrics").await.text();
    assert!(metrics.contains("bluetick_rejects_total{code=\"host_not_allowed\"} 18\n"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn local_server_accepts_loopback_names_configured_names_and_no_host() {
    let mut setup = Setup::default();
    setup.settings.hostnames = vec!["chat.example.org".into()];
    setup.settings.allowed_origins = vec!["https://app.example".into()];
    let world = setup.start().await;
    let alice = world.person("alice");
    let port = world.addr.port();
    let ask = async |version: &str, path: &str, host: &str| {
        let token = &alice.token;
        answer(
            &world,
            &format!(
                "GET {path} {version}\r\n{host}Authorization: Bearer {token}\r\nConnection: close\r\n\r\n"
            ),
        )
        .await
    };
    for host in
        ["localhost", "LocalHost", "127.0.0.1", "127.8.8.8", "[::1]", "chat.example.org", "app.example"]
    {
        for port in [String::new(), format!(":{port}"), ":443".to_owned()] {
            let answer = ask("HTTP/1.1", "/v1/me", &format!("Host: {host}{port}\r\n")).await;
            assert!(answer.starts_with("HTTP/1.1 200 "), "{host}{port}: {answer}");
        }
    }
    // Some health checks use HTTP/1.0 without `Host`; no browser does.
    for path in ["/healthz", "/readyz", "/v1/me"] {
        let answer = ask("HTTP/1.0", path, "").await;
        assert!(answer.starts_with("HTTP/1.0 200 "), "{path}: {answer}");
    }
    // Health checks accept any `Host` name.
    assert!(ask("HTTP/1.1", "/healthz", "Host: 10.0.0.7:8080\r\n").await.starts_with("HTTP/1.1 200 "));
    assert!(ask("HTTP/1.1", "/v1/me", "Host: other.example\r\n").await.starts_with("HTTP/1.1 421 "));
}

async fn with_key(world: &World, last: u8, key: &str) -> String {
    let mut raw = RawSocket::connect_from(last, world.addr).await.unwrap();
    let request = format!(
        "GET /v1/users/nobody HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\
         X-Forwarded-For: 192.0.2.9\r\nConnection: close\r\n\r\n"
    );
    raw.write(request.as_bytes()).await;
    raw.rest().await
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_admin_keys_are_limited_by_address_and_the_right_key_succeeds() {
    let mut setup = Setup::limits(|limits| limits.wrong_admin_keys_per_address_per_minute = 6);
    let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_800_000_000_000)));
    setup.clock = clock.clone();
    let world = setup.start().await;
    let mut honest = HonestUsers::pair(&world).await;
    for _ in 0..20 {
        assert!(
            with_key(&world, 66, ADMIN_KEY).await.contains("user_not_found"),
            "a right key does not count against the limit"
        );
    }
    let attack = async {
        for number in 0..6 {
            let answer = with_key(&world, 66, &format!("a-guess-at-the-admin-key-{number}")).await;
            assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
        }
        let started = Instant::now();
        let guesses = (0..8).map(|_| with_key(&world, 66, "another-guess-at-the-admin-key"));
        for answer in join_all(guesses).await {
            assert!(answer.starts_with("HTTP/1.1 429 ") && answer.contains("rate_limited"), "{answer}");
            assert!(answer.to_lowercase().contains("retry-after: 10\r\n"), "{answer}");
        }
        assert!(
            started.elapsed() >= Duration::from_secs(2),
            "keys are checked one at a time, each after its pause"
        );
    };
    honest.chat_during(attack).await;
    assert!(with_key(&world, 66, ADMIN_KEY).await.contains("user_not_found"), "the right key always works");
    let other = with_key(&world, 67, "a-guess-from-another-address").await;
    assert!(other.starts_with("HTTP/1.1 401 "), "{other}");
    clock.advance_millis(10_000);
    let later = with_key(&world, 66, "a-guess-after-the-bucket-refilled").await;
    assert!(later.starts_with("HTTP/1.1 401 "), "{later}");
    let metrics = world.get("/metrics").await.text();
    assert!(metrics.contains("bluetick_admin_key_failures_total{reason=\"wrong\"} 8\n"), "{metrics}");
    assert!(metrics.contains("bluetick_admin_key_failures_total{reason=\"too_many\"} 8\n"), "{metrics}");
}

/// A proxy that does not name its client must not hide an attacker from the limit.
#[tokio::test(flavor = "multi_thread")]
async fn wrong_admin_keys_through_a_proxy_without_a_client_address_are_counted_by_the_proxy() {
    let mut setup = Setup::limits(|limits| limits.wrong_admin_keys_per_address_per_minute = 2);
    setup.clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_800_000_000_000)));
    // With the client's address in the list, `X-Forwarded-For` names trusted proxies only.
    setup.settings.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap(), "192.0.2.0/24".parse().unwrap()];
    let world = setup.start().await;
    for expected in ["HTTP/1.1 401 ", "HTTP/1.1 401 ", "HTTP/1.1 429 "] {
        let answer = with_key(&world, 66, "a-guess-at-the-admin-key").await;
        assert!(answer.starts_with(expected), "{answer}");
    }
    assert!(with_key(&world, 66, ADMIN_KEY).await.contains("user_not_found"));
}

#[tokio::test(flavor = "multi_thread")]
async fn percent_encoded_query_numbers_are_decoded() {
    let world = World::new().await;
    let alice = world.person("alice");
    let chat = alice.direct("bob").await;
    for number in 1..=5 {
        alice.send(&chat, &format!("m{number}"), "x").await;
    }
    assert_eq!(alice.history(&chat, "?limit=%32&before_seq=%34").await.seqs(), [3, 2]);
    assert_eq!(alice.history(&chat, "?limit=2&before_seq=4").await.seqs(), [3, 2]);
    assert_eq!(alice.get("/v1/conversations?limit=%32%30").await.status, 200);
    alice.history(&chat, "?limit=%FF").await.refused(400, "invalid_request");
}

/// Mallory opens a conversation with bob and makes every call except sending a message.
#[tokio::test(flavor = "multi_thread")]
async fn direct_conversation_is_hidden_from_peer_until_its_first_message() {
    let world = World::new().await;
    let [mallory, bob] = world.people(["mallory", "bob"]);
    let mut laptop = bob.connect().await;
    let chat = mallory.direct("bob").await;
    let path = format!("/v1/conversations/{chat}");
    let mut phone = mallory.connect().await;
    phone.send_json(json!({"type": "typing", "conversation_id": chat})).await;
    phone.send_receipt("read", &chat, 1).await;
    phone.received_so_far().await;
    assert_eq!(
        mallory.call("PATCH", &format!("{path}/settings"), Some(json!({"pinned": true}))).await.status,
        200
    );
    assert_eq!(mallory.call("PATCH", "/v1/me", Some(json!({"show_presence": false}))).await.status, 200);
    assert_eq!(mallory.call("PATCH", "/v1/me", Some(json!({"show_presence": true}))).await.status, 200);
    drop(phone);
    let inbox = async |person: &crate::harness::Person| {
        let inbox = person.get("/v1/conversations").await.json();
        inbox["conversations"].as_array().unwrap().clone()
    };
    assert_eq!(inbox(&mallory).await[0]["conversation_id"], chat.as_str(), "its creator sees it");
    assert_eq!(inbox(&bob).await, Vec::<serde_json::Value>::new());
    let mut tablet = bob.connect().await;
    assert_eq!(tablet.backlog, Vec::<serde_json::Value>::new());
    // Bob can still read the conversation by its id, which is derived from the two names.
    assert_eq!(bob.get(&path).await.json()["head_seq"], 0);
    assert_eq!(bob.post("/v1/conversations", json!({"kind": "direct", "peer": "mallory"})).await.status, 200);
    let silent = laptop.received_so_far().await;
    assert_eq!(silent, Vec::<serde_json::Value>::new());

    mallory.send(&chat, "m1", "hello").await;
    for device in [&mut laptop, &mut tablet] {
        // Bob receives the message and then the inbox entry, as for a group.
        let message = device.receive_type("message").await;
        assert_eq!((&message["conversation_id"], &message["seq"]), (&json!(chat), &json!(1)));
        let line = device.receive_type("conversation").await;
        assert_eq!((&line["conversation_id"], &line["unread"]), (&json!(chat), &json!(1)));
    }
    let listed = inbox(&bob).await;
    assert_eq!(listed.len(), 1);
    assert_eq!((&listed[0]["unread"], &listed[0]["peer"]), (&json!(1), &json!("mallory")));
}

#[tokio::test(flavor = "multi_thread")]
async fn creator_gets_no_second_inbox_entry_and_peer_gets_one_by_its_own_first_message() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let (mut phone, mut laptop) = (alice.connect().await, bob.connect().await);
    let chat = alice.direct("bob").await;
    assert_eq!(phone.receive_type("conversation").await["conversation_id"], chat.as_str());
    laptop.send(&chat, "m1", "I was first").await;
    laptop.receive_type("ack").await;
    assert_eq!(laptop.receive_type("conversation").await["unread"], 0);
    phone.receive_type("message").await;
    let presence = phone.receive_type("presence").await;
    assert_eq!((&presence["user_id"], &presence["online"]), (&json!("bob"), &json!(true)));
    bob.wait_for_delivery().await;
    let frames = phone.received_so_far().await;
    assert!(frames.iter().all(|frame| frame["type"] != "conversation"), "{frames:?}");
}
