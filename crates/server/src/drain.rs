//! The life of the server, as everything in it sees it: running, then no longer ready, then finishing what was
//! accepted, then closing.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, watch};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::problem::Problem;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Running,
    /// Whoever asks is told to send work elsewhere; what comes all the same is done.
    Leaving,
    /// What was accepted is finished, new work is refused.
    Draining,
    /// All accepted work is done and announced: connections flush what they have and close.
    Closing,
}

pub(crate) struct Lifecycle {
    phase: watch::Sender<Phase>,
    /// The phase is [`Phase::Closing`] or later, for those who ask all the time.
    closing: AtomicBool,
    newcomers: mpsc::UnboundedSender<BoxFuture<'static, ()>>,
    work: TaskTracker,
    /// WebSockets, from before their handshake is answered until they are closed.
    pub sockets: TaskTracker,
    /// Clients that were told when to come back.
    sent_away: AtomicU64,
}

/// WebSockets and calls on their way to the door, which owns all connections. At most one for each connection that has its
/// place there, since each waits for what it handed over.
pub(crate) type Newcomers = mpsc::UnboundedReceiver<BoxFuture<'static, ()>>;

/// Sooner, the next server may not listen yet.
const FIRST_RETURN: Duration = Duration::from_millis(500);

/// Held while something is being written on a client's behalf.
pub(crate) struct Work(#[expect(dead_code, reason = "held for its drop")] TaskTrackerToken);

impl Lifecycle {
    pub fn new() -> (Lifecycle, Newcomers) {
        let (newcomers, arriving) = mpsc::unbounded_channel();
        let lifecycle = Lifecycle {
            phase: watch::Sender::new(Phase::Running),
            closing: AtomicBool::new(false),
            newcomers,
            work: TaskTracker::new(),
            sockets: TaskTracker::new(),
            sent_away: AtomicU64::new(0),
        };
        (lifecycle, arriving)
    }

    /// Hands to the door what outlives the connection it came in on: a WebSocket, or a call that changes something.
    /// Forgotten when the door is gone.
    pub fn attend(&self, newcomer: BoxFuture<'static, ()>) {
        let _ = self.newcomers.send(newcomer);
    }

    /// When the next client is to come back: each in the middle of the widest gap that is left, more or less, so that
    /// any number of them is spread more evenly than by chance.
    pub fn next_return(&self, latest: Duration) -> Duration {
        /// The golden section of the circle: its multiples never crowd.
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let turn = self.sent_away.fetch_add(1, Ordering::Relaxed).wrapping_mul(STEP);
        let share = (turn >> 32) as f64 / f64::from(u32::MAX);
        FIRST_RETURN + latest.saturating_sub(FIRST_RETURN).mul_f64(share)
    }

    pub fn watch(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    pub fn is_ready(&self) -> bool {
        *self.phase.borrow() == Phase::Running
    }

    pub fn is_draining(&self) -> bool {
        *self.phase.borrow() >= Phase::Draining
    }

    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// The token is taken before the phase is read, so that whoever finds it before `Draining` here is waited for.
    pub fn begin_work(&self) -> Result<Work, Problem> {
        let token = self.work.token();
        if self.is_draining() { Err(Problem::draining()) } else { Ok(Work(token)) }
    }

    pub fn enter(&self, phase: Phase) {
        self.closing.store(phase >= Phase::Closing, Ordering::Release);
        self.phase.send_replace(phase);
    }

    /// Returns when no accepted work is left. Only after [`Phase::Draining`] was entered.
    pub async fn work_done(&self) {
        self.work.close();
        self.work.wait().await;
    }

    pub async fn sockets_closed(&self) {
        self.sockets.close();
        self.sockets.wait().await;
    }
}

/// Returns when the server has come to `wanted`, or has gone.
pub(crate) async fn reached(phase: &mut watch::Receiver<Phase>, wanted: Phase) {
    let _ = phase.wait_for(|phase| *phase >= wanted).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_come_back_evenly_spread() {
        let (lifecycle, _) = Lifecycle::new();
        let latest = Duration::from_secs(10);
        let mut returns: Vec<_> = (0..1_000).map(|_| lifecycle.next_return(latest)).collect();
        returns.sort();
        assert!(returns[0] >= FIRST_RETURN && returns[999] <= latest);
        let widest = returns.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(widest < Some(Duration::from_millis(30)), "{widest:?}");
    }

    #[test]
    fn nobody_comes_back_before_the_next_server_can_listen() {
        assert_eq!(Lifecycle::new().0.next_return(Duration::ZERO), FIRST_RETURN);
    }
}
