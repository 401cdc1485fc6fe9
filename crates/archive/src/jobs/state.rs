//! The in-memory state of an archiver: counters, the last run, and which damage is logged.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

use bluetick_core::Timestamp;
use bluetick_core::ports::{ArchiveCounters, ArchiveError, ColdCount};
use parking_lot::{Mutex, MutexGuard};

use crate::{ObjectArchive, SegmentName};

/// Upper bound on the remembered segments whose damage is logged. It bounds memory. When it is
/// reached, the set is cleared and damage is logged again.
const MAX_LOGGED_SEGMENTS: usize = 10_000;

/// The last run of the archiver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastRun {
    pub at: Option<Timestamp>,
    /// Why the run ended early; `None` if it completed.
    pub paused: Option<String>,
}

/// The state of an archiver that jobs and readers share.
#[derive(Debug, Default)]
pub struct ArchiverState {
    moved_messages: AtomicU64,
    moved_segments: AtomicU64,
    runs: AtomicU64,
    failed_runs: AtomicU64,
    last_run: Mutex<LastRun>,
    logged: Mutex<HashSet<SegmentName>>,
}

impl ArchiverState {
    /// Creates the state with the last run that the store recorded.
    pub fn after(last_run: LastRun) -> ArchiverState {
        ArchiverState { last_run: Mutex::new(last_run), ..ArchiverState::default() }
    }

    fn last_run(&self) -> MutexGuard<'_, LastRun> {
        self.last_run.lock()
    }

    pub fn set_last_run(&self, last_run: LastRun) {
        *self.last_run() = last_run;
    }

    pub fn count_run(&self) {
        self.runs.fetch_add(1, Ordering::Relaxed);
    }

    pub fn count_failed_run(&self) {
        self.failed_runs.fetch_add(1, Ordering::Relaxed);
    }

    pub fn count_moved(&self, count: &ColdCount) {
        self.moved_messages.fetch_add(count.messages, Ordering::Relaxed);
        self.moved_segments.fetch_add(count.segments, Ordering::Relaxed);
    }

    /// Returns the counters for metrics.
    pub fn counters(&self, archive: Option<&ObjectArchive>) -> ArchiveCounters {
        let objects = archive.map(ObjectArchive::counters).unwrap_or_default();
        let LastRun { at, paused } = self.last_run().clone();
        ArchiveCounters {
            moved_messages: self.moved_messages.load(Ordering::Relaxed),
            moved_segments: self.moved_segments.load(Ordering::Relaxed),
            frame_reads: objects.block_reads,
            frame_reads_from_memory: objects.from_memory,
            fetches: objects.fetches,
            fetched_bytes: objects.fetched_bytes,
            failed_fetches: objects.failed_fetches,
            damaged_frames: objects.damaged,
            runs: self.runs.load(Ordering::Relaxed),
            failed_runs: self.failed_runs.load(Ordering::Relaxed),
            last_run_at: at,
            paused,
        }
    }

    /// Counts the outcome of a run. Returns what to record as its end: `None` records nothing,
    /// because the run did nothing or another node runs the job.
    pub fn count_outcome<T>(&self, outcome: &Result<T, ArchiveError>) -> Option<Option<String>> {
        match outcome {
            Ok(_) | Err(ArchiveError::Stopped) => Some(None),
            Err(ArchiveError::Off | ArchiveError::Busy) => None,
            Err(error) => {
                self.count_failed_run();
                Some(Some(error.to_string()))
            }
        }
    }

    /// Logs damage once for each segment, so that repeated reads of its messages do not flood the
    /// log.
    pub fn log_damage(&self, name: &SegmentName, error: &dyn std::fmt::Display) {
        let mut logged = self.logged.lock();
        if logged.len() >= MAX_LOGGED_SEGMENTS {
            logged.clear();
        }
        if logged.insert(*name) {
            tracing::error!(segment = %name, %error, "messages cannot be read from the archive");
        }
    }
}

/// Adds one count to another.
pub fn add(sum: &mut ColdCount, count: &ColdCount) {
    sum.segments += count.segments;
    sum.messages += count.messages;
    sum.bytes += count.bytes;
    sum.raw_bytes += count.raw_bytes;
}
