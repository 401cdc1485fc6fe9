//! Being told to stop, or to look at one's files again.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// The two ways an operator or a supervisor says "stop".
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

/// SIGHUP, for a server that has something to read again. To any other it is what it is to most programs: the terminal
/// is gone, and so is the program.
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
    signal(kind).map_err(|error| Failure::failed(format!("cannot hear signals: {error}")))
}
