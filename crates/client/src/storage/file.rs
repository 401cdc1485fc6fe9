//! Storage in a directory: an append-only journal that is rewritten when most of it is obsolete.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::journal::{self, MAGIC};
use super::{Change, Storage, StorageError};

/// Journal size in bytes below which it is never rewritten. A smaller value costs more rewrites.
const SMALL_BYTES: u64 = 1024 * 1024;

/// A [`Storage`] in a directory. Holds an exclusive lock on the directory until it is dropped.
pub struct FileStorage {
    directory: PathBuf,
    journal: File,
    /// End of the last complete batch, in bytes. The next append overwrites anything behind it.
    end: u64,
    table: BTreeMap<String, String>,
    /// Approximate journal size of the live entries, in bytes.
    live_bytes: u64,
    small_bytes: u64,
    /// Holds the lock file open and locked.
    _lock: File,
}

impl FileStorage {
    /// Opens the storage. Creates a missing directory, on Unix with mode 0700.
    ///
    /// A file `journal` that does not start with the expected header is renamed to
    /// `journal.unreadable`. An incomplete batch at the end of the journal is discarded.
    ///
    /// # Errors
    ///
    /// Fails with `InUse` if the directory is locked, and with `Io` on any file error.
    pub fn open(directory: &Path) -> Result<FileStorage, StorageError> {
        FileStorage::open_with(directory, SMALL_BYTES)
    }

    pub(crate) fn open_with(directory: &Path, small_bytes: u64) -> Result<FileStorage, StorageError> {
        let failed = |error| StorageError::Io { place: directory.display().to_string(), error };
        make_private(directory).map_err(failed)?;
        let lock = OpenOptions::new().create(true).write(true).truncate(false).open(directory.join("lock"));
        let lock = lock.map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                return Err(StorageError::InUse(directory.display().to_string()));
            }
            Err(fs::TryLockError::Error(error)) => return Err(failed(error)),
        }
        let mut table = BTreeMap::new();
        let (journal, end) = open_journal(directory, &mut table).map_err(failed)?;
        let live_bytes = table.iter().map(|(key, value)| size(key, value)).sum();
        let directory = directory.to_owned();
        Ok(FileStorage { directory, journal, end, table, live_bytes, small_bytes, _lock: lock })
    }

    /// Writes a batch behind the last complete one and syncs it.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.journal.seek(SeekFrom::Start(self.end))?;
        self.journal.write_all(bytes)?;
        // Cut off the rest of a failed longer write, so that it cannot be read as a batch.
        self.journal.set_len(self.end + bytes.len() as u64)?;
        self.journal.sync_data()?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// Writes the whole table as one batch to a new file and renames it over the journal. The
    /// rename is atomic, so a crash leaves one complete journal.
    fn rewrite(&mut self) -> io::Result<()> {
        let new = self.directory.join("journal.new");
        let mut file = OpenOptions::new().create(true).truncate(true).read(true).write(true).open(&new)?;
        let mut bytes = MAGIC.to_vec();
        if !self.table.is_empty() {
            let entries = self.table.iter().map(|(key, value)| (key.as_str(), Some(value.as_str())));
            bytes.extend_from_slice(&journal::encode(entries));
        }
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&new, self.directory.join("journal"))?;
        File::open(&self.directory)?.sync_all()?;
        self.journal = file;
        self.end = bytes.len() as u64;
        Ok(())
    }
}

fn size(key: &str, value: &str) -> u64 {
    (key.len() + value.len() + 8) as u64
}

fn make_private(directory: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

fn open_journal(directory: &Path, table: &mut BTreeMap<String, String>) -> io::Result<(File, u64)> {
    let path = directory.join("journal");
    let mut file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let whole = journal::replay(&bytes, table);
    if whole == 0 {
        if bytes.len() > MAGIC.len() {
            // Foreign file or damaged header: move it aside instead of overwriting it.
            fs::rename(&path, directory.join("journal.unreadable"))?;
            file = OpenOptions::new().create(true).truncate(true).read(true).write(true).open(&path)?;
        }
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(MAGIC)?;
        file.sync_all()?;
        File::open(directory)?.sync_all()?;
        return Ok((file, MAGIC.len() as u64));
    }
    file.set_len(whole as u64)?;
    Ok((file, whole as u64))
}

impl Storage for FileStorage {
    fn load(&mut self) -> Result<Vec<(String, String)>, StorageError> {
        Ok(self.table.clone().into_iter().collect())
    }

    fn apply(&mut self, batch: &[Change]) -> Result<(), StorageError> {
        if batch.is_empty() {
            return Ok(());
        }
        let bytes =
            journal::encode(batch.iter().map(|change| (change.key.as_str(), change.value.as_deref())));
        let place = self.directory.display().to_string();
        self.append(&bytes).map_err(|error| StorageError::Io { place, error })?;
        for change in batch {
            let before = self.table.get(&change.key).map_or(0, |value| size(&change.key, value));
            let after = change.value.as_ref().map_or(0, |value| size(&change.key, value));
            self.live_bytes = self.live_bytes + after - before;
            journal::change(&mut self.table, change.clone());
        }
        if self.end > self.small_bytes && self.end > 2 * self.live_bytes {
            // The batch is already durable in the old journal, so a failed rewrite is not an error.
            // The next batch tries again.
            let _tried_again_later = self.rewrite();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journal_rewrite_keeps_the_same_state() {
        let directory = tempfile::tempdir().unwrap();
        let mut storage = FileStorage::open_with(directory.path(), 1_000).unwrap();
        for number in 0..1_000 {
            storage.apply(&[Change::put("counter", number.to_string()), Change::remove("other")]).unwrap();
        }
        let length = fs::metadata(directory.path().join("journal")).unwrap().len();
        assert!(length < 2_000, "the journal has {length} bytes");
        drop(storage);
        let kept = FileStorage::open(directory.path()).unwrap().load().unwrap();
        assert_eq!(kept, [("counter".into(), "999".into())]);
    }

    #[test]
    fn unreadable_journal_is_renamed_and_not_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("journal"), "a letter to my aunt").unwrap();
        let mut storage = FileStorage::open(directory.path()).unwrap();
        assert!(storage.load().unwrap().is_empty());
        let aside = fs::read_to_string(directory.path().join("journal.unreadable")).unwrap();
        assert_eq!(aside, "a letter to my aunt");
    }

    #[test]
    fn unfinished_journal_rewrite_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        FileStorage::open(directory.path()).unwrap().apply(&[Change::put("a", "1")]).unwrap();
        fs::write(directory.path().join("journal.new"), "half of").unwrap();
        assert_eq!(FileStorage::open(directory.path()).unwrap().load().unwrap(), [("a".into(), "1".into())]);
    }
}
