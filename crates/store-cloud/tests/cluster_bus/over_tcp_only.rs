//! Shutdown, peers and limits, which only the adapter over TCP has.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bluetick_store_cloud::cluster::bus::{Bus, BusError, CallRefusal};
use bluetick_store_cloud::cluster::transport::BusSettings;
use bytes::Bytes;
use futures_util::future::join_all;

use crate::cluster_common::proxy::Proxy;
use crate::cluster_common::{Event, TcpNode, eventually, member, node, patient};
use crate::{body, text};

#[tokio::test]
async fn shutdown_over_tcp_finishes_running_calls_and_writes_queued_notifications() {
    let (here, there) = (TcpNode::start("here", patient()).await, TcpNode::start("there", patient()).await);
    here.knows(&[&there]);
    let id = node("there");
    let call = here.bus.call(&id, text("wait"));
    let shutdown = async {
        there.recorder.next().await;
        let release = async {
            // The node refuses new calls while it finishes the running one.
            eventually("the node drains", async || {
                let refused = here.bus.call(&id, text("late")).await;
                (refused == Err(BusError::Refused(CallRefusal::Draining))).then_some(())
            })
            .await;
            there.recorder.permits.add_permits(1);
        };
        tokio::join!(there.bus.shutdown(), release);
    };
    let (answer, ()) = tokio::join!(call, shutdown);
    assert_eq!(answer, Ok(text("wait")));

    let third = TcpNode::start("third", patient()).await;
    let proxy = Proxy::to(third.bus.local_address()).await;
    here.bus.set_peers(&BTreeMap::from([(node("third"), member(proxy.address, third.identity.boot))]));
    here.bus.notify(&node("third"), body(0)).unwrap();
    assert_eq!(third.recorder.next().await, Event::Notified(node("here"), body(0)));
    // More than the buffers of the system take.
    proxy.set_stalled(true);
    let large = Bytes::from(vec![0; 64 * 1024]);
    for _ in 0..200 {
        here.bus.notify(&node("third"), large.clone()).unwrap();
    }
    let resume = async {
        tokio::task::yield_now().await;
        proxy.set_stalled(false);
    };
    tokio::join!(here.bus.shutdown(), resume);
    for _ in 0..200 {
        assert_eq!(third.recorder.next().await, Event::Notified(node("here"), large.clone()));
    }
    assert_eq!(here.bus.call(&node("third"), body(1)).await, Err(BusError::NotSent));
    third.bus.shutdown().await;
}

#[tokio::test]
async fn node_that_returns_to_the_cluster_learns_that_it_missed_notifications() {
    let (here, there) = (TcpNode::start("here", patient()).await, TcpNode::start("there", patient()).await);
    assert_eq!(here.bus.notify(&node("there"), body(1)), Err(BusError::UnknownNode));
    here.knows(&[&there]);
    assert_eq!(there.recorder.next().await, Event::Lost(node("here")));
    here.knows(&[]);
    assert_eq!(there.recorder.next().await, Event::Lost(node("here")), "the connection ends");
    here.knows(&[&there]);
    assert_eq!(there.recorder.next().await, Event::Lost(node("here")), "of the time in between");
    here.bus.shutdown().await;
    there.bus.shutdown().await;
}

#[tokio::test]
async fn bodies_above_the_limit_are_refused_in_both_directions() {
    let small = BusSettings { max_body_bytes: 1_000, ..patient() };
    let (here, there) = (TcpNode::start("here", small.clone()).await, TcpNode::start("there", small).await);
    here.knows(&[&there]);
    let id = node("there");
    assert_eq!(here.bus.call(&id, Bytes::from(vec![0; 1_001])).await, Err(BusError::TooLarge));
    assert_eq!(here.bus.call(&id, Bytes::from(vec![0; 1_000])).await, Ok(Bytes::from(vec![0; 1_000])));
    assert_eq!(here.bus.call(&id, text("large")).await, Err(BusError::NoAnswer), "the call was executed");
    assert_eq!(here.bus.notify(&id, Bytes::from(vec![0; 1_001])), Err(BusError::TooLarge));
    there.recorder.until_lost(&node("here")).await;
    here.bus.shutdown().await;
    there.bus.shutdown().await;
}

#[tokio::test]
async fn calls_above_the_limits_are_refused_and_not_executed() {
    let waiting = BusSettings { max_waiting_calls: 8, ..patient() };
    let executing = BusSettings { max_executing_bytes: 5 * 1_024 + 512, ..patient() };
    let (here, there) = (TcpNode::start("here", waiting).await, TcpNode::start("there", executing).await);
    here.knows(&[&there]);
    let id = node("there");
    let refused = AtomicUsize::new(0);
    let calls = (0..20).map(async |_| {
        let answer = here.bus.call(&id, text("wait")).await;
        // The others wait until all refusals have come.
        if answer == Err(BusError::Overloaded) && refused.fetch_add(1, Ordering::SeqCst) == 14 {
            there.recorder.permits.add_permits(5);
        }
        answer
    });
    let mut counts = HashMap::new();
    for answer in join_all(calls).await {
        *counts.entry(answer.is_ok()).or_insert(0) += 1;
    }
    // 12 exceed the limit of the caller, and 3 the one of the other node.
    assert_eq!(counts, HashMap::from([(true, 5), (false, 15)]));
    assert_eq!(there.recorder.executed(), 5);
    here.bus.shutdown().await;
    there.bus.shutdown().await;
}

#[tokio::test]
async fn quiet_connection_carries_pings_and_stays() {
    let settings = BusSettings { keepalive_interval: Duration::from_millis(20), ..patient() };
    let (here, there) = (TcpNode::start("here", settings).await, TcpNode::start("there", patient()).await);
    let proxy = Proxy::to(there.bus.local_address()).await;
    here.bus.set_peers(&BTreeMap::from([(node("there"), member(proxy.address, there.identity.boot))]));
    here.bus.notify(&node("there"), body(1)).unwrap();
    assert_eq!(there.recorder.next().await, Event::Notified(node("here"), body(1)));
    let before = proxy.recorded().len();
    eventually("three pings", async || (proxy.recorded().len() >= before + 3 * 29).then_some(())).await;
    assert_eq!(there.recorder.drain().await, []);
    assert_eq!(there.bus.counts().accepted, 1);
    here.bus.shutdown().await;
    there.bus.shutdown().await;
}
