//! Measures the resource use of a run: time, CPU, memory and disk writes.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A snapshot of the resource counters.
#[derive(Clone, Debug)]
pub struct Usage {
    directory: PathBuf,
    at: Instant,
    cpu: Duration,
    written_bytes: u64,
}

/// The difference between two snapshots.
#[derive(Clone, Copy, Debug)]
pub struct UsedResources {
    pub wall: Duration,
    pub cpu: Duration,
    /// Bytes that the device wrote in the meantime, for all processes.
    pub written_bytes: u64,
}

impl Usage {
    /// Takes a snapshot. Disk writes are those of the device that holds `directory`.
    pub fn now(directory: &Path) -> Usage {
        let written_bytes = device_bytes(directory);
        Usage { directory: directory.to_owned(), at: Instant::now(), cpu: cpu_time(), written_bytes }
    }

    pub fn spent(&self) -> UsedResources {
        let now = Usage::now(&self.directory);
        UsedResources {
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

/// Returns the bytes that the device of `path` has written since it was attached, for the whole
/// machine. `/proc/self/io` is not usable here: it counts a touched page, and its neighbouring
/// pages, as written in full.
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

/// Returns the resident memory of this process in bytes.
pub fn resident_bytes() -> u64 {
    status_bytes("self", "VmRSS:")
}

/// Returns the peak resident memory of this process in bytes.
pub fn peak_bytes() -> u64 {
    status_bytes("self", "VmHWM:")
}

/// Returns a size field of `/proc/PROCESS/status` in bytes, or 0 if it is unavailable.
pub fn status_bytes(process: &str, field: &str) -> u64 {
    let status = std::fs::read_to_string(Path::new("/proc").join(process).join("status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Returns the kernel memory of TCP socket buffers in bytes, for the whole machine.
pub fn kernel_tcp_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/net/sockstat").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("TCP:"));
    let pages = line.and_then(|line| line.split_once("mem ")?.1.trim().parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

/// Returns the kernel memory of slab objects (sockets, files and others) in bytes, for the whole
/// machine.
pub fn kernel_slab_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Slab:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Returns the disk space that a directory uses, in bytes.
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
