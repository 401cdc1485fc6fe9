//! A latency histogram.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;

/// A histogram of latencies with buckets 3 % wide, from one microsecond up. Threads may record
/// concurrently.
pub struct Latencies {
    buckets: Box<[AtomicU64]>,
    max_us: AtomicU64,
}

/// Number of buckets per power of two. It must be a power of two.
const STEPS: u64 = 32;

impl Default for Latencies {
    fn default() -> Latencies {
        let buckets = (0..STEPS * 40).map(|_| AtomicU64::new(0)).collect();
        Latencies { buckets, max_us: AtomicU64::new(0) }
    }
}

impl Latencies {
    pub fn record(&self, latency: Duration) {
        let us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        let last = self.buckets.len() as u64 - 1;
        let bucket = bucket_of(us).min(last) as usize;
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        if us > self.max_us.load(Ordering::Relaxed) {
            self.max_us.fetch_max(us, Ordering::Relaxed);
        }
    }

    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }

    pub fn quantile_ms(&self, quantile: f64) -> f64 {
        let rank = (self.count() as f64 * quantile).ceil() as u64;
        let mut below = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            below += count.load(Ordering::Relaxed);
            if below >= rank {
                return (upper_edge_us(bucket as u64) as f64 / 1000.0).min(self.max_ms());
            }
        }
        self.max_ms()
    }

    pub fn max_ms(&self) -> f64 {
        self.max_us.load(Ordering::Relaxed) as f64 / 1000.0
    }

    pub fn quantiles(&self) -> Quantiles {
        Quantiles {
            count: self.count(),
            p50_ms: self.quantile_ms(0.5),
            p99_ms: self.quantile_ms(0.99),
            p99_9_ms: self.quantile_ms(0.999),
            max_ms: self.max_ms(),
        }
    }
}

/// The quantiles that a report shows.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Quantiles {
    pub count: u64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub p99_9_ms: f64,
    pub max_ms: f64,
}

/// Returns the bucket of a latency. Below [`STEPS`] microseconds each microsecond has its own
/// bucket; above, each doubling has [`STEPS`] buckets.
fn bucket_of(us: u64) -> u64 {
    if us < STEPS {
        return us;
    }
    let doublings = u64::from(us.ilog2() - STEPS.ilog2());
    STEPS * doublings + (us >> doublings)
}

fn upper_edge_us(bucket: u64) -> u64 {
    if bucket < 2 * STEPS {
        return bucket;
    }
    let doublings = bucket / STEPS - 1;
    ((bucket - STEPS * doublings + 1) << doublings) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_exact_within_a_bucket() {
        let latencies = Latencies::default();
        for ms in 1..=1000 {
            latencies.record(Duration::from_millis(ms));
        }
        for (quantile, expected) in [(0.5, 500.0), (0.99, 990.0), (0.001, 1.0)] {
            let found = latencies.quantile_ms(quantile);
            assert!((found - expected).abs() <= expected * 0.04, "{quantile}: {found}");
        }
        assert_eq!((latencies.max_ms(), latencies.count()), (1000.0, 1000));
    }

    #[test]
    fn every_latency_is_inside_its_bucket() {
        for us in (0..100_000).chain([1 << 30, (1 << 36) + 12345]) {
            let bucket = bucket_of(us);
            assert!(upper_edge_us(bucket) >= us && (bucket == 0 || upper_edge_us(bucket - 1) < us), "{us}");
        }
    }
}
