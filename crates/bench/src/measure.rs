//! What a run costs: time, processor, bytes.

use std::path::{Path, PathBuf};
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

/// Resident memory of this process in bytes.
pub fn resident_bytes() -> u64 {
    status_bytes("self", "VmRSS:")
}

/// The most it ever was.
pub fn peak_bytes() -> u64 {
    status_bytes("self", "VmHWM:")
}

/// A line of what Linux tells about a process.
pub fn status_bytes(process: &str, field: &str) -> u64 {
    let status = std::fs::read_to_string(Path::new("/proc").join(process).join("status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Memory of the kernel for TCP sockets' buffers, of the whole machine.
pub fn kernel_tcp_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/net/sockstat").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("TCP:"));
    let pages = line.and_then(|line| line.split_once("mem ")?.1.trim().parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

/// Memory of the kernel for its own objects (sockets, files and whatever else), of the whole machine.
pub fn kernel_slab_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Slab:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
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
