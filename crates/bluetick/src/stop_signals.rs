//! The signals that stop the server or make it reload its certificate.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// SIGTERM and SIGINT.
pub struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    pub fn listen() -> Result<StopSignals, Failure> {
        Ok(StopSignals {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// SIGHUP, for a server with files to reload. If it is not wanted, SIGHUP keeps its default action
/// and ends the process.
pub struct ReloadSignal(Option<Signal>);

impl ReloadSignal {
    pub fn listen(is_wanted: bool) -> Result<ReloadSignal, Failure> {
        is_wanted.then(|| listen(SignalKind::hangup())).transpose().map(ReloadSignal)
    }

    pub async fn next(&mut self) {
        match &mut self.0 {
            Some(signal) => {
                signal.recv().await;
            }
            None => std::future::pending().await,
        }
    }
}

fn listen(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::failed(format!("cannot listen for signals: {error}")))
}
