//! Declares that a data directory was replaced by an earlier copy without `restore`, such as a file
//! copy or a volume snapshot. The store allocates later seqs again, so clients must drop their
//! cached messages.

use std::path::{Path, PathBuf};

use bluetick_core::Epoch;
use bluetick_core::ports::Random;
use bluetick_core::time::Clock;
use thiserror::Error;

use super::RESTORING;
use super::epoch::epoch_after;
use crate::lock::{DataLock, LockError};
use crate::tables::{Tables, TablesError};

#[derive(Debug, Error)]
pub enum DeclareError {
    #[error("{}: {error}", directory.display())]
    Lock { directory: PathBuf, error: LockError },
    #[error("{}: there is no store here", .0.display())]
    NoStore(PathBuf),
    #[error("{}: a restore of a backup is unfinished here", .0.display())]
    HalfRestored(PathBuf),
    #[error("no epoch is left after {0}")]
    NoEpoch(u64),
    #[error(transparent)]
    Tables(#[from] TablesError),
}

/// A data directory that no other process uses, about to be declared restored.
pub struct ReplacedStore {
    tables: Tables,
    epoch: Epoch,
    _lock: DataLock,
}

impl ReplacedStore {
    /// Locks the directory and checks that it holds a store. Does not change the store.
    pub fn open(data_dir: &Path) -> Result<ReplacedStore, DeclareError> {
        if data_dir.join(RESTORING).exists() {
            return Err(DeclareError::HalfRestored(data_dir.to_owned()));
        }
        let directory = data_dir.join("tables");
        if !directory.join("data.mdb").is_file() {
            return Err(DeclareError::NoStore(data_dir.to_owned()));
        }
        let lock = DataLock::acquire(data_dir);
        let lock = lock.map_err(|error| DeclareError::Lock { directory: data_dir.to_owned(), error })?;
        let tables = Tables::open(&directory)?;
        let identity = tables.current()?.identity()?;
        let epoch = identity.ok_or_else(|| DeclareError::NoStore(data_dir.to_owned()))?.epoch;
        Ok(ReplacedStore { tables, epoch, _lock: lock })
    }

    /// Gives the store another epoch and returns it. Durable when it returns.
    pub fn declare_restored(self, clock: &dyn Clock, random: &dyn Random) -> Result<Epoch, DeclareError> {
        let epoch = epoch_after(self.epoch, clock, random);
        let epoch = epoch.ok_or(DeclareError::NoEpoch(self.epoch.get()))?;
        self.tables.writing()?.set_epoch(epoch)?;
        Ok(epoch)
    }
}
