//! The life of the server, as everything in it sees it: running, then finishing what was accepted, then closing.

use tokio::sync::watch;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::problem::Problem;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Running,
    /// What was accepted is finished, new work is refused.
    Draining,
    /// All accepted work is done and announced: connections flush what they have and close.
    Closing,
    /// Time is up: whatever is still there is cut off.
    Ended,
}

pub(crate) struct Lifecycle {
    phase: watch::Sender<Phase>,
    work: TaskTracker,
    /// WebSockets, from before their handshake is answered until they are closed.
    pub sockets: TaskTracker,
}

/// Held while something is being written on a client's behalf.
pub(crate) struct Work(#[expect(dead_code, reason = "held for its drop")] TaskTrackerToken);

impl Lifecycle {
    pub fn new() -> Lifecycle {
        Lifecycle {
            phase: watch::Sender::new(Phase::Running),
            work: TaskTracker::new(),
            sockets: TaskTracker::new(),
        }
    }

    pub fn watch(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    pub fn is_draining(&self) -> bool {
        *self.phase.borrow() != Phase::Running
    }

    /// The token is taken before the phase is read, so that whoever sees `Running` here is waited for.
    pub fn begin_work(&self) -> Result<Work, Problem> {
        let token = self.work.token();
        if self.is_draining() { Err(Problem::draining()) } else { Ok(Work(token)) }
    }

    pub fn enter(&self, phase: Phase) {
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
