//! Compaction: returns free pages to the file system. LMDB reuses freed pages but never shrinks its
//! file.
//!
//! [`Tables::compact`] copies every row into a second file and renames it over the first. Readers
//! continue during the copy; writers wait. After a crash at any point, one complete file exists.
//!
//! LMDB's own copy function is not used, because it copies pages together with deleted bytes in
//! them.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use heed::PutFlags;

use super::{Engine, Tables, TablesError};

/// Disk usage of the tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileSpace {
    pub file_bytes: u64,
    /// The part of `file_bytes` that is free for reuse.
    pub free_bytes: u64,
}

/// The name of LMDB's data file. LMDB determines it.
const DATA: &str = "data.mdb";
/// The directory for the copy, inside the tables directory. Opening the tables deletes it. After a
/// change, copies of interrupted compactions stay on disk.
const COPY: &str = "compacted";
/// Bytes written to the copy per transaction. Bounds the memory for uncommitted pages.
const TRANSACTION_BYTES: usize = 8 << 20;
/// Free bytes that a compaction leaves for the log. With less, the store refuses messages while the
/// compaction runs.
const SPACE_LEFT_TO_LOG: u64 = 4 << 20;
/// Upper bound on one attempt to become the only user of the engine. New readers wait that long.
const ENGINE_RELEASE_POLL: Duration = Duration::from_millis(5);
/// Pause between two attempts. Readers run during the pause. A shorter one delays readers more
/// often.
const PAUSE: Duration = Duration::from_millis(10);
/// Upper bound on all attempts. After it, the compaction fails and keeps the old file, which may
/// hold erased content until the next attempt.
const ENGINE_RELEASE_TIMEOUT: Duration = Duration::from_secs(20);

impl Engine {
    pub fn space(&self) -> Result<FileSpace, TablesError> {
        let file_bytes = self.env.real_disk_size()?;
        let free_bytes = file_bytes.saturating_sub(self.env.non_free_pages_size()?);
        Ok(FileSpace { file_bytes, free_bytes })
    }
}

impl Tables {
    /// Rewrites the tables. Blocks writers until it ends or `must_stop` returns true. Errors with
    /// [`TablesError::NoSpace`] before it writes anything if the disk cannot hold both copies.
    pub fn compact(&self, must_stop: &dyn Fn() -> bool) -> Result<(), TablesError> {
        let turn = self.turn();
        self.must_have_space()?;
        let copy = self.directory.join(COPY);
        remove(&copy);
        let outcome = self.current().and_then(|engine| write_copy(&engine, &copy, must_stop));
        if let Err(error) = outcome {
            remove(&copy);
            return Err(error);
        }
        let swapped = self.swap(&copy, must_stop);
        drop(turn);
        remove(&copy);
        swapped
    }

    /// Checks that the disk has space for the used pages of the old file and for
    /// [`SPACE_LEFT_TO_LOG`].
    fn must_have_space(&self) -> Result<(), TablesError> {
        let space = self.current()?.space()?;
        let needed = space.file_bytes - space.free_bytes + SPACE_LEFT_TO_LOG;
        let disk = rustix::fs::statvfs(&self.directory)
            .map_err(|error| TablesError::Io { path: self.directory.clone(), error: error.into() })?;
        let available = disk.f_bavail.saturating_mul(disk.f_frsize);
        match available < needed {
            true => Err(TablesError::NoSpace { needed, available }),
            false => Ok(()),
        }
    }

    /// Replaces the old file when no reader uses it. Makes many short attempts instead of one long
    /// wait. A reader that holds the engine may itself wait for a thread that waits for the tables.
    fn swap(&self, copy: &Path, must_stop: &dyn Fn() -> bool) -> Result<(), TablesError> {
        let started = Instant::now();
        while started.elapsed() < ENGINE_RELEASE_TIMEOUT && !must_stop() {
            let mut slot = self.engine.write();
            if let Some(engine) = alone(&mut slot) {
                engine.env.prepare_for_closing().wait();
                let swapped = put_in_place(copy, &self.directory);
                // If opening fails here, the next reader or writer opens the engine.
                *slot = Engine::open_for_reading_at_least(&self.directory).map(Arc::new).ok();
                return swapped.map_err(|error| TablesError::Io { path: copy.to_owned(), error });
            }
            drop(slot);
            std::thread::sleep(PAUSE);
        }
        // Keep the old file. A later compaction tries again.
        let error = io::Error::other("readers keep the tables open; the compaction was abandoned");
        Err(TablesError::Io { path: copy.to_owned(), error })
    }

    /// Removes the copy that an interrupted [`Tables::compact`] left.
    pub(super) fn remove_leftovers(directory: &Path) {
        remove(&directory.join(COPY));
    }
}

/// Copies each table in key order, so that its pages are full.
fn write_copy(engine: &Engine, copy: &Path, must_stop: &dyn Fn() -> bool) -> Result<(), TablesError> {
    let at_copy = |error| TablesError::Io { path: copy.to_owned(), error };
    fs::create_dir(copy).map_err(at_copy)?;
    let fresh = Engine::open(copy)?;
    let snapshot = engine.env.read_txn()?;
    let mut txn = fresh.env.write_txn()?;
    let mut bytes = 0;
    for ((_, from), (_, to)) in engine.tables().into_iter().zip(fresh.tables()) {
        for found in from.iter(&snapshot)? {
            let (key, row) = found?;
            to.put_with_flags(&mut txn, PutFlags::APPEND, key, row)?;
            bytes += key.len() + row.len();
            if bytes >= TRANSACTION_BYTES {
                if must_stop() {
                    return Err(TablesError::Stopped);
                }
                txn.commit()?;
                txn = fresh.env.write_txn()?;
                bytes = 0;
            }
        }
    }
    txn.commit()?;
    fresh.env.force_sync()?;
    let Engine { env, .. } = fresh;
    env.prepare_for_closing().wait();
    Ok(())
}

/// Takes the engine out of `slot` if all other users drop it within [`ENGINE_RELEASE_POLL`].
/// Otherwise returns `None` and leaves the engine in `slot`.
fn alone(slot: &mut Option<Arc<Engine>>) -> Option<Engine> {
    let started = Instant::now();
    let mut engine = slot.take()?;
    loop {
        match Arc::try_unwrap(engine) {
            Ok(engine) => return Some(engine),
            Err(shared) => engine = shared,
        }
        if started.elapsed() > ENGINE_RELEASE_POLL {
            *slot = Some(engine);
            return None;
        }
        std::thread::yield_now();
    }
}

/// Syncs the copy, renames it over the old file and syncs the directory.
fn put_in_place(copy: &Path, directory: &Path) -> io::Result<()> {
    let data = copy.join(DATA);
    File::open(&data)?.sync_all()?;
    fs::rename(data, directory.join(DATA))?;
    File::open(directory)?.sync_all()
}

fn remove(copy: &Path) {
    match fs::remove_dir_all(copy) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(directory = %copy.display(), %error, "removing a copy of the tables failed");
        }
        _ => {}
    }
}
