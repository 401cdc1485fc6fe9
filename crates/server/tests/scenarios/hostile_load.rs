//! Attacks with many connections, log-ins and reconnects.

use futures_util::StreamExt;
use futures_util::stream::iter;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::harness::{Device, Setup, TIMEOUT, World};
use crate::hostile::{HonestUsers, RawSocket, TEXT, frame, upgrade_request};

/// Number of concurrent connections of an attack. Bounded by the file descriptors of the machine.
const AT_ONCE: usize = 100;

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_connections_of_one_user_are_closed_above_the_limit() {
    // Otherwise the connect rate refuses most connections before the limit counts them.
    let world = Setup::limits(|limits| limits.connects_per_user_per_minute = 0).start().await;
    let mut honest = HonestUsers::pair(&world).await;
    let mallory = world.person("mallory");
    let mut held = Vec::new();
    for _ in 0..16 {
        held.push(mallory.connect_now().await);
    }
    let hello = frame(TEXT, json!({"type": "hello", "token": mallory.token}).to_string().as_bytes());
    let attack = iter(0..10_000)
        .map(|_| async {
            let mut raw = RawSocket::websocket(world.addr).await;
            raw.write(&hello).await;
            raw.close_code().await
        })
        .buffer_unordered(AT_ONCE)
        .filter(|code| std::future::ready(*code == 4409))
        .count();
    assert_eq!(honest.chat_during(attack).await, 10_000);
    for device in &mut held {
        device.receives_nothing().await;
    }
    let metrics = world.get("/metrics").await.text();
    assert!(metrics.contains("\nbluetick_connections 18\n"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn connects_above_user_rate_are_refused_for_that_user_only() {
    let mut setup = Setup::limits(|limits| limits.connects_per_user_per_minute = 80);
    let clock = std::sync::Arc::new(bluetick_core::time::ManualClock::at(
        bluetick_core::Timestamp::from_millis(1_800_000_000_000),
    ));
    setup.clock = clock.clone();
    let world = setup.start().await;
    let mut honest = HonestUsers::pair(&world).await;
    let mallory = world.person("mallory");
    let come = || async {
        let mut raw = RawSocket::websocket(world.addr).await;
        raw.write(&frame(TEXT, json!({"type": "hello", "token": mallory.token}).to_string().as_bytes()))
            .await;
        raw
    };
    let attack = async {
        for _ in 0..20 {
            let (_, welcome) = come().await.frame().await;
            assert!(String::from_utf8_lossy(&welcome).contains("welcome"));
        }
        for _ in 0..100 {
            assert_eq!(come().await.close_code().await, 4411);
        }
        clock.advance_millis(750);
        let (_, welcome) = come().await.frame().await;
        assert!(String::from_utf8_lossy(&welcome).contains("welcome"));
    };
    honest.chat_during(attack).await;
}

/// Users connect and disconnect without a close frame, over and over.
#[tokio::test(flavor = "multi_thread")]
async fn reconnect_storm_leaves_no_connection_open() {
    let world = World::new().await;
    let mut honest = HonestUsers::pair(&world).await;
    let crowd: Vec<_> = (0..100).map(|number| world.person(&format!("stormy{number}"))).collect();
    let attack = iter(0..2_000)
        .map(|number| {
            let person = &crowd[number % crowd.len()];
            async move {
                let mut raw = RawSocket::websocket(person.addr).await;
                let hello = json!({"type": "hello", "token": person.token}).to_string();
                raw.write(&frame(TEXT, hello.as_bytes())).await;
                let (_, welcome) = raw.frame().await;
                welcome.starts_with(br#"{"type":"welcome""#)
            }
        })
        .buffer_unordered(AT_ONCE)
        .filter(|welcomed| std::future::ready(*welcomed))
        .count();
    assert_eq!(honest.chat_during(attack).await, 2_000);
    let gone = async {
        while !world.get("/metrics").await.text().contains("\nbluetick_connections 2\n") {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    timeout(TIMEOUT, gone).await.expect("all connections are closed");
}

/// Returns whether the server closed the connection without a response.
async fn is_refused(raw: std::io::Result<RawSocket>) -> bool {
    let Ok(RawSocket(mut stream)) = raw else { return true };
    // A refused client may notice the close while it writes.
    let asked = stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let mut first = [0; 8];
    let heard =
        timeout(TIMEOUT, stream.read(&mut first)).await.expect("the server answers or closes the connection");
    asked.is_err() || !heard.is_ok_and(|bytes| bytes > 0)
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_above_address_limit_are_closed_for_that_address_only() {
    let world = Setup::limits(|limits| limits.connections_per_address = 10).start().await;
    let mut honest = HonestUsers::pair(&world).await;
    let attack = async {
        let mut held = Vec::new();
        for _ in 0..10 {
            held.push(RawSocket::connect_from(66, world.addr).await.unwrap());
        }
        for _ in 0..100 {
            assert!(is_refused(RawSocket::connect_from(66, world.addr).await).await);
        }
        assert!(!is_refused(RawSocket::connect_from(67, world.addr).await).await);
        held.pop();
        // The permit is free after the server has seen the disconnect.
        let let_in = async { while is_refused(RawSocket::connect_from(66, world.addr).await).await {} };
        timeout(TIMEOUT, let_in).await.expect("a connection permit is free again");
    };
    honest.chat_during(attack).await;
    let metrics = world.get("/metrics").await.text();
    assert!(!metrics.contains("bluetick_turned_away_total{reason=\"connections\"} 0\n"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn connects_above_address_rate_are_closed_for_that_address_only() {
    let mut setup = Setup::limits(|limits| limits.connects_per_address_per_second = 25);
    let clock = std::sync::Arc::new(bluetick_core::time::ManualClock::at(
        bluetick_core::Timestamp::from_millis(1_800_000_000_000),
    ));
    setup.clock = clock.clone();
    let world = setup.start().await;
    let mut honest = HonestUsers::pair(&world).await;
    let attack = async {
        let mut turned_away = 0;
        for _ in 0..300 {
            turned_away += usize::from(is_refused(RawSocket::connect_from(66, world.addr).await).await);
        }
        assert_eq!(turned_away, 200, "a burst of four seconds is accepted");
        assert!(!is_refused(RawSocket::connect_from(67, world.addr).await).await);
        clock.advance_millis(1_000);
        assert!(!is_refused(RawSocket::connect_from(66, world.addr).await).await);
    };
    honest.chat_during(attack).await;
}

/// Behind a trusted proxy, limits count the forwarded address.
#[tokio::test(flavor = "multi_thread")]
async fn limits_apply_to_the_forwarded_address_and_not_to_the_trusted_proxy() {
    let mut setup = Setup::limits(|limits| limits.connections_per_address = 2);
    setup.settings.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    let world = setup.start().await;
    let mut honest = HonestUsers::pair(&world).await;
    let open = |forwarded: &'static str| async move {
        let mut raw = RawSocket::connect(world.addr).await;
        let header = format!("X-Forwarded-For: {forwarded}\r\n");
        raw.write(upgrade_request(world.addr, &header).as_bytes()).await;
        let head = raw.head().await;
        (raw, head[9..12].to_owned())
    };
    let attack = async {
        let first = open("192.0.2.66").await;
        let second = open("192.0.2.66").await;
        assert_eq!((first.1.as_str(), second.1.as_str()), ("101", "101"));
        assert_eq!(open("192.0.2.66").await.1, "503");
        assert_eq!(
            open("192.0.2.1, 192.0.2.66").await.1,
            "503",
            "a forged header does not change the address"
        );
        assert_eq!(open("192.0.2.67").await.1, "101");
        drop(first);
        let let_in = async { while open("192.0.2.66").await.1 != "101" {} };
        timeout(TIMEOUT, let_in).await.expect("a connection permit is free again");
    };
    honest.chat_during(attack).await;
}

async fn log_in(from: u8, world: &World, user: &str, forwarded: &str) -> String {
    let mut raw = RawSocket::connect_from(from, world.addr).await.unwrap();
    let body = json!({"user_id": user, "password": "a wrong password"}).to_string();
    let request = format!(
        "POST /v1/login HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Forwarded-For: {forwarded}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    raw.write(request.as_bytes()).await;
    raw.rest().await
}

#[tokio::test(flavor = "multi_thread")]
async fn log_ins_above_address_rate_are_refused_for_that_address_only() {
    let mut setup = Setup::limits(|limits| limits.logins_per_address_per_minute = 15);
    let now = bluetick_core::Timestamp::from_millis(1_800_000_000_000);
    setup.clock = std::sync::Arc::new(bluetick_core::time::ManualClock::at(now));
    let world = setup.start().await;
    let mut honest = HonestUsers::pair(&world).await;
    let attack = async {
        let mut answers = Vec::new();
        for number in 0..50 {
            // An untrusted client cannot set its own address.
            let forwarded = format!("192.0.2.{number}");
            answers.push(log_in(66, &world, &format!("victim{number}"), &forwarded).await);
        }
        answers
    };
    let answers = honest.chat_during(attack).await;
    let refused = answers.iter().filter(|answer| answer.contains("rate_limited")).count();
    let tried = answers.iter().filter(|answer| answer.contains("invalid_credentials")).count();
    assert_eq!(
        (tried, refused),
        (5, 45),
        "a third of the rate is accepted at once, and none without time passing"
    );
    assert!(answers[49].to_lowercase().contains("retry-after: "), "{}", answers[49]);
    assert!(log_in(67, &world, "somebody", "x").await.contains("invalid_credentials"));
}

/// A proxy that does not name its client must not hide an attacker from the limit.
#[tokio::test(flavor = "multi_thread")]
async fn log_ins_through_a_proxy_without_a_client_address_are_counted_by_the_proxy() {
    let mut setup = Setup::limits(|limits| limits.logins_per_address_per_minute = 6);
    let now = bluetick_core::Timestamp::from_millis(1_800_000_000_000);
    setup.clock = std::sync::Arc::new(bluetick_core::time::ManualClock::at(now));
    setup.settings.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    let world = setup.start().await;
    for (number, expected) in
        ["invalid_credentials", "invalid_credentials", "rate_limited"].iter().enumerate()
    {
        let answer = log_in(66, &world, &format!("victim{number}"), "unknown").await;
        assert!(answer.contains(expected), "{answer}");
    }
    assert!(log_in(66, &world, "somebody", "192.0.2.1").await.contains("invalid_credentials"));
    assert!(log_in(67, &world, "somebody", "127.0.0.5").await.contains("invalid_credentials"));
}

/// Password hashing is expensive: one job runs, two wait, and the server refuses the rest. Other
/// users keep exchanging messages.
#[tokio::test(flavor = "multi_thread")]
async fn flood_of_log_ins_gets_overloaded_while_messages_are_delivered() {
    /// A machine that hashes faster than it accepts connections needs another round.
    const ROUNDS: u8 = 20;
    let world = Setup::limits(|limits| {
        limits.password_checks_at_once = 1;
        limits.password_checks_waiting = 2;
    })
    .start()
    .await;
    let mut honest = HonestUsers::pair(&world).await;
    let names: Vec<String> = (0..60).map(|number| format!("victim{number}")).collect();
    for address in 1..=ROUNDS {
        let attack =
            futures_util::future::join_all(names.iter().map(|name| log_in(address, &world, name, "x")));
        let answers = honest.chat_during(attack).await;
        let overloaded = answers.iter().filter(|answer| answer.contains(r#""overloaded""#)).count();
        let tried = answers.iter().filter(|answer| answer.contains("invalid_credentials")).count();
        assert_eq!(overloaded + tried, 60, "{answers:?}");
        assert!(tried > 0, "the server refused every log-in");
        if overloaded > 0 {
            return;
        }
    }
    panic!("the hash queue was never full in {ROUNDS} rounds");
}

#[tokio::test(flavor = "multi_thread")]
async fn full_server_refuses_new_connections_and_keeps_open_ones() {
    let world = Setup::limits(|limits| limits.connections = 20).start().await;
    let mut honest = HonestUsers::pair(&world).await;
    let attack = async {
        let mut held = Vec::new();
        let mut refused = 0;
        for _ in 0..100 {
            match Device::try_open(world.addr, None).await {
                Ok(device) => held.push(device),
                Err(status) => {
                    assert_eq!(status, 503);
                    refused += 1;
                }
            }
        }
        refused
    };
    assert_eq!(honest.chat_during(attack).await, 82);
}
