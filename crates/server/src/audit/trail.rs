//! Writes audit entries to a file or to standard error.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::mem;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use thiserror::Error;
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use super::{AuditEntry, AuditSettings};

/// Appends entries to the audit trail. Several processes may append to one file: each batch is one
/// write. The file is opened for every batch, so that a process continues in the new file after
/// another process rotates it.
#[derive(Debug)]
pub struct Trail {
    destination: TrailDestination,
    /// Entries that wait for the disk. At most one per request in flight.
    queue: Mutex<TrailQueue>,
    /// The blocking task that writes the queue, while it runs.
    writes: TaskTracker,
}

/// The destination of the trail.
#[derive(Debug)]
enum TrailDestination {
    Off,
    Stderr,
    File { path: PathBuf, rotate_bytes: u64, keep_files: u32 },
}

/// Entries that are not durable yet, and the calls that wait for them.
#[derive(Debug, Default)]
struct TrailQueue {
    /// Serialized entries.
    lines: Vec<u8>,
    waiters: Vec<oneshot::Sender<Result<(), AuditWriteError>>>,
    /// A blocking task is writing the queue.
    is_being_written: bool,
}

/// The entry could not be written. The caller must not perform the act.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("the audit trail cannot be written: {0}")]
pub struct AuditWriteError(String);

impl Trail {
    pub fn new(settings: &AuditSettings, data_dir: &Path) -> Trail {
        let destination = match settings.file.as_str() {
            "off" => TrailDestination::Off,
            "stderr" => TrailDestination::Stderr,
            file => TrailDestination::File {
                path: data_dir.join(file),
                rotate_bytes: settings.rotate_bytes,
                keep_files: settings.keep_files,
            },
        };
        Trail { destination, queue: Mutex::default(), writes: TaskTracker::new() }
    }

    /// Creates a trail that discards all entries, for tests.
    pub fn off() -> Trail {
        Trail { destination: TrailDestination::Off, queue: Mutex::default(), writes: TaskTracker::new() }
    }

    /// Appends an entry and returns when it is durable. Concurrent calls share one sync. Returns an
    /// error if the entry could not be written or the runtime stops.
    pub async fn write(self: &Arc<Self>, entry: &AuditEntry) -> Result<(), AuditWriteError> {
        if matches!(self.destination, TrailDestination::Off) {
            return Ok(());
        }
        let (result_sender, written) = oneshot::channel();
        let line = line(entry);
        let is_first = {
            let mut queue = self.queue();
            queue.lines.extend_from_slice(&line);
            queue.waiters.push(result_sender);
            !mem::replace(&mut queue.is_being_written, true)
        };
        if is_first {
            let trail = Arc::clone(self);
            self.writes.spawn_blocking(move || trail.write_queue());
        }
        written.await.unwrap_or_else(|_| Err(AuditWriteError("the server is stopping".into())))
    }

    /// Waits until the queued entries are written, also those whose caller was cancelled.
    pub(crate) async fn flush(&self) {
        self.writes.close();
        self.writes.wait().await;
    }

    /// Appends an entry and blocks until it is durable. For command-line programs.
    pub fn write_now(&self, entry: &AuditEntry) -> Result<(), AuditWriteError> {
        self.append(&line(entry))
    }

    fn queue(&self) -> MutexGuard<'_, TrailQueue> {
        self.queue.lock()
    }

    /// Writes the queue in batches until it is empty. Runs on a blocking thread.
    fn write_queue(&self) {
        loop {
            let (lines, waiters) = {
                let mut queue = self.queue();
                if queue.waiters.is_empty() {
                    queue.is_being_written = false;
                    return;
                }
                (mem::take(&mut queue.lines), mem::take(&mut queue.waiters))
            };
            let written = self.append(&lines);
            if let Err(error) = &written {
                tracing::error!(%error, "audit trail write failed; the act was refused");
            }
            for result_sender in waiters {
                let _gone = result_sender.send(written.clone());
            }
        }
    }

    /// Writes a batch to the destination, and rotates the file first if needed.
    fn append(&self, lines: &[u8]) -> Result<(), AuditWriteError> {
        let failed = |error: io::Error| match &self.destination {
            TrailDestination::File { path, .. } => AuditWriteError(format!("{}: {error}", path.display())),
            _ => AuditWriteError(error.to_string()),
        };
        match &self.destination {
            TrailDestination::Off => Ok(()),
            TrailDestination::Stderr => io::stderr().write_all(lines).map_err(failed),
            TrailDestination::File { path, rotate_bytes, keep_files } => {
                rotate(path, lines.len() as u64, *rotate_bytes, *keep_files).map_err(failed)?;
                append(path, lines).map_err(failed)
            }
        }
    }
}

/// Serializes an entry as one line.
fn line(entry: &AuditEntry) -> Vec<u8> {
    let mut line = serde_json::to_vec(entry).expect("audit entries always serialize");
    line.push(b'\n');
    line
}

/// Renames the file to `.1`, `.1` to `.2`, and so on, if `more` bytes would exceed `rotate_bytes`.
/// The oldest file is overwritten.
fn rotate(path: &Path, more: u64, rotate_bytes: u64, keep_files: u32) -> io::Result<()> {
    let length = match fs::metadata(path) {
        Ok(file) => file.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if length == 0 || length + more <= rotate_bytes {
        return Ok(());
    }
    let rotated = |number: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    for number in (1..keep_files).rev() {
        match fs::rename(rotated(number), rotated(number + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::rename(path, rotated(1))
}

/// Appends in one write call, so that lines of several processes do not interleave. After a partial
/// write it adds a line break, so that the next entry starts on its own line, and returns
/// `StorageFull`.
fn append(path: &Path, lines: &[u8]) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let is_new = !path.exists();
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    let written = file.write(lines)?;
    if written < lines.len() {
        let _full = file.write_all(b"\n");
        return Err(io::ErrorKind::StorageFull.into());
    }
    file.sync_data()?;
    if is_new { File::open(directory)?.sync_all() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use bluetick_core::Timestamp;
    use serde_json::Value;

    use super::super::{Act, Outcome, Who};
    use super::*;

    fn entry(request_id: &str) -> AuditEntry {
        AuditEntry {
            at: Timestamp::from_millis(0),
            act: Act::Erase,
            outcome: Outcome::Begun,
            subject: None,
            who: Who::this_process(),
            request_id: request_id.into(),
            reason: None,
            detail: Value::Null,
        }
    }

    fn trail(directory: &Path, rotate_bytes: u64, keep_files: u32) -> Arc<Trail> {
        let settings = AuditSettings { rotate_bytes, keep_files, ..AuditSettings::default() };
        Arc::new(Trail::new(&settings, directory))
    }

    /// Returns the request ids in one file, in order.
    fn ids(file: &Path) -> Vec<String> {
        let text = fs::read_to_string(file).unwrap();
        let id = |line: &str| {
            serde_json::from_str::<Value>(line).unwrap()["request_id"].as_str().unwrap().to_owned()
        };
        text.lines().map(id).collect()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn concurrent_writes_are_all_durable_in_a_file_with_mode_0600() {
        let directory = tempfile::tempdir().unwrap();
        let trail = trail(&directory.path().join("new"), 1 << 20, 3);
        let writing = (0..200).map(|number| {
            let trail = Arc::clone(&trail);
            async move { trail.write(&entry(&number.to_string())).await.unwrap() }
        });
        futures_util::future::join_all(writing).await;
        let file = directory.path().join("new/audit.log");
        assert_eq!(ids(&file).len(), 200);
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn flush_waits_for_an_entry_whose_caller_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let trail = trail(directory.path(), 1 << 20, 2);
        assert!(futures_util::FutureExt::now_or_never(trail.write(&entry("1"))).is_none());
        trail.flush().await;
        assert_eq!(ids(&directory.path().join("audit.log")), ["1"]);
    }

    #[test]
    fn full_file_is_rotated_and_old_files_are_deleted() {
        let directory = tempfile::tempdir().unwrap();
        let line_bytes = line(&entry("0")).len() as u64;
        let trail = trail(directory.path(), 2 * line_bytes, 2);
        for number in 0..9 {
            trail.write_now(&entry(&number.to_string())).unwrap();
        }
        let in_file = |name: &str| ids(&directory.path().join(name));
        assert_eq!(in_file("audit.log"), ["8"]);
        assert_eq!(
            (in_file("audit.log.1"), in_file("audit.log.2")),
            (vec!["6".into(), "7".into()], vec!["4".into(), "5".into()])
        );
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 3);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn write_error_names_the_file_and_later_writes_recover() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("audit.log")).unwrap();
        let trail = trail(directory.path(), 1 << 20, 2);
        let error = trail.write(&entry("1")).await.unwrap_err().to_string();
        assert!(error.contains("audit.log"), "{error}");
        fs::remove_dir(directory.path().join("audit.log")).unwrap();
        trail.write(&entry("2")).await.unwrap();
    }
}
