//! Segment files that wait to be used: recycled ones, and new ones made ahead of time.
//!
//! Taking one must be quick, since the committer does it; making one is slow, so a thread of its own does that.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard};

use crate::disk::Disk;

pub struct Spares {
    directory: PathBuf,
    disk: Disk,
    segment_bytes: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    ready: Vec<PathBuf>,
    next_name: u64,
    closed: bool,
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

    /// Keeps a segment that is no longer needed.
    pub fn give_back(&self, segment: &Path) -> io::Result<()> {
        let mut state = self.state();
        if state.ready.len() >= KEEP_AT_MOST {
            return std::fs::remove_file(segment);
        }
        let spare = self.directory.join(format!("spare-{}", state.next_name));
        state.next_name += 1;
        std::fs::rename(segment, &spare)?;
        state.ready.push(spare);
        Ok(())
    }

    fn make(&self, target: &Path) -> io::Result<()> {
        let unfinished = target.with_extension("tmp");
        let made = self.disk.create_zeroed(&unfinished, self.segment_bytes);
        made.and_then(|_| std::fs::rename(&unfinished, target)).inspect_err(|_| {
            // The space it took is wanted back at once; if even that fails, the next start removes it.
            let _ = std::fs::remove_file(&unfinished);
        })
    }

    /// Keeps one spare ready until [`Spares::close`]. Runs on a thread of its own.
    pub fn provision(&self) {
        let mut state = self.state();
        while !state.closed {
            if state.ready.len() >= KEEP_READY {
                state = self.changed.wait(state).expect("nobody panics while holding the list of spares");
                continue;
            }
            let name = state.next_name;
            state.next_name += 1;
            drop(state);
            let spare = self.directory.join(format!("spare-{name}"));
            let made = self.make(&spare);
            state = self.state();
            match made {
                Ok(()) => state.ready.push(spare),
                Err(error) => {
                    tracing::warn!(%error, "no spare log segment could be made; trying again when one is needed");
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
