//! Timestamps, and the clock that creates them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Milliseconds since the Unix epoch. A sender's clock may produce negative values (before 1970).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    pub const fn from_millis(millis: i64) -> Timestamp {
        Timestamp(millis)
    }

    pub const fn millis(self) -> i64 {
        self.0
    }

    pub const fn plus_millis(self, millis: i64) -> Timestamp {
        Timestamp(self.0.saturating_add(millis))
    }
}

/// A source of time. A trait, so that a whole server can run on a simulated clock.
pub trait Clock: Send + Sync + 'static {
    /// Returns the wall-clock time. It can jump forward and backward.
    fn now(&self) -> Timestamp;

    /// Returns the monotonic time since a fixed point in this process. It never decreases, and
    /// setting the wall clock does not affect it.
    fn monotonic(&self) -> Duration;
}

/// The operating system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since_epoch =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
    }

    fn monotonic(&self) -> Duration {
        static FIRST_ASKED: OnceLock<Instant> = OnceLock::new();
        FIRST_ASKED.get_or_init(Instant::now).elapsed()
    }
}

/// A clock for tests and simulation. Its time changes only when a caller sets or advances it. Its
/// wall clock can go backward.
#[derive(Debug, Default)]
pub struct ManualClock {
    now: AtomicI64,
    passed: AtomicU64,
}

impl ManualClock {
    pub fn at(now: Timestamp) -> ManualClock {
        ManualClock { now: AtomicI64::new(now.millis()), passed: AtomicU64::new(0) }
    }

    /// Sets the wall clock. The monotonic clock does not change.
    pub fn set(&self, now: Timestamp) {
        self.now.store(now.millis(), Ordering::SeqCst);
    }

    /// Advances both clocks. A negative number sets back the wall clock only.
    pub fn advance_millis(&self, millis: i64) {
        self.now.fetch_add(millis, Ordering::SeqCst);
        self.passed.fetch_add(u64::try_from(millis).unwrap_or(0), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.now.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.passed.load(Ordering::SeqCst))
    }
}
