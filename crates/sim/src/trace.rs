//! The trace of a run, line by line. The same seed produces the same lines, byte for byte.

use std::fmt::Write;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

pub struct Trace {
    began: Instant,
    lines: Mutex<Vec<String>>,
}

impl Trace {
    /// Starts the trace. Requires a runtime with a simulated clock.
    pub fn begin() -> Trace {
        Trace { began: Instant::now(), lines: Mutex::default() }
    }

    fn lines(&self) -> MutexGuard<'_, Vec<String>> {
        self.lines.lock()
    }

    pub fn note(&self, who: &str, what: impl std::fmt::Display) {
        let since = self.began.elapsed();
        let mut line = String::new();
        // Writing to a `String` is infallible.
        let _ = write!(line, "{:>4}.{:03} {who:<9} {what}", since.as_secs(), since.subsec_millis());
        self.lines().push(line);
    }

    pub fn elapsed(&self) -> std::time::Duration {
        self.began.elapsed()
    }

    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines())
    }
}
