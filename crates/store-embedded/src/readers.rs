//! Where the tables are read. They are mapped into memory, and a read that finds its pages there takes microseconds: less
//! than handing it to another thread and hearing of it again. So it is done where it is asked for, until one has to wait
//! for the disk; for a while from then on reads go to threads that may wait, and the runtime's own do not.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bluetick_core::StoreError;

use crate::store::blocking;

/// A read that takes longer has waited for something: for the disk, or for its turn on the processor.
const SLOW: Duration = Duration::from_micros(300);
/// How long reads go to threads after one that waited for the disk: doubled each time the next try waits again, halved
/// when it does not.
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(10);

pub struct Readers {
    /// There are no other threads to read on.
    on_the_spot: bool,
    opened: Instant,
    /// Nanoseconds from `opened` on: until then reads go to threads.
    threads_until: AtomicU64,
    /// In nanoseconds, as long as the next time will be.
    pause: AtomicU64,
    /// Pages that this process had to wait for, when that was last looked up.
    waited_for: AtomicU64,
}

impl Readers {
    pub fn new() -> Readers {
        Readers {
            on_the_spot: false,
            opened: Instant::now(),
            threads_until: AtomicU64::new(0),
            pause: AtomicU64::new(nanos(SHORTEST)),
            waited_for: AtomicU64::new(pages_waited_for().unwrap_or(0)),
        }
    }

    /// Everything is read where it is asked for, however long it takes.
    pub fn on_the_spot() -> Readers {
        Readers { on_the_spot: true, ..Readers::new() }
    }

    /// Reads as much as it takes, where it holds nobody up.
    pub async fn read_much<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        if self.on_the_spot { work() } else { blocking(work).await }
    }

    /// Reads a few rows.
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
        // The panic's text went to the log with its place, by the panic hook.
        result.unwrap_or_else(|_| Err(StoreError::Failed("reading the tables failed".into())))
    }

    fn learn(&self, took: Duration, pages_waited_for: impl FnOnce() -> Option<u64>) {
        let pause = self.pause.load(Ordering::Relaxed);
        if took < SLOW {
            if pause > nanos(SHORTEST) {
                self.pause.store((pause / 2).max(nanos(SHORTEST)), Ordering::Relaxed);
            }
            return;
        }
        let is_the_disk =
            pages_waited_for().is_none_or(|pages| self.waited_for.swap(pages, Ordering::Relaxed) != pages);
        if is_the_disk {
            self.threads_until.store(nanos(self.opened.elapsed()) + pause, Ordering::Relaxed);
            self.pause.store((pause * 2).min(nanos(LONGEST)), Ordering::Relaxed);
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Of the whole process, since its start; `None` where the system does not tell.
fn pages_waited_for() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name before it may hold anything but the last parenthesis; major faults are the tenth field behind it.
    stat.rsplit_once(')')?.1.split_whitespace().nth(9)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goes_to_threads(readers: &Readers) -> bool {
        nanos(readers.opened.elapsed()) < readers.threads_until.load(Ordering::Relaxed)
    }

    #[test]
    fn a_read_that_waited_for_the_disk_sends_the_next_ones_to_threads_and_one_that_lost_its_turn_does_not() {
        let readers = Readers::new();
        readers.waited_for.store(7, Ordering::Relaxed);
        readers.learn(SLOW * 10, || Some(7));
        assert!(!goes_to_threads(&readers));
        readers.learn(SLOW * 10, || Some(8));
        assert!(goes_to_threads(&readers));
    }

    #[test]
    fn a_disk_that_stays_slow_is_tried_less_and_less_often_and_a_quick_one_is_forgiven() {
        let readers = Readers::new();
        for page in 0..20 {
            readers.learn(SLOW, || Some(1_000_000 + page));
        }
        assert_eq!(readers.pause.load(Ordering::Relaxed), nanos(LONGEST));
        for _ in 0..20 {
            readers.learn(Duration::ZERO, || panic!("it was quick"));
        }
        assert_eq!(readers.pause.load(Ordering::Relaxed), nanos(SHORTEST));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_system_tells_how_many_pages_were_waited_for() {
        assert!(pages_waited_for().is_some());
    }

    #[tokio::test]
    async fn a_panic_while_reading_is_an_error_of_that_read_alone() {
        let readers = Readers::new();
        let failed = readers.read(|| -> Result<(), StoreError> { panic!("on purpose") }).await;
        assert!(matches!(failed, Err(StoreError::Failed(_))));
        assert_eq!(readers.read(|| Ok(5)).await.ok(), Some(5));
    }
}
