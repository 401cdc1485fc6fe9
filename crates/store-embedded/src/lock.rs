//! One process per data directory.
//!
//! The lock is the kernel's and goes with the process, however it ends; what the file says is for people and for the
//! command-line tools, which ask the running server instead of opening the store behind its back.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

pub const NAME: &str = "LOCK";

#[derive(Debug)]
pub struct DataLock {
    file: File,
}

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("the data directory is in use by process {}{}", .0.process, .0.address.as_ref().map(|address| format!(", which listens on {address}")).unwrap_or_default())]
    InUse(Holder),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Who has the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub process: String,
    /// Where it listens, if it serves.
    pub address: Option<String>,
}

impl DataLock {
    pub fn acquire(directory: &Path) -> Result<DataLock, LockError> {
        let path = directory.join(NAME);
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        lock(&file)?;
        let lock = DataLock { file };
        lock.write("")?;
        Ok(lock)
    }

    /// Keeps others out while the guard lives, without writing anything. `None` where no process has used the directory
    /// yet: then there is nothing to lock.
    pub fn hold(directory: &Path) -> Result<Option<DataLock>, LockError> {
        let file = match File::open(directory.join(NAME)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        lock(&file)?;
        Ok(Some(DataLock { file }))
    }

    /// As [`DataLock::acquire`], for a process that changes nothing. On a file system that is mounted read-only it
    /// [holds](DataLock::hold) the file as it is.
    pub fn acquire_for_reading(directory: &Path) -> Result<Option<DataLock>, LockError> {
        match DataLock::acquire(directory) {
            Err(LockError::Io(error)) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {
                DataLock::hold(directory)
            }
            acquired => acquired.map(Some),
        }
    }

    /// Says where this process listens.
    pub fn announce(&self, address: &str) -> io::Result<()> {
        self.write(address)
    }

    fn write(&self, address: &str) -> io::Result<()> {
        let mut file = &self.file;
        file.rewind()?;
        file.set_len(0)?;
        writeln!(file, "{}", std::process::id())?;
        if !address.is_empty() {
            writeln!(file, "{address}")?;
        }
        Ok(())
    }
}

/// Takes the kernel's lock. Fails with the process that holds it.
fn lock(mut file: &File) -> Result<(), LockError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            file.read_to_string(&mut text)?;
            let mut lines = text.lines().map(str::to_owned);
            let process = lines.next().unwrap_or_else(|| "?".to_owned());
            Err(LockError::InUse(Holder { process, address: lines.next() }))
        }
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holder_is_told_who_the_first_one_is() {
        let directory = tempfile::tempdir().unwrap();
        let lock = DataLock::acquire(directory.path()).unwrap();
        lock.announce("127.0.0.1:8080").unwrap();
        let refused = DataLock::acquire(directory.path()).unwrap_err();
        let own = std::process::id();
        assert_eq!(
            refused.to_string(),
            format!("the data directory is in use by process {own}, which listens on 127.0.0.1:8080")
        );
        drop(lock);
        assert!(DataLock::acquire(directory.path()).is_ok());
    }
}
