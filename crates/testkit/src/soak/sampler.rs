//! Samples the server once a second from outside: process statistics of Linux, the server's
//! metrics, and disk usage.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

use crate::http::get_text;

/// Ack latencies of the current second, shared by all senders.
#[derive(Debug, Default)]
pub struct Acks {
    of_this_second: Mutex<Vec<Duration>>,
}

impl Acks {
    pub fn record(&self, took: Duration) {
        self.of_this_second.lock().push(took);
    }

    fn take(&self) -> Vec<Duration> {
        let mut taken = std::mem::take(&mut *self.of_this_second.lock());
        taken.sort_unstable();
        taken
    }
}

/// One sample.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    pub second: f64,
    /// Anonymous memory of the process. Mapped pages of the tables' file are not included; the
    /// kernel reclaims them on demand.
    pub own_bytes: f64,
    pub file_bytes: f64,
    pub handles: f64,
    /// Threads of the runtime: workers and blocking threads. A burst makes the runtime start more
    /// of the latter.
    pub pool_threads: f64,
    /// All other threads.
    pub own_threads: f64,
    pub connections: f64,
    pub outbox_bytes: f64,
    pub stored: f64,
    pub pushes: f64,
    pub checkpoints: f64,
    pub archived: f64,
    pub archive_runs: f64,
    pub frame_reads: f64,
    pub data_bytes: f64,
    pub archive_bytes: f64,
    pub acks: f64,
    pub ack_p50_ms: f64,
    pub ack_p99_ms: f64,
}

/// Samples one server process.
pub struct Gauge {
    pub process: u32,
    pub address: String,
    pub data_dir: PathBuf,
    pub archive_dir: PathBuf,
    pub acks: Arc<Acks>,
}

/// Name of the server's runtime threads. It must match the server's, or a sample counts them as
/// other threads.
const POOL: &str = "bluetick-worker";
/// Number of samples between two scans of the files. A scan is slow, and the files change slowly.
const FILES_EVERY: u64 = 10;
/// Interval between two samples. Graphs and trends count one sample per second.
const STEP: Duration = Duration::from_secs(1);

impl Gauge {
    /// Samples once a second until `end`.
    pub async fn watch(&self, end: Instant) -> Vec<Sample> {
        let start = Instant::now();
        let (mut samples, mut step, mut files): (Vec<Sample>, u64, (f64, f64)) = (Vec::new(), 0, (0.0, 0.0));
        while Instant::now() < end {
            step += 1;
            sleep_until(start + STEP * u32::try_from(step).expect("fewer seconds than 136 years")).await;
            if step % FILES_EVERY == 1 {
                files = self.files().await;
            }
            let second = start.elapsed().as_secs_f64();
            // If the server is too busy to answer, skip this sample.
            if let Some(mut sample) = self.now().await {
                (sample.second, sample.data_bytes, sample.archive_bytes) = (second, files.0, files.1);
                samples.push(sample);
            }
        }
        samples
    }

    /// Returns the number of open file descriptors.
    pub fn handles(&self) -> usize {
        count(&self.process_file("fd"))
    }

    /// Returns the number of runtime threads and of all others.
    fn threads(&self) -> (usize, usize) {
        let tasks = std::fs::read_dir(self.process_file("task")).into_iter().flatten().flatten();
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        let (pool, own): (Vec<String>, Vec<String>) = names.partition(|name| name.trim_end() == POOL);
        (pool.len(), own.len())
    }

    fn process_file(&self, name: &str) -> PathBuf {
        Path::new("/proc").join(self.process.to_string()).join(name)
    }

    async fn now(&self) -> Option<Sample> {
        let metrics = tokio::time::timeout(Duration::from_secs(10), get_text(&self.address, "/metrics"));
        let metrics = metrics.await.ok()?.ok()?;
        let counted = |name: &str| {
            let value =
                metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
            value.unwrap_or_else(|| panic!("the server does not count {name}"))
        };
        let status = std::fs::read_to_string(self.process_file("status")).ok()?;
        let kept = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            line.split_whitespace().next().and_then(|number| number.parse::<f64>().ok()).unwrap_or(0.0)
                * 1024.0
        };
        let (pool_threads, own_threads) = self.threads();
        let acks = self.acks.take();
        let quantile = |share: f64| {
            let at = ((acks.len() as f64 * share) as usize).min(acks.len().saturating_sub(1));
            acks.get(at).map_or(0.0, |took| took.as_secs_f64() * 1e3)
        };
        Some(Sample {
            second: 0.0,
            own_bytes: kept("RssAnon:"),
            file_bytes: kept("RssFile:"),
            handles: self.handles() as f64,
            pool_threads: pool_threads as f64,
            own_threads: own_threads as f64,
            connections: counted("bluetick_connections"),
            outbox_bytes: counted("bluetick_outbox_bytes"),
            stored: counted("bluetick_sends_total{result=\"stored\"}"),
            pushes: counted("bluetick_pushes_total"),
            checkpoints: counted("bluetick_checkpoint_seconds_count"),
            archived: counted("bluetick_archive_moved_messages_total"),
            archive_runs: counted("bluetick_archive_runs_total"),
            frame_reads: counted("bluetick_archive_frame_reads_total"),
            data_bytes: 0.0,
            archive_bytes: 0.0,
            acks: acks.len() as f64,
            ack_p50_ms: quantile(0.5),
            ack_p99_ms: quantile(0.99),
        })
    }

    async fn files(&self) -> (f64, f64) {
        let (data, archive) = (self.data_dir.clone(), self.archive_dir.clone());
        let looking =
            tokio::task::spawn_blocking(move || (disk_bytes(&data) as f64, disk_bytes(&archive) as f64));
        looking.await.unwrap_or_default()
    }
}

fn count(directory: &Path) -> usize {
    std::fs::read_dir(directory).map_or(0, Iterator::count)
}

/// Returns the disk usage of a directory in bytes.
fn disk_bytes(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    let bytes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => disk_bytes(&entry.path()),
        Ok(metadata) => metadata.blocks() * 512,
        Err(_) => 0,
    });
    bytes.sum()
}
