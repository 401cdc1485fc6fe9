//! The lifecycle of the server: running, leaving, draining, closing. Tracks accepted work and open
//! WebSockets, so that the shutdown can wait for them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, watch};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::problem::Problem;

/// A phase of the graceful shutdown, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DrainPhase {
    Running,
    /// Readiness is false, so that load balancers stop routing here. The server still accepts work.
    Leaving,
    /// The server finishes accepted work and refuses new work.
    Draining,
    /// Accepted work is done and published, or the drain timeout has passed. Connections flush
    /// their outboxes and close.
    Closing,
}

/// The current phase and the trackers that the shutdown waits for.
pub(crate) struct Lifecycle {
    phase: watch::Sender<DrainPhase>,
    /// Copy of `phase >= DrainPhase::Closing`, for hot loops: an atomic read is cheaper than the
    /// watch channel.
    closing: AtomicBool,
    /// Tasks handed to the listener.
    listener_tasks: mpsc::UnboundedSender<BoxFuture<'static, ()>>,
    /// Accepted work that is not finished.
    work: TaskTracker,
    /// Open WebSockets, from before the handshake response until they are closed.
    pub sockets: TaskTracker,
    /// Number of clients that got a reconnect delay.
    reconnect_delays_given: AtomicU64,
}

/// Tasks on their way to the listener, which owns all connections. Each task holds the permit of
/// its connection, which bounds their number.
pub(crate) type ListenerTasks = mpsc::UnboundedReceiver<BoxFuture<'static, ()>>;

/// Minimum reconnect delay. With a shorter one, clients can reconnect before the next server
/// listens.
const MIN_RECONNECT_DELAY: Duration = Duration::from_millis(500);

/// Marks accepted work as unfinished until it is dropped.
pub(crate) struct WorkGuard(#[expect(dead_code, reason = "held for its drop")] TaskTrackerToken);

impl Lifecycle {
    pub fn new() -> (Lifecycle, ListenerTasks) {
        let (listener_tasks, receiver) = mpsc::unbounded_channel();
        let lifecycle = Lifecycle {
            phase: watch::Sender::new(DrainPhase::Running),
            closing: AtomicBool::new(false),
            listener_tasks,
            work: TaskTracker::new(),
            sockets: TaskTracker::new(),
            reconnect_delays_given: AtomicU64::new(0),
        };
        (lifecycle, receiver)
    }

    /// Hands a task to the listener that outlives its connection: a WebSocket, or a call that
    /// writes. Drops the task if the listener has ended.
    pub fn spawn_on_listener(&self, task: BoxFuture<'static, ()>) {
        let _ = self.listener_tasks.send(task);
    }

    /// Returns the reconnect delay for the next client, between `MIN_RECONNECT_DELAY` and `latest`.
    /// Successive delays form a low-discrepancy sequence, which spreads clients more evenly than
    /// random delays.
    pub fn next_reconnect_delay(&self, latest: Duration) -> Duration {
        /// 2⁶⁴ divided by the golden ratio. Its multiples modulo 2⁶⁴ are evenly spread. With
        /// another step, reconnects can cluster.
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let fraction_bits = self.reconnect_delays_given.fetch_add(1, Ordering::Relaxed).wrapping_mul(STEP);
        let share = (fraction_bits >> 32) as f64 / f64::from(u32::MAX);
        MIN_RECONNECT_DELAY + latest.saturating_sub(MIN_RECONNECT_DELAY).mul_f64(share)
    }

    pub fn watch(&self) -> watch::Receiver<DrainPhase> {
        self.phase.subscribe()
    }

    pub fn is_ready(&self) -> bool {
        *self.phase.borrow() == DrainPhase::Running
    }

    pub fn is_draining(&self) -> bool {
        *self.phase.borrow() >= DrainPhase::Draining
    }

    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Registers accepted work. Returns `draining` from [`DrainPhase::Draining`] on. Takes the
    /// token before it reads the phase, so that the shutdown waits for all work that was admitted.
    pub fn begin_work(&self) -> Result<WorkGuard, Problem> {
        let token = self.work.token();
        if self.is_draining() { Err(Problem::draining()) } else { Ok(WorkGuard(token)) }
    }

    /// Enters a phase and notifies all watchers.
    pub fn enter(&self, phase: DrainPhase) {
        self.closing.store(phase >= DrainPhase::Closing, Ordering::Release);
        self.phase.send_replace(phase);
    }

    /// Waits until no accepted work is left. Call it only after [`DrainPhase::Draining`] was
    /// entered.
    pub async fn work_done(&self) {
        self.work.close();
        self.work.wait().await;
    }

    /// Waits until all WebSockets are closed.
    pub async fn sockets_closed(&self) {
        self.sockets.close();
        self.sockets.wait().await;
    }
}

/// Waits until the server has reached `wanted` or was dropped.
pub(crate) async fn phase_reached(phase: &mut watch::Receiver<DrainPhase>, wanted: DrainPhase) {
    let _ = phase.wait_for(|phase| *phase >= wanted).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reconnect_delays_are_spread_evenly() {
        let (lifecycle, _) = Lifecycle::new();
        let latest = Duration::from_secs(10);
        let mut returns: Vec<_> = (0..1_000).map(|_| lifecycle.next_reconnect_delay(latest)).collect();
        returns.sort();
        assert!(returns[0] >= MIN_RECONNECT_DELAY && returns[999] <= latest);
        let widest = returns.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(widest < Some(Duration::from_millis(30)), "{widest:?}");
    }

    #[test]
    fn reconnect_delay_is_never_below_the_minimum() {
        assert_eq!(Lifecycle::new().0.next_reconnect_delay(Duration::ZERO), MIN_RECONNECT_DELAY);
    }
}
