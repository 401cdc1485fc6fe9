//! Segment files that wait to be used: recycled ones, and new ones made ahead of time.
//!
//! Taking one must be quick, since the committer does it; making and deleting them is slow, so a thread of its own does
//! that. A recycled file still holds what was written to it. Between [`Spares::renew`] and [`Spares::reuse_again`] all
//! of them are new, and what is given back is deleted. While somebody copies the log ([`Spares::hold`]), what is given back
//! stays where it is.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use super::BatchNumber;
use crate::disk::Disk;

pub struct Spares {
    directory: PathBuf,
    disk: Disk,
    segment_bytes: u64,
    state: Mutex<State>,
    changed: Condvar,
    /// The newest durable batch, as the writer says: whoever copies the segments has to find it.
    durable: AtomicU64,
}

#[derive(Default)]
struct State {
    ready: Vec<PathBuf>,
    next_name: u64,
    closed: bool,
    /// Only new files are handed out.
    renewing: bool,
    /// What the provisioner makes at this moment; it is new whenever it was begun.
    making: Option<PathBuf>,
    /// Why the last attempt to make one failed.
    unmade: Option<String>,
    /// What the provisioner is to delete, and whether it is about it.
    doomed: BTreeSet<PathBuf>,
    deleting: bool,
    /// Why something is not deleted.
    undeleted: Option<String>,
    /// How many copy the log, and what would be gone but for them: to be deleted, or else to be kept as a spare.
    holders: usize,
    held_back: BTreeMap<PathBuf, bool>,
}

/// While there is one, no segment of the log that is there goes.
pub struct Held(Arc<Spares>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// How many the provisioner keeps ready.
const KEEP_READY: usize = 1;
/// How many recycled files are kept rather than deleted.
const KEEP_AT_MOST: usize = 16;

impl Spares {
    /// Takes over the spare files an earlier run left.
    pub fn open(directory: &Path, disk: Disk, segment_bytes: u64) -> io::Result<Spares> {
        let mut state = State::default();
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics while holding the list of spares")
    }

    /// Moves a spare to `target`, making one on the spot when none is ready.
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

    /// The newest batch of which the writer knows that it is durable.
    pub fn durable(&self) -> BatchNumber {
        BatchNumber(self.durable.load(Ordering::Acquire))
    }

    /// Keeps every segment that is there from now on, needed or not.
    pub fn hold(self: &Arc<Self>) -> Held {
        self.state().holders += 1;
        Held(Arc::clone(self))
    }

    fn release(&self) {
        let mut state = self.state();
        state.holders -= 1;
        if state.holders > 0 {
            return;
        }
        let held_back = std::mem::take(&mut state.held_back);
        for (segment, is_doomed) in held_back {
            if is_doomed {
                state.doomed.insert(segment);
            } else if let Err(error) = self.keep(&mut state, &segment) {
                tracing::warn!(%error, "a log segment that is no longer needed could not be recycled");
            }
        }
        self.changed.notify_one();
    }

    /// Keeps a segment that is no longer needed.
    pub fn give_back(&self, segment: &Path) -> io::Result<()> {
        let mut state = self.state();
        if state.holders > 0 {
            let is_doomed = state.renewing;
            state.held_back.insert(segment.to_owned(), is_doomed);
            return Ok(());
        }
        if state.renewing {
            state.doomed.insert(segment.to_owned());
            self.changed.notify_one();
            return Ok(());
        }
        self.keep(&mut state, segment)
    }

    fn keep(&self, state: &mut State, segment: &Path) -> io::Result<()> {
        if state.ready.len() >= KEEP_AT_MOST {
            return std::fs::remove_file(segment);
        }
        let spare = self.directory.join(format!("spare-{}", state.next_name));
        state.next_name += 1;
        std::fs::rename(segment, &spare)?;
        state.ready.push(spare);
        Ok(())
    }

    /// Lets go of every file that was used before, also of one that is not on the list because taking it failed.
    pub(super) fn renew(&self) -> io::Result<()> {
        let mut state = self.state();
        let mut used = BTreeSet::new();
        for entry in std::fs::read_dir(&self.directory)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.starts_with("spare-") && !name.ends_with(".tmp") && state.making.as_ref() != Some(&path) {
                used.insert(path);
            }
        }
        state.ready.clear();
        state.doomed.append(&mut used);
        (state.unmade, state.undeleted) = (None, None);
        state.renewing = true;
        self.changed.notify_one();
        Ok(())
    }

    pub(super) fn reuse_again(&self) {
        self.state().renewing = false;
    }

    /// Whether one can be taken without making it first; or why none could be made.
    pub(super) fn has_ready(&self) -> Result<bool, String> {
        let state = self.state();
        match (&state.unmade, state.ready.is_empty()) {
            (_, false) => Ok(true),
            (Some(why), true) => Err(why.clone()),
            (None, true) => Ok(false),
        }
    }

    /// Has these files deleted.
    pub(super) fn doom(&self, files: impl IntoIterator<Item = PathBuf>) {
        let mut state = self.state();
        if state.holders > 0 {
            state.held_back.extend(files.into_iter().map(|file| (file, true)));
            return;
        }
        state.doomed.extend(files);
        self.changed.notify_one();
    }

    /// Whether everything that was to be deleted is, durably; or why it is not.
    pub(super) fn has_deleted_all(&self) -> Result<bool, String> {
        let state = self.state();
        match &state.undeleted {
            _ if state.deleting || !state.doomed.is_empty() => Ok(false),
            _ if state.held_back.values().any(|is_doomed| *is_doomed) => Ok(false),
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
            // The space it took is wanted back at once; if even that fails, the next start removes it.
            let _ = std::fs::remove_file(&unfinished);
        })
    }

    /// Deletes what is doomed, and keeps one spare ready, until [`Spares::close`]. Runs on a thread of its own.
    pub fn provision(&self) {
        let mut state = self.state();
        while !state.closed {
            // First, since it makes space.
            if !state.doomed.is_empty() {
                let doomed = std::mem::take(&mut state.doomed);
                state.deleting = true;
                drop(state);
                let deleted = self.delete(doomed);
                state = self.state();
                state.deleting = false;
                state.undeleted = deleted.err().or(state.undeleted.take());
                continue;
            }
            if state.ready.len() >= KEEP_READY {
                state = self.changed.wait(state).expect("nobody panics while holding the list of spares");
                continue;
            }
            let name = state.next_name;
            state.next_name += 1;
            let spare = self.directory.join(format!("spare-{name}"));
            state.making = Some(spare.clone());
            drop(state);
            let made = self.make(&spare);
            state = self.state();
            state.making = None;
            match made {
                Ok(()) => {
                    state.unmade = None;
                    state.ready.push(spare);
                }
                // There may be space for it when those are gone.
                Err(_) if !state.doomed.is_empty() => {}
                Err(error) => {
                    tracing::warn!(%error, "no spare log segment could be made; trying again when one is needed");
                    state.unmade = Some(format!("no new log segment can be made: {error}"));
                    // It may have been closed meanwhile, and nobody says so twice.
                    if !state.closed {
                        state =
                            self.changed.wait(state).expect("nobody panics while holding the list of spares");
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
