//! Ensures that one process at a time uses a data directory.
//!
//! The kernel holds the lock and releases it when the process ends, however it ends. The file's
//! content is for people and for the command-line tools, which ask the running server instead of
//! opening the store themselves.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The name of the lock file in the data directory. Older and newer versions must agree on it.
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

/// The process that holds the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub process: String,
    /// The address on which the process listens, if it is a server.
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

    /// Locks the directory without writing to it. Returns `None` if no process has used the
    /// directory yet: then there is no file to lock.
    pub fn hold(directory: &Path) -> Result<Option<DataLock>, LockError> {
        let file = match File::open(directory.join(NAME)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        lock(&file)?;
        Ok(Some(DataLock { file }))
    }

    /// Like [`DataLock::acquire`], for a process that changes nothing. On a read-only file system
    /// it [locks](DataLock::hold) the file without writing to it.
    pub fn acquire_for_reading(directory: &Path) -> Result<Option<DataLock>, LockError> {
        match DataLock::acquire(directory) {
            Err(LockError::Io(error)) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {
                DataLock::hold(directory)
            }
            acquired => acquired.map(Some),
        }
    }

    /// Writes this process's listening address to the lock file.
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

/// Takes the kernel's lock. Fails with the holder if another process has it.
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
    fn second_lock_is_refused_and_names_the_holder() {
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
