//! Chooses the thread for a read of the tables.
//!
//! The tables are memory-mapped. A read whose pages are in memory takes microseconds, less than a
//! handover to another thread. So reads run on the calling thread until one has to wait for the
//! disk. For a while after that they run on blocking threads, so that the runtime's threads do not
//! wait.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bluetick_core::StoreError;

use crate::store::blocking;

/// The duration above which a read counts as slow: it waited for the disk or for the scheduler. If
/// it is too long, slow reads block runtime threads; if it is too short, fast reads pay for a
/// thread switch.
const SLOW_READ: Duration = Duration::from_micros(300);
/// Lower bound on how long reads use blocking threads after one that waited for the disk. A lower
/// value tests a slow disk more often on a runtime thread. The time doubles each time the next
/// attempt waits again, and halves after each fast one.
const MIN_BLOCKING_PERIOD: Duration = Duration::from_millis(50);
/// Upper bound on the same time. A higher value returns to the fast path later.
const MAX_BLOCKING_PERIOD: Duration = Duration::from_secs(10);

pub struct Readers {
    /// Always read on the calling thread, because there are no other threads.
    on_the_spot: bool,
    opened: Instant,
    /// Reads use blocking threads until this time, in nanoseconds since `opened`.
    threads_until: AtomicU64,
    /// How long the next switch to blocking threads lasts, in nanoseconds.
    pause: AtomicU64,
    /// The process's count of major page faults when it was last read.
    waited_for: AtomicU64,
}

impl Readers {
    pub fn new() -> Readers {
        Readers {
            on_the_spot: false,
            opened: Instant::now(),
            threads_until: AtomicU64::new(0),
            pause: AtomicU64::new(nanos(MIN_BLOCKING_PERIOD)),
            waited_for: AtomicU64::new(pages_waited_for().unwrap_or(0)),
        }
    }

    /// Runs every read on the calling thread, however long it takes.
    pub fn on_the_spot() -> Readers {
        Readers { on_the_spot: true, ..Readers::new() }
    }

    /// Runs a read of any size on a blocking thread, unless this is [`Readers::on_the_spot`].
    pub async fn read_much<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        if self.on_the_spot { work() } else { blocking(work).await }
    }

    /// Runs a read of a few rows, on the calling thread if the disk was fast lately. Turns a panic
    /// in `work` into an error.
    pub async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        if self.on_the_spot {
            return work();
        }
        if nanos(self.opened.elapsed()) < self.threads_until.load(Ordering::Relaxed) {
            return blocking(work).await;
        }
        let started = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(work));
        let took = started.elapsed();
        self.learn(took, pages_waited_for);
        // The panic hook has logged the panic's message and location.
        result.unwrap_or_else(|_| Err(StoreError::Failed("reading the tables failed".into())))
    }

    fn learn(&self, took: Duration, pages_waited_for: impl FnOnce() -> Option<u64>) {
        let pause = self.pause.load(Ordering::Relaxed);
        if took < SLOW_READ {
            if pause > nanos(MIN_BLOCKING_PERIOD) {
                self.pause.store((pause / 2).max(nanos(MIN_BLOCKING_PERIOD)), Ordering::Relaxed);
            }
            return;
        }
        let is_the_disk =
            pages_waited_for().is_none_or(|pages| self.waited_for.swap(pages, Ordering::Relaxed) != pages);
        if is_the_disk {
            self.threads_until.store(nanos(self.opened.elapsed()) + pause, Ordering::Relaxed);
            self.pause.store((pause * 2).min(nanos(MAX_BLOCKING_PERIOD)), Ordering::Relaxed);
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the major page faults of the process since its start. `None` if the system does not
/// report them.
fn pages_waited_for() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The process name may contain anything, so skip to the last parenthesis. Major faults are the
    // tenth field after it.
    stat.rsplit_once(')')?.1.split_whitespace().nth(9)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goes_to_threads(readers: &Readers) -> bool {
        nanos(readers.opened.elapsed()) < readers.threads_until.load(Ordering::Relaxed)
    }

    #[test]
    fn slow_disk_read_moves_reads_to_threads_and_preempted_read_does_not() {
        let readers = Readers::new();
        readers.waited_for.store(7, Ordering::Relaxed);
        readers.learn(SLOW_READ * 10, || Some(7));
        assert!(!goes_to_threads(&readers));
        readers.learn(SLOW_READ * 10, || Some(8));
        assert!(goes_to_threads(&readers));
    }

    #[test]
    fn blocking_period_grows_while_disk_is_slow_and_shrinks_when_fast() {
        let readers = Readers::new();
        for page in 0..20 {
            readers.learn(SLOW_READ, || Some(1_000_000 + page));
        }
        assert_eq!(readers.pause.load(Ordering::Relaxed), nanos(MAX_BLOCKING_PERIOD));
        for _ in 0..20 {
            readers.learn(Duration::ZERO, || panic!("it was quick"));
        }
        assert_eq!(readers.pause.load(Ordering::Relaxed), nanos(MIN_BLOCKING_PERIOD));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn system_reports_major_page_faults() {
        assert!(pages_waited_for().is_some());
    }

    #[tokio::test]
    async fn panic_in_a_read_fails_only_that_read() {
        let readers = Readers::new();
        let failed = readers.read(|| -> Result<(), StoreError> { panic!("on purpose") }).await;
        assert!(matches!(failed, Err(StoreError::Failed(_))));
        assert_eq!(readers.read(|| Ok(5)).await.ok(), Some(5));
    }
}
