//! Counts the acks and messages that a load of devices receives during a run.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Counters since the start.
#[derive(Debug, Default)]
pub struct Meter {
    acknowledged: AtomicU64,
    delivered: AtomicU64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    pub acknowledged: u64,
    pub delivered: u64,
}

impl Meter {
    pub fn acknowledged(&self) {
        self.acknowledged.fetch_add(1, Ordering::Relaxed);
    }

    pub fn delivered(&self) {
        self.delivered.fetch_add(1, Ordering::Relaxed);
    }

    pub fn read(&self) -> Reading {
        Reading {
            acknowledged: self.acknowledged.load(Ordering::Relaxed),
            delivered: self.delivered.load(Ordering::Relaxed),
        }
    }

    /// Returns the counts of each interval of length `step`, until `is_over` returns true.
    pub async fn watch(&self, step: Duration, mut is_over: impl FnMut() -> bool) -> Vec<Reading> {
        let (mut steps, mut before) = (Vec::new(), self.read());
        let mut next = Instant::now() + step;
        while !is_over() {
            sleep_until(next).await;
            next += step;
            let now = self.read();
            steps.push(now.since(before));
            before = now;
        }
        steps
    }
}

impl Reading {
    pub fn since(self, before: Reading) -> Reading {
        Reading {
            acknowledged: self.acknowledged - before.acknowledged,
            delivered: self.delivered - before.delivered,
        }
    }

    /// Average number of acks per second over `time`.
    pub fn acknowledged_per_second(self, time: Duration) -> f64 {
        self.acknowledged as f64 / time.as_secs_f64()
    }
}
