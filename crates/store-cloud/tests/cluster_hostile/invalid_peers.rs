//! Peers that have the key and break the protocol, stop reading, die, or share an id.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use bluetick_store_cloud::cluster::QueueLimits;
use bluetick_store_cloud::cluster::bus::{Bus, BusError};
use bluetick_store_cloud::cluster::transport::BusSettings;
use bytes::Bytes;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::cluster_common::proxy::Proxy;
use crate::cluster_common::raw::{CALL, NOTIFY, PING, RawClient, is_ended};
use crate::cluster_common::{Event, KEY, PATIENCE, TcpNode, eventually, member, node, patient};
use crate::{still_serves, text};

#[tokio::test]
async fn invalid_frames_end_an_authenticated_connection() {
    let victim = TcpNode::start("victim", patient()).await;
    let attacker = node("attacker");
    for attack in ["repeated", "oversized", "undersized", "truncated", "flipped", "unknown kind", "answer"] {
        let address = victim.bus.local_address();
        let mut client = RawClient::connect(address, "attacker", victim.id(), &KEY).await;
        client.send(NOTIFY, 0, b"valid").await.unwrap();
        assert_eq!(victim.recorder.next().await, Event::Notified(attacker.clone(), text("valid")));
        let frame = match attack {
            "repeated" => {
                let frame = client.seal(NOTIFY, 0, b"once");
                [&frame[..], &frame].concat()
            }
            "oversized" => u32::MAX.to_be_bytes().to_vec(),
            "undersized" => [&24u32.to_be_bytes()[..], &[0; 24]].concat(),
            "truncated" => {
                let frame = client.seal(CALL, 1, b"never complete");
                frame[..frame.len() - 1].to_vec()
            }
            "flipped" => {
                let mut frame = client.seal(NOTIFY, 0, b"changed");
                frame[20] ^= 1;
                frame
            }
            "unknown kind" => client.seal(99, 1, b""),
            // Only the accepting side answers.
            _ => client.seal(5, 1, b"forged answer"),
        };
        client.stream.write_all(&frame).await.unwrap();
        if attack == "repeated" {
            assert_eq!(victim.recorder.next().await, Event::Notified(attacker.clone(), text("once")));
        }
        if attack == "truncated" {
            client.stream.shutdown().await.unwrap();
        }
        assert!(is_ended(&mut client.stream).await, "{attack}");
        assert_eq!(victim.recorder.next().await, Event::Lost(attacker.clone()), "{attack}");
    }
    assert_eq!(victim.recorder.executed(), 0);
    still_serves(&victim, patient()).await;
}

#[tokio::test]
async fn peer_that_does_not_read_answers_is_disconnected_and_its_answers_stay_bounded() {
    // Each answer has 64 KiB. The queue holds 16 of them.
    let queue = QueueLimits { frames: 1_000, bytes: 1024 * 1024 };
    let victim = TcpNode::start("victim", BusSettings { queue, ..patient() }).await;
    const CALLS: u64 = 20_000;
    let mut client = RawClient::connect(victim.bus.local_address(), "slow", victim.id(), &KEY).await;
    let mut sent = 0;
    while sent < CALLS && client.send(CALL, sent, b"large").await.is_ok() {
        sent += 1;
    }
    victim.recorder.until_lost(&node("slow")).await;
    // The buffers of the system take some megabytes.
    let executed = victim.recorder.executed();
    assert!(executed < 2_000, "{executed} answers of 64 KiB were kept or written");

    // Tiny answers are bounded by their count.
    let mut client = RawClient::connect(victim.bus.local_address(), "slow", victim.id(), &KEY).await;
    let pings: Vec<u8> = (0..1_000).flat_map(|_| client.seal(PING, 0, b"")).collect();
    let mut written = 0;
    let write = async {
        if client.stream.write_all(&pings).await.is_err() {
            return;
        }
        loop {
            let pings: Vec<u8> = (0..1_000).flat_map(|_| client.seal(PING, 0, b"")).collect();
            if client.stream.write_all(&pings).await.is_err() {
                return;
            }
            written += pings.len();
            assert!(written < 1024 * 1024 * 1024, "the victim reads without end");
        }
    };
    tokio::time::timeout(PATIENCE, write).await.expect("the victim ends the connection");
    victim.recorder.until_lost(&node("slow")).await;
    still_serves(&victim, patient()).await;
}

#[tokio::test]
async fn peer_that_stops_reading_overflows_the_queue_and_is_disconnected() {
    let queue = QueueLimits { frames: 100, bytes: 1024 * 1024 };
    let quick = BusSettings {
        queue,
        idle_timeout: Duration::from_secs(1),
        keepalive_interval: Duration::from_millis(100),
        ..patient()
    };
    let sender = TcpNode::start("sender", quick.clone()).await;
    let slow = TcpNode::start("slow", patient()).await;
    let proxy = Proxy::to(slow.bus.local_address()).await;
    let through_proxy = member(proxy.address, slow.identity.boot);
    sender.bus.set_peers(&BTreeMap::from([(node("slow"), through_proxy)]));
    eventually("connected", async || sender.bus.call(slow.id(), text("echo")).await.ok()).await;
    proxy.set_stalled(true);
    let large = Bytes::from(vec![0; 64 * 1024]);
    let mut queued = 0;
    let error = loop {
        match sender.bus.notify(slow.id(), large.clone()) {
            Ok(()) => queued += 1,
            Err(error) => break error,
        }
        tokio::task::yield_now().await;
        assert!(queued < 5_000, "the queue and the buffers of the system are bounded");
    };
    // On a slow machine the connection may end before the queue is full.
    assert!(matches!(error, BusError::Overloaded | BusError::NotSent), "{error}");
    let answer = eventually("the connection ends", async || {
        let answer = sender.bus.call(slow.id(), text("echo")).await;
        (answer != Err(BusError::Overloaded)).then_some(answer)
    });
    assert!(matches!(answer.await, Err(BusError::NotSent | BusError::NoAnswer)));
    proxy.set_stalled(false);
    slow.recorder.until_lost(sender.id()).await;
    eventually("connected again", async || sender.bus.call(slow.id(), text("echo")).await.ok()).await;
}

#[tokio::test]
async fn node_killed_in_the_middle_of_a_call_gives_no_answer() {
    let caller = TcpNode::start("caller", patient()).await;
    let mut child = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "invalid_peers::process_of_a_node", "--nocapture"])
        .env(IS_CHILD, "1")
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next_word = async |prefix: &str| loop {
        let line = lines.next_line().await.unwrap().expect("the child runs");
        if let Some(word) = line.strip_prefix(prefix) {
            return word.to_owned();
        }
    };
    let address = next_word("listening at ").await;
    caller.bus.set_peers(&BTreeMap::from([(node("child"), member(address, caller.identity.boot))]));
    let id = node("child");
    let kill = async {
        next_word("executing").await;
        child.kill().await.unwrap();
    };
    let (answer, ()) = tokio::join!(caller.bus.call(&id, text("wait")), kill);
    assert_eq!(answer, Err(BusError::NoAnswer));
    eventually("calls are not sent", async || {
        (caller.bus.call(&id, text("echo")).await == Err(BusError::NotSent)).then_some(())
    })
    .await;
}

/// Set in the child process of `node_killed_in_the_middle_of_a_call_gives_no_answer`.
const IS_CHILD: &str = "BLUETICK_TEST_IS_CHILD";

/// Tests nothing by itself: another test starts it in a process of its own.
#[tokio::test]
async fn process_of_a_node() {
    if std::env::var_os(IS_CHILD).is_none() {
        return;
    }
    let child = TcpNode::start("child", patient()).await;
    println!("\nlistening at {}", child.bus.local_address());
    child.recorder.until(|event| matches!(event, Event::Executing(_))).await;
    println!("\nexecuting");
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn of_two_nodes_with_one_id_the_newest_connection_is_served() {
    let victim = TcpNode::start("victim", patient()).await;
    let (first, second) = (TcpNode::start("twin", patient()).await, TcpNode::start("twin", patient()).await);
    let twin = node("twin");
    for node in [&first, &second] {
        node.knows(&[&victim]);
    }
    first.bus.notify(victim.id(), text("first")).unwrap();
    assert_eq!(victim.recorder.next().await, Event::Notified(twin.clone(), text("first")));
    second.bus.notify(victim.id(), text("second")).unwrap();
    assert_eq!(victim.recorder.next().await, Event::Lost(twin.clone()), "the first one is disconnected");
    assert_eq!(victim.recorder.next().await, Event::Notified(twin.clone(), text("second")));
    // The first one is not shut out for good, and each change is reported before anything is
    // delivered.
    eventually("the first twin connects again", async || {
        first.bus.call(victim.id(), text("echo")).await.ok()
    })
    .await;
    victim.recorder.until_lost(&twin).await;
    still_serves(&victim, patient()).await;
}
