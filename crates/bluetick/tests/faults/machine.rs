//! The process is suspended, the clock jumps, or the file system becomes read-only.

use std::time::Duration;

use bluetick_testkit::http::{get_text, messages, request};
use rustix::process::Signal;
use serde_json::json;
use tokio::time::Instant;

use crate::world::{PATIENCE, Switch, Traffic, World, open, signal, stopped, token};

/// Number of clients that send concurrently.
const SENDERS: usize = 5;

#[tokio::test(flavor = "multi_thread")]
async fn server_paused_for_seconds_continues_without_loss() {
    let world = World::new();
    let server = world.launcher.start().await;
    let traffic = Traffic::begin(&server.address, SENDERS).await;
    traffic.more(&server.address, 50).await;
    for _ in 0..2 {
        signal(&server, Signal::STOP);
        tokio::time::sleep(Duration::from_secs(3)).await;
        signal(&server, Signal::CONT);
        traffic.more(&server.address, 50).await;
    }
    let checked =
        traffic.judged(&server.address).await.unwrap_or_else(|violations| panic!("{violations:#?}"));
    println!("{checked:?}");
    stopped(server).await;
    assert_eq!(world.check().0, 0, "{}", world.check().1);
}

/// One hour in nanoseconds, the unit of the clock switch.
const HOUR: i64 = 3600 * 1_000_000_000;

#[tokio::test(flavor = "multi_thread")]
async fn clock_jumps_change_no_order_and_lose_nothing() {
    let world = World::new();
    let mut server = world.launcher.start().await;
    let traffic = Traffic::begin(&server.address, SENDERS).await;
    traffic.more(&server.address, 30).await;
    // Jump forward and back while the server runs. The jump after the loop comes before a start.
    for offset in [HOUR, -240 * HOUR, 5 * HOUR, -HOUR] {
        world.set(Switch::Clock, offset);
        traffic.more(&server.address, 50).await;
        let clock = request(&server.address, "GET", "/healthz", "", None).await.unwrap();
        assert_eq!(clock.0, 200);
    }
    world.set(Switch::Clock, -48 * HOUR);
    traffic.goes_nowhere();
    server.kill().await;
    server = world.launcher.start().await;
    traffic.goes_to(&server.address);
    traffic.more(&server.address, 50).await;
    world.set(Switch::Clock, 0);
    traffic.more(&server.address, 50).await;
    let checked =
        traffic.judged(&server.address).await.unwrap_or_else(|violations| panic!("{violations:#?}"));
    println!("{checked:?}");
    stopped(server).await;
    assert_eq!(world.check().0, 0, "{}", world.check().1);
}

/// The dedupe window counts elapsed time (seconds here), not the wall clock.
#[tokio::test(flavor = "multi_thread")]
async fn used_message_id_is_recognised_after_clock_jumps_and_restarts() {
    let world = World::new();
    let mut server = world.launcher.start().await;
    let mut alice = token(&server.address, "alice").await;
    let mut ids = Vec::new();
    // More conversations than stay resident.
    for peer in ["bob", "carol", "dave", "erin"] {
        ids.push(open(&server.address, &alice, json!({"kind": "direct", "peer": peer})).await);
    }
    let mut sent = Vec::new();
    for (round, days) in [0, 8, 16, -30, 24, 0].into_iter().enumerate() {
        world.set(Switch::Clock, days * 24 * HOUR);
        alice = token(&server.address, "alice").await;
        let send = async |address: &str, alice: &str, id: &str, message_id: &str, content: &str| {
            let path = format!("/v1/conversations/{id}/messages");
            let body = json!({"message_id": message_id, "content": content});
            request(address, "POST", &path, alice, Some(&body)).await.unwrap()
        };
        for id in &ids {
            let message_id = format!("m{round}");
            let (status, answer) = send(&server.address, &alice, id, &message_id, "hello").await;
            assert_eq!(status, 201, "{answer}");
            sent.push((id.clone(), message_id, answer["seq"].clone()));
        }
        // Resend to resident conversations, after a kill, and after a graceful shutdown.
        for life in 0..3 {
            match life {
                0 => {}
                1 => {
                    server.kill().await;
                    server = world.launcher.start().await;
                }
                _ => {
                    stopped(server).await;
                    server = world.launcher.start().await;
                }
            }
            for (id, message_id, seq) in &sent {
                let at = format!("{days} days, life {life}, {message_id}");
                let (status, again) = send(&server.address, &alice, id, message_id, "hello").await;
                assert_eq!((status, &again["seq"], &again["duplicate"]), (200, seq, &json!(true)), "{at}");
                let (status, other) = send(&server.address, &alice, id, message_id, "other").await;
                assert_eq!((status, &other["error"]["code"]), (409, &json!("message_id_conflict")), "{at}");
            }
        }
    }
    stopped(server).await;
}

/// Verifies that the switch sets the server's clock. Otherwise the tests above prove nothing.
#[tokio::test(flavor = "multi_thread")]
async fn clock_switch_changes_the_servers_timestamps() {
    let world = World::new();
    let server = world.launcher.start().await;
    let alice = token(&server.address, "alice").await;
    let id = open(&server.address, &alice, json!({"kind": "direct", "peer": "bob"})).await;
    let path = format!("/v1/conversations/{id}/messages");
    let mut received = Vec::new();
    for (number, offset) in [0, -HOUR, HOUR].into_iter().enumerate() {
        world.set(Switch::Clock, offset);
        let body = json!({"message_id": format!("m{number}"), "content": "now"});
        let (status, _) = request(&server.address, "POST", &path, &alice, Some(&body)).await.unwrap();
        assert_eq!(status, 201);
        let all = messages(&server.address, &alice, &id).await;
        received.push(all.last().unwrap()["received_at"].as_i64().unwrap());
    }
    assert!(received[1] < received[0] - 3_000_000 && received[2] > received[0] + 3_000_000, "{received:?}");
    let seqs: Vec<_> =
        messages(&server.address, &alice, &id).await.iter().map(|one| one["seq"].clone()).collect();
    assert_eq!(seqs, [json!(1), json!(2), json!(3)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn read_only_file_system_refuses_sends_and_recovers_without_a_restart() {
    let world = World::new();
    let mut server = world.launcher.start().await;
    let alice = token(&server.address, "alice").await;
    let id = open(&server.address, &alice, json!({"kind": "direct", "peer": "bob"})).await;
    let path = format!("/v1/conversations/{id}/messages");
    let (mut sent, mut acknowledged) = (0, Vec::new());
    let send = |number: u64, address: String| {
        let (path, alice) = (path.clone(), alice.clone());
        async move {
            let body = json!({"message_id": format!("m{number}"), "content": format!("message {number}")});
            request(&address, "POST", &path, &alice, Some(&body)).await.unwrap()
        }
    };
    for round in 0..3 {
        for _ in 0..20 {
            sent += 1;
            let (status, answer) = send(sent, server.address.clone()).await;
            assert_eq!(status, 201, "{answer}");
            acknowledged.push(sent);
        }
        world.set(Switch::ReadOnly, 1);
        sent += 1;
        let refused = sent;
        let (status, answer) = send(refused, server.address.clone()).await;
        assert_eq!((status, &answer["error"]["code"]), (503, &json!("store_unavailable")), "{answer}");
        // Wait longer than the checkpoint interval, so that the write to the tables fails too.
        if round == 1 {
            tokio::time::sleep(Duration::from_secs(3)).await;
        }
        let (status, page) = request(&server.address, "GET", &path, &alice, None).await.unwrap();
        assert_eq!(
            (status, &page["head_seq"]),
            (200, &json!(acknowledged.len())),
            "reads still work: {page}"
        );
        let ready = get_text(&server.address, "/readyz").await.unwrap();
        assert!(
            ready.to_lowercase().contains("read-only") || ready.contains("os error 30"),
            "/readyz does not state the reason: {ready}"
        );
        world.set(Switch::ReadOnly, 0);
        let deadline = Instant::now() + PATIENCE;
        while send(refused, server.address.clone()).await.0 != 201 {
            assert!(Instant::now() < deadline, "the server did not recover: {}", world.launcher.log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        acknowledged.push(refused);
    }
    server.kill().await;
    server = world.launcher.start().await;
    let stored: Vec<String> = messages(&server.address, &alice, &id)
        .await
        .iter()
        .map(|message| message["content"].as_str().unwrap().to_owned())
        .collect();
    let expected: Vec<String> = acknowledged.iter().map(|number| format!("message {number}")).collect();
    assert_eq!(stored, expected);
    stopped(server).await;
    assert_eq!(world.check().0, 0, "{}", world.check().1);
}

/// If LMDB fails in the middle of a write, it disables itself and must be reopened.
#[tokio::test(flavor = "multi_thread")]
async fn checkpointed_messages_stay_readable_after_a_read_only_file_system() {
    let world = World::new();
    let server = world.launcher.start().await;
    let alice = token(&server.address, "alice").await;
    let id = open(&server.address, &alice, json!({"kind": "direct", "peer": "bob"})).await;
    let path = format!("/v1/conversations/{id}/messages");
    let send = async |address: &str, number: u64| {
        let body = json!({"message_id": format!("m{number}"), "content": format!("message {number}")});
        request(address, "POST", &path, &alice, Some(&body)).await.unwrap().0
    };
    for number in 1..=20 {
        assert_eq!(send(&server.address, number).await, 201);
    }
    // The last checkpoint writes everything to the tables. After the start it is only there.
    stopped(server).await;
    let server = world.launcher.start().await;
    world.set(Switch::ReadOnly, 2);
    assert_eq!(send(&server.address, 21).await, 201, "the log can still be written");
    let deadline = Instant::now() + PATIENCE;
    while world.get(Switch::ReadOnly) != 1 {
        assert!(Instant::now() < deadline, "no checkpoint was made");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let page = loop {
        let (status, page) = request(&server.address, "GET", &path, &alice, None).await.unwrap();
        if status == 200 {
            break page;
        }
        assert_eq!((status, &page["error"]["code"]), (503, &json!("store_unavailable")), "{page}");
        assert!(Instant::now() < deadline, "reads still fail: {}", world.launcher.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(page["messages"].as_array().unwrap().len(), 20);
    assert_eq!(page["messages"][19]["content"], "message 2");
    assert_eq!(send(&server.address, 22).await, 503);
    world.set(Switch::ReadOnly, 0);
    while send(&server.address, 22).await != 201 {
        assert!(Instant::now() < deadline, "the server did not recover: {}", world.launcher.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    stopped(server).await;
    assert_eq!(world.check().0, 0, "{}", world.check().1);
    let server = world.launcher.start().await;
    assert_eq!(messages(&server.address, &alice, &id).await.len(), 22);
}
