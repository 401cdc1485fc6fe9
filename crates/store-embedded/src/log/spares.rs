//! Segment files for later use: recycled ones, and new ones created in advance.
//!
//! The committer takes spares, so taking one must be fast. Creating and deleting files is slow, so
//! the provisioner thread does both. A recycled file still contains its old data. Between
//! [`Spares::renew`] and [`Spares::reuse_again`] all spares are new, and returned segments are
//! deleted. While a caller copies the log ([`Spares::hold`]), returned segments stay in place.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::BatchNumber;
use crate::disk::Disk;

pub struct Spares {
    directory: PathBuf,
    disk: Disk,
    segment_bytes: u64,
    state: Mutex<SparesState>,
    changed: Condvar,
    /// The newest durable batch, as reported by the writer. A copy of the segments must contain it.
    durable: AtomicU64,
}

#[derive(Default)]
struct SparesState {
    ready: Vec<PathBuf>,
    next_name: u64,
    closed: bool,
    /// Whether only new files may be handed out.
    only_new_files: bool,
    /// The file that the provisioner is creating. It is new, so `renew` must not delete it.
    creating: Option<PathBuf>,
    /// Why the last attempt to create a spare failed.
    create_failure: Option<String>,
    /// The files that the provisioner must delete, and whether it is deleting files now.
    to_delete: BTreeSet<PathBuf>,
    deleting: bool,
    /// Why a file could not be deleted.
    delete_failure: Option<String>,
    /// The number of callers that copy the log, and the segments kept only for them. `true` deletes
    /// the segment on release, `false` makes it a spare.
    copies: usize,
    retained: BTreeMap<PathBuf, bool>,
}

/// A guard: while it exists, no segment of the log is deleted or recycled.
pub struct SegmentHold(Arc<Spares>);

impl Drop for SegmentHold {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// Number of spares that the provisioner keeps ready. With 0 the committer would have to create
/// segments itself.
const KEEP_READY: usize = 1;
/// Upper bound on the number of spares. Further returned segments are deleted, to free disk space.
const KEEP_AT_MOST: usize = 16;

impl Spares {
    /// Adopts the spares that an earlier run left. Deletes unfinished files and spares of another
    /// size.
    pub fn open(directory: &Path, disk: Disk, segment_bytes: u64) -> io::Result<Spares> {
        let mut state = SparesState::default();
        for entry in std::fs::read_dir(directory)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.ends_with(".tmp") {
                std::fs::remove_file(&path)?;
                continue;
            }
            let Some(number) = name.strip_prefix("spare-") else { continue };
            match number.parse::<u64>() {
                Ok(number) if path.metadata()?.len() == segment_bytes => {
                    state.next_name = state.next_name.max(number + 1);
                    state.ready.push(path);
                }
                _ => std::fs::remove_file(&path)?,
            }
        }
        Ok(Spares {
            directory: directory.to_owned(),
            disk,
            segment_bytes,
            state: Mutex::new(state),
            changed: Condvar::new(),
            durable: AtomicU64::new(0),
        })
    }

    fn state(&self) -> MutexGuard<'_, SparesState> {
        self.state.lock()
    }

    /// Moves a spare to `target`. Creates the file there if no spare is ready, which is slow.
    pub fn take(&self, target: &Path) -> io::Result<()> {
        let ready = self.state().ready.pop();
        self.changed.notify_one();
        match ready {
            Some(spare) => std::fs::rename(spare, target),
            None => self.make(target),
        }
    }

    pub(super) fn note_durable(&self, batch: BatchNumber) {
        self.durable.store(batch.0, Ordering::Release);
    }

    /// Returns the newest batch that the writer reported as durable.
    pub fn durable(&self) -> BatchNumber {
        BatchNumber(self.durable.load(Ordering::Acquire))
    }

    /// Keeps every existing segment in place until the guard is dropped.
    pub fn hold(self: &Arc<Self>) -> SegmentHold {
        self.state().copies += 1;
        SegmentHold(Arc::clone(self))
    }

    fn release(&self) {
        let mut state = self.state();
        state.copies -= 1;
        if state.copies > 0 {
            return;
        }
        let retained = std::mem::take(&mut state.retained);
        for (segment, is_doomed) in retained {
            if is_doomed {
                state.to_delete.insert(segment);
            } else if let Err(error) = self.keep(&mut state, &segment) {
                tracing::warn!(%error, "recycling a log segment failed");
            }
        }
        self.changed.notify_one();
    }

    /// Accepts a segment that the log no longer needs, and keeps it as a spare. Deletes it instead
    /// during a scrub. Defers both while a caller holds the segments.
    pub fn give_back(&self, segment: &Path) -> io::Result<()> {
        let mut state = self.state();
        if state.copies > 0 {
            let is_doomed = state.only_new_files;
            state.retained.insert(segment.to_owned(), is_doomed);
            return Ok(());
        }
        if state.only_new_files {
            state.to_delete.insert(segment.to_owned());
            self.changed.notify_one();
            return Ok(());
        }
        self.keep(&mut state, segment)
    }

    fn keep(&self, state: &mut SparesState, segment: &Path) -> io::Result<()> {
        if state.ready.len() >= KEEP_AT_MOST {
            return std::fs::remove_file(segment);
        }
        let spare = self.directory.join(format!("spare-{}", state.next_name));
        state.next_name += 1;
        std::fs::rename(segment, &spare)?;
        state.ready.push(spare);
        Ok(())
    }

    /// Schedules every used spare for deletion, including a file that is not listed because taking
    /// it failed.
    pub(super) fn renew(&self) -> io::Result<()> {
        let mut state = self.state();
        let mut used = BTreeSet::new();
        for entry in std::fs::read_dir(&self.directory)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.starts_with("spare-") && !name.ends_with(".tmp") && state.creating.as_ref() != Some(&path)
            {
                used.insert(path);
            }
        }
        state.ready.clear();
        state.to_delete.append(&mut used);
        (state.create_failure, state.delete_failure) = (None, None);
        state.only_new_files = true;
        self.changed.notify_one();
        Ok(())
    }

    pub(super) fn reuse_again(&self) {
        self.state().only_new_files = false;
    }

    /// Returns whether a spare is ready, or why none could be created.
    pub(super) fn has_ready(&self) -> Result<bool, String> {
        let state = self.state();
        match (&state.create_failure, state.ready.is_empty()) {
            (_, false) => Ok(true),
            (Some(why), true) => Err(why.clone()),
            (None, true) => Ok(false),
        }
    }

    /// Schedules files for deletion.
    pub(super) fn schedule_deletion(&self, files: impl IntoIterator<Item = PathBuf>) {
        let mut state = self.state();
        if state.copies > 0 {
            state.retained.extend(files.into_iter().map(|file| (file, true)));
            return;
        }
        state.to_delete.extend(files);
        self.changed.notify_one();
    }

    /// Returns whether all scheduled deletions are durable, or why one failed.
    pub(super) fn has_deleted_all(&self) -> Result<bool, String> {
        let state = self.state();
        match &state.delete_failure {
            _ if state.deleting || !state.to_delete.is_empty() => Ok(false),
            _ if state.retained.values().any(|is_doomed| *is_doomed) => Ok(false),
            Some(why) => Err(why.clone()),
            None => Ok(true),
        }
    }

    fn delete(&self, files: BTreeSet<PathBuf>) -> Result<(), String> {
        let mut outcome = Ok(());
        for file in files {
            match std::fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    outcome = Err(format!("{} cannot be deleted: {error}", file.display()));
                }
                _ => {}
            }
        }
        let synced = self.disk.sync_directory(&self.directory);
        outcome.and(synced.map_err(|error| format!("the log's directory cannot be synced: {error}")))
    }

    fn make(&self, target: &Path) -> io::Result<()> {
        let unfinished = target.with_extension("tmp");
        let made = self.disk.create_zeroed(&unfinished, self.segment_bytes);
        made.and_then(|_| std::fs::rename(&unfinished, target)).inspect_err(|_| {
            // Free the space at once. If this fails too, the next start removes the file.
            let _ = std::fs::remove_file(&unfinished);
        })
    }

    /// Deletes scheduled files and keeps `KEEP_READY` spares ready, until [`Spares::close`]. Runs
    /// on its own thread. Logs only the begin and the end of a series of failures, because a full
    /// disk makes several attempts a second fail.
    pub fn provision(&self) {
        let mut failed_attempts = 0_u64;
        let mut state = self.state();
        while !state.closed {
            // Delete first, since it frees disk space.
            if !state.to_delete.is_empty() {
                let to_delete = std::mem::take(&mut state.to_delete);
                state.deleting = true;
                drop(state);
                let deleted = self.delete(to_delete);
                state = self.state();
                state.deleting = false;
                state.delete_failure = deleted.err().or(state.delete_failure.take());
                continue;
            }
            if state.ready.len() >= KEEP_READY {
                self.changed.wait(&mut state);
                continue;
            }
            let name = state.next_name;
            state.next_name += 1;
            let spare = self.directory.join(format!("spare-{name}"));
            state.creating = Some(spare.clone());
            drop(state);
            let made = self.make(&spare);
            state = self.state();
            state.creating = None;
            match made {
                Ok(()) => {
                    if failed_attempts > 0 {
                        tracing::info!(failed_attempts, "spare log segments can be created again");
                        failed_attempts = 0;
                    }
                    state.create_failure = None;
                    state.ready.push(spare);
                }
                // The scheduled deletions may free enough space, so try again.
                Err(_) if !state.to_delete.is_empty() => {}
                Err(error) => {
                    if failed_attempts == 0 {
                        tracing::warn!(%error, "creating a spare log segment failed; will retry when one is needed");
                    }
                    failed_attempts += 1;
                    state.create_failure = Some(format!("no new log segment can be created: {error}"));
                    // `close` notifies only once. If it ran during `make`, waiting now would block
                    // forever.
                    if !state.closed {
                        self.changed.wait(&mut state);
                    }
                }
            }
        }
    }

    pub fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::time::{Duration, Instant};

    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::*;
    use crate::disk::Faults;

    /// Time limit for one attempt of the provisioner. It allows for a slow machine.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// Counts log events.
    struct EventCounter(Arc<AtomicUsize>);

    impl Subscriber for EventCounter {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, _: &Event<'_>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    /// Waits until the provisioner is idle and the condition holds. Returns false after a timeout.
    fn reached(spares: &Spares, condition: impl Fn(&SparesState) -> bool) -> bool {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let state = spares.state();
            if state.creating.is_none() && condition(&state) {
                return true;
            }
            drop(state);
            std::thread::yield_now();
        }
        false
    }

    #[test]
    fn failing_creation_of_spares_is_logged_once_at_its_begin_and_once_at_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let faults = Arc::new(Faults::default());
        faults.full.store(true, Ordering::SeqCst);
        let disk = Disk::with_faults(Arc::clone(&faults));
        let spares = Spares::open(directory.path(), disk, 4_096).unwrap();
        let events = Arc::new(AtomicUsize::new(0));
        let (attempted, created) = std::thread::scope(|scope| {
            let counter = EventCounter(Arc::clone(&events));
            scope.spawn(|| tracing::subscriber::with_default(counter, || spares.provision()));
            let attempted = (1..=20).all(|attempts| {
                spares.changed.notify_one();
                reached(&spares, |state| state.next_name >= attempts && state.create_failure.is_some())
            });
            faults.full.store(false, Ordering::SeqCst);
            spares.changed.notify_one();
            let created = reached(&spares, |state| !state.ready.is_empty());
            spares.close();
            (attempted, created)
        });
        assert!(attempted && created);
        assert_eq!(events.load(Ordering::Relaxed), 2);
    }
}
