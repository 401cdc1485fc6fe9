//! The limits and timeouts of the bus over TCP. No timeout is a safety bound.

use std::time::Duration;

use super::tls::ClusterTlsSettings;
use crate::cluster::queue::QueueLimits;

#[derive(Clone)]
pub struct BusSettings {
    /// Upper bound on the body of a frame, in bytes. Must be the same at all nodes: a node ends a
    /// connection that carries a larger frame.
    pub max_body_bytes: usize,
    /// Bounds of the queue to each peer, and of the queue of answers to each peer.
    pub queue: QueueLimits,
    /// Upper bound on the calls to one peer that wait for an answer.
    pub max_waiting_calls: usize,
    /// Upper bound on the bytes of all calls that this node executes at once, for all peers. Each
    /// call counts with its body and 1 KiB.
    pub max_executing_bytes: usize,
    /// Upper bound on accepted connections that have not authenticated. One more ends the oldest.
    pub max_unauthenticated: usize,
    /// Upper bound on the nodes that are connected to this one.
    pub max_inbound_nodes: usize,
    /// Bounds a call from queueing to its answer.
    pub call_timeout: Duration,
    /// Bounds connecting and the handshake, at both sides.
    pub connect_timeout: Duration,
    /// Interval of pings. Shorter than half of `idle_timeout`.
    pub keepalive_interval: Duration,
    /// A connection ends if the other node sends nothing, or reads nothing, for this long.
    pub idle_timeout: Duration,
    /// First and longest pause after a connection failed. Calls fail at once during a pause.
    pub reconnect_backoff: (Duration, Duration),
    /// Bounds each phase of a graceful shutdown.
    pub drain_timeout: Duration,
    pub tls: Option<ClusterTlsSettings>,
}

impl Default for BusSettings {
    fn default() -> BusSettings {
        BusSettings {
            max_body_bytes: 2 * 1024 * 1024,
            queue: QueueLimits::default(),
            max_waiting_calls: 8_192,
            max_executing_bytes: 64 * 1024 * 1024,
            max_unauthenticated: 64,
            max_inbound_nodes: 1_024,
            call_timeout: Duration::from_secs(2),
            connect_timeout: Duration::from_secs(2),
            keepalive_interval: Duration::from_secs(2),
            idle_timeout: Duration::from_secs(10),
            reconnect_backoff: (Duration::from_millis(50), Duration::from_secs(5)),
            drain_timeout: Duration::from_secs(5),
            tls: None,
        }
    }
}
