//! Baselines for this disk: one record appended and synced, the batches of a run replayed, and the
//! same number of concurrent callers with group commit and no other work.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::BenchError;
use crate::latencies::Latencies;
use crate::measure::Usage;

pub struct BareLog {
    pub messages_per_second: f64,
    pub sync: Latencies,
}

/// The size of one batch that the store wrote.
#[derive(Clone, Copy, Debug)]
pub struct BatchSize {
    pub messages: usize,
    pub bytes: usize,
}

/// Size of the preallocated file, in bytes. Writes wrap to the start at this offset.
const FILE_BYTES: u64 = 64 << 20;
/// Size of a short message's log record, in bytes.
const SMALL_RECORD_BYTES: usize = 256;
/// Upper bound on the number of syncs that `one_fsync` measures.
const FSYNCS: usize = 2_000;
/// Upper bound on how long `one_fsync` measures.
const FSYNCS_FOR: Duration = Duration::from_secs(2);

/// A preallocated file that is overwritten in a loop, like a log that recycles its segments.
struct RecycledFile {
    path: PathBuf,
    file: File,
    offset: u64,
}

impl RecycledFile {
    fn prepare(directory: &Path) -> io::Result<RecycledFile> {
        let path = directory.join("bare.log");
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path)?;
        let zeros = vec![0; 1 << 20];
        for mebibyte in 0..FILE_BYTES >> 20 {
            file.write_all_at(&zeros, mebibyte << 20)?;
        }
        file.sync_all()?;
        Ok(RecycledFile { path, file, offset: 0 })
    }

    /// Appends `bytes`, syncs the file and returns the duration of the sync.
    fn append(&mut self, bytes: &[u8]) -> io::Result<Duration> {
        if self.offset + bytes.len() as u64 > FILE_BYTES {
            self.offset = 0;
        }
        self.file.write_all_at(bytes, self.offset)?;
        self.offset += bytes.len() as u64;
        let before = Instant::now();
        self.file.sync_data()?;
        Ok(before.elapsed())
    }

    fn remove(self) -> io::Result<()> {
        std::fs::remove_file(&self.path)
    }
}

fn noise(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31) as u8).collect()
}

/// Measures the latency of one append and its sync on an otherwise idle disk.
pub fn one_fsync(directory: &Path) -> Result<Latencies, BenchError> {
    let measured = || -> io::Result<Latencies> {
        let mut tape = RecycledFile::prepare(directory)?;
        let (record, all) = (noise(SMALL_RECORD_BYTES), Latencies::default());
        let until = Instant::now() + FSYNCS_FOR;
        for _ in 0..FSYNCS {
            let started = Instant::now();
            tape.append(&record)?;
            all.record(started.elapsed());
            if started > until {
                break;
            }
        }
        tape.remove()?;
        Ok(all)
    };
    measured().map_err(|error| BenchError::Io { path: directory.to_owned(), error })
}

/// Writes and syncs batches of the given sizes in sequence, for at most `at_most`.
pub fn replay(directory: &Path, batches: &[BatchSize], at_most: Duration) -> io::Result<BareLog> {
    let mut tape = RecycledFile::prepare(directory)?;
    let bytes = noise(batches.iter().map(|batch| batch.bytes).max().unwrap_or(0));
    let sync = Latencies::default();
    let mut messages = 0;
    let started = Instant::now();
    for batch in batches {
        if started.elapsed() > at_most {
            break;
        }
        sync.record(tape.append(&bytes[..batch.bytes])?);
        messages += batch.messages;
    }
    let messages_per_second = messages as f64 / started.elapsed().as_secs_f64();
    tape.remove()?;
    Ok(BareLog { messages_per_second, sync })
}

/// The result of a group commit run.
pub struct GroupCommit {
    pub messages_per_second: f64,
    pub messages_per_fsync: f64,
    pub cpu_seconds_per_million: f64,
    pub acks: Latencies,
}

/// A record and the reply channel of the caller that waits for its sync.
type WaitingRecord = (Vec<u8>, oneshot::Sender<()>);

/// The records that wait for the writer thread.
#[derive(Default)]
struct RecordQueue {
    state: Mutex<RecordQueueState>,
    wake: Condvar,
}

#[derive(Default)]
struct RecordQueueState {
    waiting: VecDeque<WaitingRecord>,
    closed: bool,
    asleep: bool,
}

impl RecordQueue {
    fn push(&self, waiting: WaitingRecord) {
        let mut state = self.state.lock();
        if state.closed {
            return;
        }
        state.waiting.push_back(waiting);
        if std::mem::take(&mut state.asleep) {
            self.wake.notify_one();
        }
    }

    fn close(&self) {
        self.state.lock().closed = true;
        self.wake.notify_one();
    }

    /// Closes the queue after a write error. Drops all reply channels, so current and later callers
    /// get an error.
    fn abandon(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.waiting.clear();
    }

    /// Blocks until records wait or the queue is closed, then moves all records into `taken`. An
    /// empty result means that the queue is closed.
    fn take(&self, taken: &mut VecDeque<WaitingRecord>) {
        let mut state = self.state.lock();
        while state.waiting.is_empty() && !state.closed {
            state.asleep = true;
            self.wake.wait(&mut state);
        }
        std::mem::swap(&mut state.waiting, taken);
    }
}

/// The writer thread: takes all waiting records, writes and syncs them as one batch, and replies.
/// Returns the number of syncs.
fn write(mut tape: RecycledFile, queue: &RecordQueue) -> io::Result<u64> {
    let (mut taken, mut batch, mut syncs) = (VecDeque::new(), Vec::new(), 0);
    loop {
        queue.take(&mut taken);
        if taken.is_empty() {
            tape.remove()?;
            return Ok(syncs);
        }
        batch.clear();
        for (record, _) in &taken {
            batch.extend_from_slice(record);
        }
        tape.append(&batch)?;
        syncs += 1;
        for (_, reply) in taken.drain(..) {
            // The send fails only if the caller no longer waits.
            let _gone = reply.send(());
        }
    }
}

/// Runs `callers` concurrent callers. Each caller submits a record of `record_bytes` and waits
/// until it is synced.
pub async fn group_commit(
    directory: &Path,
    callers: usize,
    record_bytes: usize,
    messages: u64,
    at_most: Duration,
) -> Result<GroupCommit, BenchError> {
    let in_directory = |error| BenchError::Io { path: directory.to_owned(), error };
    let tape = RecycledFile::prepare(directory).map_err(in_directory)?;
    let queue = Arc::new(RecordQueue::default());
    let writer = std::thread::spawn({
        let queue = Arc::clone(&queue);
        move || write(tape, &queue).inspect_err(|_| queue.abandon())
    });
    let record: Arc<[u8]> = noise(record_bytes).into();
    let left = Arc::new(AtomicU64::new(messages));
    let acks = Arc::new(Latencies::default());
    let usage = Usage::now(directory);
    let until = Instant::now() + at_most;
    let mut calling = JoinSet::new();
    for _ in 0..callers {
        let (queue, record) = (Arc::clone(&queue), Arc::clone(&record));
        let (left, acks) = (Arc::clone(&left), Arc::clone(&acks));
        calling.spawn(async move {
            let mut started = Instant::now();
            while started < until
                && left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
            {
                let (reply, answer) = oneshot::channel();
                queue.push((record.to_vec(), reply));
                if answer.await.is_err() {
                    return;
                }
                let answered = Instant::now();
                acks.record(answered - started);
                started = answered;
            }
        });
    }
    while let Some(called) = calling.join_next().await {
        called.map_err(|panic| BenchError::Client(panic.to_string()))?;
    }
    let spent = usage.spent();
    queue.close();
    let syncs = writer.join().expect("the writer does not panic").map_err(in_directory)?;
    let count = acks.count().max(1) as f64;
    let acks = Arc::into_inner(acks).expect("all callers are gone");
    Ok(GroupCommit {
        messages_per_second: count / spent.wall.as_secs_f64(),
        messages_per_fsync: count / syncs.max(1) as f64,
        cpu_seconds_per_million: spent.cpu.as_secs_f64() * 1e6 / count,
        acks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bare_log_answers_every_caller_and_shares_syncs() {
        let directory = tempfile::tempdir().unwrap();
        let found = group_commit(directory.path(), 50, 100, 5_000, Duration::from_secs(60)).await.unwrap();
        assert_eq!(found.acks.count(), 5_000);
        assert!(found.messages_per_fsync >= 1.0);
        assert!(directory.path().read_dir().unwrap().next().is_none(), "it is removed");
    }
}
