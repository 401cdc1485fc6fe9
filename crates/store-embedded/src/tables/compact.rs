//! Giving space back: LMDB reuses the pages that were freed and never returns them, so the tables are written anew, row by
//! row, beside the old ones, and take their place. Readers go on meanwhile; writers wait; whatever happens, one of the
//! two files is there, whole. (The engine's own copy takes pages as they are, with what was deleted from them.)

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use heed::PutFlags;

use super::{Engine, Tables, TablesError};

/// What the tables take on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    pub file_bytes: u64,
    /// Of these, what is free for reuse.
    pub free_bytes: u64,
}

const DATA: &str = "data.mdb";
const COPY: &str = "compacted";
/// What the copy keeps in memory before it is written.
const TRANSACTION_BYTES: usize = 8 << 20;
/// Bytes that a rewrite leaves free for new messages. With less, sends are refused while it runs.
const SPACE_LEFT_TO_LOG: u64 = 4 << 20;
/// How long new readers wait at most while those that are under way come to their end, and how long they are left alone
/// before it is tried again.
const MOMENT: Duration = Duration::from_millis(5);
const PAUSE: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(20);

impl Engine {
    pub fn space(&self) -> Result<Space, TablesError> {
        let file_bytes = self.env.real_disk_size()?;
        let free_bytes = file_bytes.saturating_sub(self.env.non_free_pages_size()?);
        Ok(Space { file_bytes, free_bytes })
    }
}

impl Tables {
    /// Rewrites the tables. Blocks writers until it ends, or until `must_stop` returns true. Errors with
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

    /// The copy needs as much as the used pages of the old file. The rest is left to the log.
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

    /// Nobody may use the old file then. It is looked for such a moment again and again, a short while each time:
    /// whoever reads may wait for somebody who waits for the tables.
    fn swap(&self, copy: &Path, must_stop: &dyn Fn() -> bool) -> Result<(), TablesError> {
        let started = Instant::now();
        while started.elapsed() < PATIENCE && !must_stop() {
            let mut slot = self.engine.write().expect("nobody panics while holding the engine");
            if let Some(engine) = alone(&mut slot) {
                engine.env.prepare_for_closing().wait();
                let swapped = put_in_place(copy, &self.directory);
                // Should it fail, the next one to read or write opens it.
                *slot = Engine::open_for_reading_at_least(&self.directory).map(Arc::new).ok();
                return swapped.map_err(|error| TablesError::Io { path: copy.to_owned(), error });
            }
            drop(slot);
            std::thread::sleep(PAUSE);
        }
        // The old file stays, and it is tried again another time.
        let error = io::Error::other("the tables are read all the time");
        Err(TablesError::Io { path: copy.to_owned(), error })
    }

    /// What an interrupted [`Tables::compact`] left.
    pub(super) fn remove_leftovers(directory: &Path) {
        remove(&directory.join(COPY));
    }
}

/// In one go over each table, in the order of its keys, so that its pages are full.
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

/// The engine, if everybody else lets go of it within a moment.
fn alone(slot: &mut Option<Arc<Engine>>) -> Option<Engine> {
    let started = Instant::now();
    let mut engine = slot.take()?;
    loop {
        match Arc::try_unwrap(engine) {
            Ok(engine) => return Some(engine),
            Err(shared) => engine = shared,
        }
        if started.elapsed() > MOMENT {
            *slot = Some(engine);
            return None;
        }
        std::thread::yield_now();
    }
}

fn put_in_place(copy: &Path, directory: &Path) -> io::Result<()> {
    let data = copy.join(DATA);
    File::open(&data)?.sync_all()?;
    fs::rename(data, directory.join(DATA))?;
    File::open(directory)?.sync_all()
}

fn remove(copy: &Path) {
    match fs::remove_dir_all(copy) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(directory = %copy.display(), %error, "a copy of the tables could not be removed");
        }
        _ => {}
    }
}
