//! What a run costs: time, processor, bytes.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Counters at one moment.
#[derive(Clone, Debug)]
pub struct Usage {
    directory: PathBuf,
    at: Instant,
    cpu: Duration,
    written_bytes: u64,
}

/// The difference of two.
#[derive(Clone, Copy, Debug)]
pub struct Spent {
    pub wall: Duration,
    pub cpu: Duration,
    /// Bytes the device wrote meanwhile, whoever asked for it.
    pub written_bytes: u64,
}

impl Usage {
    /// `directory` says which device is watched.
    pub fn now(directory: &Path) -> Usage {
        let written_bytes = device_bytes(directory);
        Usage { directory: directory.to_owned(), at: Instant::now(), cpu: cpu_time(), written_bytes }
    }

    pub fn spent(&self) -> Spent {
        let now = Usage::now(&self.directory);
        Spent {
            wall: now.at - self.at,
            cpu: now.cpu.saturating_sub(self.cpu),
            written_bytes: now.written_bytes.saturating_sub(self.written_bytes),
        }
    }
}

fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Bytes the device of `path` has written since it was attached, for the whole machine. (What Linux counts for a single
/// process, `/proc/self/io`, counts a page that is touched as written in full, with its neighbours.)
fn device_bytes(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(metadata) = path.metadata() else { return 0 };
    let (major, minor) = (rustix::fs::major(metadata.dev()), rustix::fs::minor(metadata.dev()));
    let text = std::fs::read_to_string("/proc/diskstats").unwrap_or_default();
    let sectors = text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let this = fields.first()?.parse() == Ok(major) && fields.get(1)?.parse() == Ok(minor);
        this.then(|| fields.get(9)?.parse::<u64>().ok()).flatten()
    });
    sectors.unwrap_or(0) * 512
}

/// Resident memory in bytes.
pub fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split(' ').nth(1).and_then(|count| count.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// Bytes a directory takes on the disk.
pub fn disk_bytes(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => disk_bytes(&entry.path()),
            Ok(metadata) => metadata.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}

/// Counts of latencies in buckets 3 % wide, from a microsecond up. Many threads may record at once.
pub struct Latencies {
    buckets: Box<[AtomicU64]>,
    max_us: AtomicU64,
}

/// Buckets to each power of two.
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

    /// "p50 0.8  p99 1.3  p99.9 2.0  max 9.1 ms"
    pub fn summary(&self) -> String {
        format!(
            "p50 {:.2}  p99 {:.2}  p99.9 {:.2}  max {:.1} ms",
            self.quantile_ms(0.5),
            self.quantile_ms(0.99),
            self.quantile_ms(0.999),
            self.max_ms()
        )
    }
}

/// Below [`STEPS`] microseconds a bucket each; above, [`STEPS`] buckets to each doubling.
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
    fn quantiles_are_right_within_a_bucket() {
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
    fn every_latency_lies_in_its_bucket() {
        for us in (0..100_000).chain([1 << 30, (1 << 36) + 12345]) {
            let bucket = bucket_of(us);
            assert!(upper_edge_us(bucket) >= us && (bucket == 0 || upper_edge_us(bucket - 1) < us), "{us}");
        }
    }
}
