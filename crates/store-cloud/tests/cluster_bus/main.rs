//! The contract of the bus between nodes, over TCP and in memory: order, delivery, failure, limits.
#![expect(clippy::unwrap_used, reason = "a test stops where its own set-up fails")]

mod cases;
#[path = "../cluster_common/mod.rs"]
mod cluster_common;
mod over_tcp_only;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bluetick_store_cloud::NodeId;
use bluetick_store_cloud::cluster::QueueLimits;
use bluetick_store_cloud::cluster::bus::Bus;
use bluetick_store_cloud::cluster::memory::{MemoryBus, MemoryNetwork};
use bluetick_store_cloud::cluster::transport::BusSettings;
use bytes::Bytes;
use cluster_common::proxy::Proxy;
use cluster_common::{Recorder, TcpNode, member, node, patient};

const LIMITS: QueueLimits = QueueLimits { frames: 4_000, bytes: 1024 * 1024 };

/// Two nodes, `here` and `there`, and the connection from the first to the second.
trait World {
    async fn with(call_timeout: Duration) -> Self;
    fn here(&self) -> &dyn Bus;
    fn recorder(&self) -> &Recorder;
    fn cut(&self);
    fn set_blocked(&self, is_blocked: bool);
    /// Delivers nothing for a while, or slowly, without ending the connection.
    fn set_stalled(&self, is_stalled: bool);
    async fn kill_there(&mut self);
    async fn shutdown(self);
}

struct Tcp {
    here: TcpNode,
    there: Option<TcpNode>,
    recorder: Arc<Recorder>,
    proxy: Proxy,
}

impl World for Tcp {
    async fn with(call_timeout: Duration) -> Tcp {
        let settings = BusSettings { queue: LIMITS, call_timeout, ..patient() };
        let here = TcpNode::start("here", settings.clone()).await;
        let there = TcpNode::start("there", settings).await;
        let proxy = Proxy::to(there.bus.local_address()).await;
        let through_proxy = member(proxy.address, there.identity.boot);
        here.bus.set_peers(&BTreeMap::from([(node("there"), through_proxy)]));
        Tcp { here, recorder: Arc::clone(&there.recorder), there: Some(there), proxy }
    }

    fn here(&self) -> &dyn Bus {
        &*self.here.bus
    }

    fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    fn cut(&self) {
        self.proxy.cut();
    }

    fn set_blocked(&self, is_blocked: bool) {
        self.proxy.set_blocked(is_blocked);
    }

    fn set_stalled(&self, is_stalled: bool) {
        self.proxy.set_stalled(is_stalled);
    }

    async fn kill_there(&mut self) {
        drop(self.there.take());
    }

    async fn shutdown(self) {
        self.recorder.permits.add_permits(1_000);
        self.here.bus.shutdown().await;
        if let Some(there) = self.there {
            there.bus.shutdown().await;
        }
    }
}

struct Memory {
    network: MemoryNetwork,
    here: MemoryBus,
    recorder: Arc<Recorder>,
    nodes: [NodeId; 2],
}

impl World for Memory {
    async fn with(call_timeout: Duration) -> Memory {
        let network = MemoryNetwork::new(LIMITS, call_timeout);
        let nodes = [node("here"), node("there")];
        let recorder = Arc::new(Recorder::default());
        let here = network.join(nodes[0].clone(), Arc::new(Recorder::default()));
        network.join(nodes[1].clone(), Arc::clone(&recorder) as _);
        Memory { network, here, recorder, nodes }
    }

    fn here(&self) -> &dyn Bus {
        &self.here
    }

    fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    fn cut(&self) {
        self.network.disconnect(&self.nodes[0], &self.nodes[1]);
    }

    fn set_blocked(&self, is_blocked: bool) {
        self.network.set_blocked(&self.nodes[0], &self.nodes[1], is_blocked);
    }

    fn set_stalled(&self, is_stalled: bool) {
        let delay = if is_stalled { Duration::from_millis(200) } else { Duration::ZERO };
        self.network.set_delay(&self.nodes[0], &self.nodes[1], delay);
    }

    async fn kill_there(&mut self) {
        self.network.kill(&self.nodes[1]);
    }

    async fn shutdown(self) {
        self.network.shutdown().await;
    }
}

macro_rules! suite {
    ($($case:ident),* $(,)?) => {
        mod in_memory {
            $(#[tokio::test] async fn $case() { crate::cases::$case::<crate::Memory>().await; })*
        }
        mod over_tcp {
            $(#[tokio::test] async fn $case() { crate::cases::$case::<crate::Tcp>().await; })*
        }
    };
}

suite! {
    call_returns_the_answer_or_the_refusal_of_the_handler,
    concurrent_calls_get_their_own_answers_in_any_order,
    notifications_arrive_in_order,
    call_to_an_unknown_node_is_refused,
    cut_during_a_call_is_no_answer_and_the_receiver_learns_of_the_loss,
    notifications_around_cuts_arrive_in_order_and_each_gap_is_reported,
    blocked_node_gets_nothing_and_learns_of_the_loss_when_it_is_reachable,
    full_queue_refuses_and_the_receiver_learns_of_the_loss,
    killed_node_gives_no_answer_and_then_receives_nothing,
    call_that_takes_too_long_is_no_answer,
    dropped_caller_does_not_disturb_later_calls,
    shutdown_ends_with_calls_and_notifications_on_the_way,
}

fn body(number: usize) -> Bytes {
    Bytes::from(format!("{number}"))
}

fn text(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}
