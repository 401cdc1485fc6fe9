//! What a run costs: time, processor, bytes.

use std::time::{Duration, Instant};

/// Counters of this process at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    at: Instant,
    cpu: Duration,
    written_bytes: u64,
}

/// The difference of two.
#[derive(Clone, Copy, Debug)]
pub struct Spent {
    pub wall: Duration,
    pub cpu: Duration,
    /// Bytes this process caused to be written to the storage layer.
    pub written_bytes: u64,
}

impl Usage {
    pub fn now() -> Usage {
        Usage { at: Instant::now(), cpu: cpu_time(), written_bytes: written_bytes() }
    }

    pub fn spent(&self) -> Spent {
        let now = Usage::now();
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

/// Linux counts them in `/proc/self/io`; elsewhere they are not known.
fn written_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    line.and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// Resident memory in bytes.
pub fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split(' ').nth(1).and_then(|count| count.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// Bytes a directory takes on the disk.
pub fn disk_bytes(directory: &std::path::Path) -> u64 {
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

/// Latencies from a microsecond to a minute, with three digits.
pub struct Latencies(hdrhistogram::Histogram<u64>);

impl Latencies {
    pub fn new() -> Latencies {
        let histogram = hdrhistogram::Histogram::new_with_bounds(1, 60_000_000, 3);
        Latencies(histogram.expect("the bounds are in order"))
    }

    pub fn record(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX).max(1));
    }

    pub fn add(&mut self, other: &Latencies) {
        self.0.add(&other.0).expect("both have the same bounds");
    }

    pub fn quantile_ms(&self, quantile: f64) -> f64 {
        self.0.value_at_quantile(quantile) as f64 / 1000.0
    }

    pub fn max_ms(&self) -> f64 {
        self.0.max() as f64 / 1000.0
    }

    pub fn count(&self) -> u64 {
        self.0.len()
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
