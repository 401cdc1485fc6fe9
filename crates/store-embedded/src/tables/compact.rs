//! Giving space back: LMDB reuses the pages that were freed and never returns them, so the tables are written anew,
//! without them, beside the old ones, and take their place. Readers go on meanwhile; writers wait; whatever happens, one
//! of the two files is there, whole.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use heed::CompactionOption;

use super::{Engine, Tables, TablesError};

/// What the tables take on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    pub file_bytes: u64,
    /// Of these, what is free for reuse.
    pub free_bytes: u64,
}

const DATA: &str = "data.mdb";
const COPY: &str = "data.mdb.compacted";
/// How long readers that are under way are waited for, while new ones wait.
const PATIENCE: Duration = Duration::from_secs(2);

impl Engine {
    pub fn space(&self) -> Result<Space, TablesError> {
        let file_bytes = self.env.real_disk_size()?;
        let free_bytes = file_bytes.saturating_sub(self.env.non_free_pages_size()?);
        Ok(Space { file_bytes, free_bytes })
    }
}

impl Tables {
    /// Writes the tables anew. Blocks for as long as that takes.
    pub fn compact(&self) -> Result<(), TablesError> {
        let turn = self.turn();
        let copy = self.directory.join(COPY);
        let outcome = self.current().and_then(|engine| write_copy(&engine, &copy));
        if let Err(error) = outcome {
            remove(&copy);
            return Err(error);
        }
        let mut slot = self.engine.write().expect("nobody panics while holding the engine");
        let swapped = match alone(&mut slot) {
            Some(engine) => {
                engine.env.prepare_for_closing().wait();
                let swapped =
                    fs::rename(&copy, self.directory.join(DATA)).and_then(|()| sync(&self.directory));
                *slot = Some(Arc::new(Engine::open(&self.directory)?));
                swapped
            }
            // The old file stays, and it is tried again another time.
            None => Err(std::io::Error::other("somebody reads the tables for long")),
        };
        drop(slot);
        drop(turn);
        swapped.map_err(|error| {
            remove(&copy);
            TablesError::Io { path: copy, error }
        })
    }

    /// What an interrupted [`Tables::compact`] left.
    pub(super) fn remove_leftovers(directory: &Path) {
        let copy = directory.join(COPY);
        if copy.exists() {
            remove(&copy);
        }
    }
}

fn write_copy(engine: &Engine, copy: &Path) -> Result<(), TablesError> {
    let at_copy = |error| TablesError::Io { path: copy.to_owned(), error };
    let mut file = File::create(copy).map_err(at_copy)?;
    engine.env.copy_to_file(&mut file, CompactionOption::Enabled)?;
    file.sync_all().map_err(at_copy)
}

/// The engine when nobody else uses it any more. New readers wait at the slot, so this is not long.
fn alone(slot: &mut Option<Arc<Engine>>) -> Option<Engine> {
    let started = Instant::now();
    let mut engine = slot.take()?;
    loop {
        match Arc::try_unwrap(engine) {
            Ok(engine) => return Some(engine),
            Err(shared) => engine = shared,
        }
        if started.elapsed() > PATIENCE {
            *slot = Some(engine);
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn sync(directory: &Path) -> std::io::Result<()> {
    File::open(directory)?.sync_all()
}

fn remove(copy: &Path) {
    if let Err(error) = fs::remove_file(copy) {
        tracing::warn!(file = %copy.display(), %error, "a half-written copy of the tables could not be removed");
    }
}
