//! Attacks with guessed ids, forged tokens, replays, foreign origins and paths.

use std::time::Duration;

use bluetick_auth::{AuthSettings, Tokens};
use bluetick_core::ports::SystemRandom;
use bluetick_core::time::{Clock, SystemClock};
use serde_json::json;

use crate::harness::{Device, Setup, World, call, send_frame};
use crate::hostile::{HonestUsers, RawSocket, upgrade_request};

/// Every call and frame gives the same result for an existing conversation and an unknown one.
#[tokio::test(flavor = "multi_thread")]
async fn guessed_conversation_id_gets_the_same_errors_as_an_unknown_one() {
    let world = World::new().await;
    let mut honest = HonestUsers::pair(&world).await;
    let [alice, mallory] = world.people(["alice", "mallory"]);
    let direct = alice.direct("bob").await;
    let group = alice.group(&["bob"]).await;
    alice.send(&direct, "m1", "secret").await;
    alice.send(&group, "m1", "secret").await;
    let nothing = |kind: char| format!("{kind}{}", "0".repeat(direct.len() - 1));
    let attack = async {
        for (real, made_up) in [(&direct, nothing('d')), (&group, nothing('g'))] {
            for (method, path, body) in [
                ("GET", "", None),
                ("GET", "/messages", None),
                ("GET", "/status", None),
                ("GET", "/presence", None),
                ("POST", "/messages", Some(json!({"message_id": "m", "content": "x"}))),
                ("POST", "/members", Some(json!({"members": ["mallory"]}))),
                ("DELETE", "/members/mallory", None),
                ("DELETE", "/members/alice", None),
                ("POST", "/delivered", Some(json!({"seq": 1}))),
                ("POST", "/read", Some(json!({"seq": 1}))),
                ("PATCH", "/settings", Some(json!({"muted": true}))),
            ] {
                let ask = |id: &str| {
                    let path = format!("/v1/conversations/{id}{path}");
                    let body = body.clone();
                    let mallory = mallory.clone();
                    async move { mallory.call(method, &path, body).await }
                };
                let (there, not_there) = (ask(real).await, ask(&made_up).await);
                assert_eq!(
                    (there.status, there.text()),
                    (not_there.status, not_there.text()),
                    "{method} {path}"
                );
                assert!(there.status >= 400, "{method} {path} {}", there.text());
                assert!(!there.text().contains("secret"), "{}", there.text());
            }
            let mut device = mallory.connect_now().await;
            let mut heard = Vec::new();
            for id in [real.as_str(), &made_up] {
                let mut errors = Vec::new();
                device.send_json(send_frame(id, "m", "x")).await;
                errors.push(device.receive_error("conversation_not_found").await);
                for kind in ["delivered", "read"] {
                    device.send_receipt(kind, id, 1).await;
                    errors.push(device.receive_error("conversation_not_found").await);
                }
                device.send_json(json!({"type": "typing", "conversation_id": id})).await;
                errors.extend(device.received_so_far().await);
                heard.push(serde_json::to_string(&errors).unwrap().replace(id, "ID"));
            }
            assert_eq!(heard[0], heard[1]);
        }
    };
    honest.chat_during(attack).await;
}

const SECRET: &str = "a secret that the operator's product shares with the server";

fn minted(auth: &AuthSettings, ttl: Duration, ago: Duration) -> String {
    let directory = tempfile::tempdir().unwrap();
    let tokens = Tokens::open(auth, directory.path(), &SystemRandom).unwrap();
    let then = SystemClock.now().plus_millis(-i64::try_from(ago.as_millis()).unwrap());
    tokens.mint(&"alice".parse().unwrap(), ttl, then).unwrap().token
}

/// The server accepts tokens of one issuer only; each forged token differs in one property.
#[tokio::test(flavor = "multi_thread")]
async fn token_with_wrong_key_algorithm_audience_or_time_is_refused() {
    let auth = AuthSettings {
        hs256_secret: Some(SECRET.into()),
        audience: Some("chat".into()),
        issuer: Some("product".into()),
        leeway_seconds: 0,
        ..AuthSettings::default()
    };
    let world = Setup { auth: auth.clone(), ..Setup::default() }.start().await;
    let mut honest = HonestUsers::pair(&world).await;
    let hour = Duration::from_secs(3_600);
    let good = minted(&auth, hour, Duration::ZERO);
    let parts: Vec<&str> = good.split('.').collect();
    let (header, claims, signature) = (parts[0], parts[1], parts[2]);
    let other = |change: fn(&mut AuthSettings)| {
        let mut auth = auth.clone();
        change(&mut auth);
        minted(&auth, hour, Duration::ZERO)
    };
    // {"alg":"none"} and its spellings, {"alg":"HS512"}, {"alg":"RS256"}, {"alg":"EdDSA"}
    let none = "eyJhbGciOiJub25lIn0";
    let none_in_capitals = "eyJhbGciOiJOT05FIn0";
    let hs512 = "eyJhbGciOiJIUzUxMiJ9";
    let rs256 = "eyJhbGciOiJSUzI1NiJ9";
    let eddsa = "eyJhbGciOiJFZERTQSJ9";
    // {"sub":"root","exp":4102444800,"aud":"chat","iss":"product"}
    let root = "eyJzdWIiOiJyb290IiwiZXhwIjo0MTAyNDQ0ODAwLCJhdWQiOiJjaGF0IiwiaXNzIjoicHJvZHVjdCJ9";
    let forged = [
        (
            "another key",
            other(|auth| auth.hs256_secret = Some("another secret that is just as long as it".into())),
        ),
        ("another audience", other(|auth| auth.audience = Some("mail".into()))),
        ("no audience", other(|auth| auth.audience = None)),
        ("another issuer", other(|auth| auth.issuer = Some("stranger".into()))),
        ("no algorithm", format!("{none}.{claims}.")),
        ("no algorithm, with a signature", format!("{none}.{claims}.{signature}")),
        ("no algorithm in capitals", format!("{none_in_capitals}.{claims}.")),
        ("another length of hash", format!("{hs512}.{claims}.{signature}")),
        ("a public key's algorithm", format!("{rs256}.{claims}.{signature}")),
        ("another public key's algorithm", format!("{eddsa}.{claims}.{signature}")),
        ("other claims under the signature", format!("{header}.{root}.{signature}")),
        ("no signature", format!("{header}.{claims}.")),
        ("two parts", format!("{header}.{claims}")),
        ("half a signature", format!("{header}.{claims}.{}", &signature[..20])),
        ("nothing", String::new()),
        ("very much", "x".repeat(10_000)),
    ];
    let expired = minted(&auth, Duration::from_secs(60), hour);
    let attack = async {
        let path = "/v1/conversations";
        assert_eq!(
            call(world.addr, "GET", path, Some(&good), None).await.status,
            200,
            "the valid token is accepted"
        );
        for (what, token) in &forged {
            let reply = call(world.addr, "GET", path, Some(token), None).await;
            assert_eq!(reply.status, 401, "{what}: {}", reply.text());
            reply.refused(401, "unauthenticated");
            let mut device = Device::open(world.addr).await;
            device.send_json(json!({"type": "hello", "token": token})).await;
            assert_eq!(device.closed_with().await, (4401, "unauthenticated".into()), "{what}");
        }
        call(world.addr, "GET", path, Some(&expired), None).await.refused(401, "token_expired");
        let mut device = Device::open(world.addr).await;
        device.send_json(json!({"type": "hello", "token": expired})).await;
        assert_eq!(device.closed_with().await, (4403, "token_expired".into()));
    };
    honest.chat_during(attack).await;
}

/// An attacker records the traffic of alice and replays it after her log-out.
#[tokio::test(flavor = "multi_thread")]
async fn replayed_requests_are_refused_after_log_out() {
    let world = World::new().await;
    let mut honest = HonestUsers::pair(&world).await;
    let alice = world.person("alice");
    let chat = alice.direct("bob").await;
    let recorded = ["m1", "m2"].map(|message_id| {
        let body = json!({"message_id": message_id, "content": "said once"}).to_string();
        format!(
            "POST /v1/conversations/{chat}/messages HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
             Connection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            alice.token,
            body.len()
        )
    });
    let ask = |request: &str| {
        let request = request.to_owned();
        async move {
            let mut raw = RawSocket::connect(world.addr).await;
            raw.write(request.as_bytes()).await;
            raw.rest().await
        }
    };
    let first = ask(&recorded[0]).await;
    assert!(first.starts_with("HTTP/1.1 201 "), "{first}");
    // An attacker controls one open connection.
    let mut taken_over = alice.connect().await;
    assert_eq!(alice.call("POST", "/v1/logout", None).await.status, 204);
    let attack = async {
        for request in &recorded {
            let answer = ask(request).await;
            assert!(answer.starts_with("HTTP/1.1 401 ") && answer.contains("token_revoked"), "{answer}");
        }
        let mut device = Device::open(world.addr).await;
        device.send_json(json!({"type": "hello", "token": alice.token})).await;
        assert_eq!(device.closed_with().await, (4402, "token_revoked".into()));
        assert_eq!(taken_over.closed_with().await, (4402, "token_revoked".into()));
        // Another encoding of the same token is also refused.
        let mut other = alice.token.clone();
        let last = if other.ends_with('A') { 'B' } else { 'A' };
        other.pop();
        other.push(last);
        assert_eq!(call(world.addr, "GET", "/v1/me", Some(&other), None).await.status, 401);
    };
    honest.chat_during(attack).await;
    let again = world.person("alice");
    assert_eq!(again.history(&chat, "").await.json()["head_seq"], 1, "the refused request stored no message");
}

/// A malicious page uses the browser of a user.
#[tokio::test(flavor = "multi_thread")]
async fn page_of_another_origin_opens_no_socket_and_reads_no_response() {
    let world = World::new().await;
    let mut honest = HonestUsers::pair(&world).await;
    let alice = world.person("alice");
    let attack = async {
        for origin in
            ["https://evil.example", "null", "http://127.0.0.1", "file://", "http://127.0.0.1.evil.example"]
        {
            let mut raw = RawSocket::connect(world.addr).await;
            raw.write(upgrade_request(world.addr, &format!("Origin: {origin}\r\n")).as_bytes()).await;
            let head = raw.head().await;
            assert!(head.starts_with("HTTP/1.1 403 "), "{origin}: {head}");
            let mut raw = RawSocket::connect(world.addr).await;
            let request = format!(
                "GET /v1/conversations HTTP/1.1\r\nHost: {}\r\nOrigin: {origin}\r\nAuthorization: Bearer {}\r\n\
                 Connection: close\r\n\r\n",
                world.addr, alice.token
            );
            raw.write(request.as_bytes()).await;
            let answer = raw.rest().await.to_lowercase();
            assert!(!answer.contains("access-control-allow-origin"), "{origin}: {answer}");
        }
        assert!(Device::try_open(world.addr, Some(&format!("http://{}", world.addr))).await.is_ok());
    };
    honest.chat_during(attack).await;
}

/// Paths never address files outside the embedded assets.
#[tokio::test(flavor = "multi_thread")]
async fn path_traversal_is_refused() {
    let world = World::new().await;
    let mut honest = HonestUsers::pair(&world).await;
    let attack = async {
        for path in [
            "/../../etc/passwd",
            "/assets/../../../../etc/passwd",
            "/assets/..%2f..%2f..%2fetc%2fpasswd",
            "/assets/%2e%2e/%2e%2e/etc/passwd",
            "/assets//etc/passwd",
            "/assets/index.html%00.js",
            "//etc/passwd",
            "http://evil.example/v1/users",
        ] {
            let mut raw = RawSocket::connect(world.addr).await;
            raw.write(
                format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes(),
            )
            .await;
            let answer = raw.rest().await;
            assert!(answer.starts_with("HTTP/1.1 4"), "{path}: {answer}");
            assert!(!answer.contains("root:"), "{path}");
        }
    };
    honest.chat_during(attack).await;
}
