//! A node's clock: simulated time plus an offset.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bluetick_core::Timestamp;
use bluetick_core::time::Clock;
use tokio::time::Instant;

/// Wall-clock time at which every run starts. It is fixed, because a varying start changes ids and
/// so the trace of a seed.
pub const BEGINNING: Timestamp = Timestamp::from_millis(1_800_000_000_000);

pub struct SimClock {
    began: Instant,
    off_ms: AtomicI64,
}

impl SimClock {
    pub fn new(began: Instant) -> SimClock {
        SimClock { began, off_ms: AtomicI64::new(0) }
    }

    /// Moves the wall clock. Monotonic time is not affected.
    pub fn jump(&self, by_ms: i64) {
        self.off_ms.fetch_add(by_ms, Ordering::SeqCst);
    }

    pub fn set_right(&self) {
        self.off_ms.store(0, Ordering::SeqCst);
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        let elapsed = i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX);
        BEGINNING.plus_millis(elapsed.saturating_add(self.off_ms.load(Ordering::SeqCst)))
    }

    fn monotonic(&self) -> Duration {
        self.began.elapsed()
    }
}
