//! Restores a backup into a new data directory.
//!
//! The restore locks the directory, builds everything below `restoring` in it, and checks the
//! result there. Then it moves the files to their final paths and deletes `restoring` last. While
//! `restoring` exists, no server starts on the directory. A failed restore deletes it, except after
//! failed checks. A killed restore leaves it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bluetick_archive::{BackupDestination, ObjectArchiveError};
use bluetick_core::Epoch;
use bluetick_core::ports::{Progress, Random, Stage};
use bluetick_core::time::Clock;
use bytes::Bytes;
use thiserror::Error;
use tokio::runtime::Handle;

use super::damage::DamagedRows;
use super::epoch::epoch_after;
use super::manifest::{MANIFEST, Manifest, ManifestError, Part, PartKind};
use super::parts;
use crate::check::{self, CheckError, CheckParts};
use crate::codec::DecodeError;
use crate::lock::{self, DataLock, LockError};
use crate::log::{self, BatchNumber, LogError, StoreTag};
use crate::tables::{TablesError, fill};

/// The subdirectory in which a restore builds. It exists until the restore is complete, and no
/// server starts while it exists. All versions must agree on it.
pub const RESTORING: &str = "restoring";

#[derive(Debug, Error)]
pub enum RestoreError {
    #[error("{0} holds no backup: {MANIFEST}, which is written last, is missing")]
    NoBackup(String),
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error("{name} of the backup is damaged: {why}")]
    Damaged { name: String, why: String },
    #[error("{0}")]
    Unreachable(String),
    #[error("{} is not empty; a backup is restored into a new directory only", .0.display())]
    NotEmpty(PathBuf),
    #[error("{}: an earlier restore was interrupted; delete this directory and run the command again", .0.display())]
    Interrupted(PathBuf),
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error(transparent)]
    Tables(#[from] TablesError),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("the restored files cannot be checked: {0}")]
    Check(#[from] CheckError),
    #[error(
        "the restored store is damaged, although every part matches its checksum: {0}. It stays in `{RESTORING}`"
    )]
    NotSound(String),
    #[error("{}: {error}", directory.display())]
    Lock { directory: PathBuf, error: LockError },
    #[error("the restore was interrupted")]
    Stopped,
}

/// The inputs of a restore.
pub struct RestoreParts {
    pub destination: BackupDestination,
    /// Created if missing. Must be empty otherwise.
    pub data_dir: PathBuf,
    pub segment_bytes: u64,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub progress: Arc<dyn Progress>,
}

/// The result of a restore.
#[derive(Clone, Debug)]
pub struct Restored {
    pub manifest: Manifest,
    /// The new epoch of the store. Clients see that it changed and drop their caches.
    pub epoch: Epoch,
    pub with_keys: bool,
}

/// Restores a backup into a missing or empty directory. On an error, deletes what it built, except
/// after [`RestoreError::NotSound`] or once files are at their final paths.
pub async fn restore(parts: RestoreParts) -> Result<Restored, RestoreError> {
    let manifest = read_manifest(&parts.destination).await?;
    let made = Handle::current();
    let work = tokio::task::spawn_blocking(move || BackupRestore { parts, manifest, runtime: made }.run());
    work.await.map_err(|_| RestoreError::Stopped)?
}

async fn read_manifest(destination: &BackupDestination) -> Result<Manifest, RestoreError> {
    match destination.get(MANIFEST).await {
        Ok(bytes) => Ok(Manifest::read(&bytes)?),
        Err(ObjectArchiveError::Missing { .. }) => {
            Err(RestoreError::NoBackup(destination.place().to_string()))
        }
        Err(error) => Err(RestoreError::Unreachable(error.to_string())),
    }
}

struct BackupRestore {
    parts: RestoreParts,
    manifest: Manifest,
    runtime: Handle,
}

impl BackupRestore {
    fn run(self) -> Result<Restored, RestoreError> {
        let data_dir = &self.parts.data_dir;
        let was_there = make_empty(data_dir)?;
        let lock = DataLock::acquire(data_dir);
        let lock = lock.map_err(|error| RestoreError::Lock { directory: data_dir.clone(), error })?;
        // Check again: another process may have used the directory before it was locked.
        look_empty(data_dir)?;
        let building = data_dir.join(RESTORING);
        match self.build(&building) {
            Ok((epoch, with_keys)) => Ok(Restored { epoch, with_keys, manifest: self.manifest }),
            Err(error) => {
                // Delete the useless result, but keep an unsound one for diagnosis.
                if !matches!(error, RestoreError::NotSound(_)) && self.is_misplaced() {
                    clear_away(data_dir, was_there);
                }
                drop(lock);
                Err(error)
            }
        }
    }

    fn build(&self, building: &Path) -> Result<(Epoch, bool), RestoreError> {
        for directory in [building.to_owned(), building.join("tables"), building.join("log")] {
            make_private(&directory).map_err(at(&directory))?;
        }
        sync(&self.parts.data_dir)?;
        let (tag, epoch) = (self.tag()?, self.next_epoch()?);
        let damage = self.make_tables(&building.join("tables"), epoch)?;
        self.make_log(&building.join("log"), tag)?;
        for part in self.manifest.of_kind(PartKind::Key) {
            self.make_key(building, part)?;
        }
        self.look_through(building, &damage)?;
        Ok((epoch, self.move_into_place(building)?))
    }

    fn is_misplaced(&self) -> bool {
        ["log", "tables"].iter().all(|name| !self.parts.data_dir.join(name).exists())
    }

    /// Returns an epoch that no client has seen, not even from another restore of the same backup.
    fn next_epoch(&self) -> Result<Epoch, RestoreError> {
        let before = Epoch::new(self.manifest.epoch);
        let next = epoch_after(before, &*self.parts.clock, &*self.parts.random);
        Ok(next.ok_or_else(|| ManifestError::Damaged("its epoch is the highest one".to_owned()))?)
    }

    fn tag(&self) -> Result<StoreTag, RestoreError> {
        let text = &self.manifest.store;
        let byte = |at: usize| text.get(at * 2..at * 2 + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
        let mut tag = [0; 8];
        for (at, slot) in tag.iter_mut().enumerate() {
            *slot = byte(at).ok_or_else(|| ManifestError::Damaged("its store id is invalid".to_owned()))?;
        }
        Ok(StoreTag(tag))
    }

    fn fetch(&self, part: &Part) -> Result<Bytes, RestoreError> {
        let bytes = match self.runtime.block_on(self.parts.destination.get(&part.name)) {
            Ok(bytes) => bytes,
            Err(ObjectArchiveError::Missing { .. }) => {
                return Err(RestoreError::Damaged {
                    name: part.name.clone(),
                    why: "it is missing".to_owned(),
                });
            }
            Err(error) => return Err(RestoreError::Unreachable(error.to_string())),
        };
        match part.problem_with(&bytes) {
            None => Ok(bytes),
            Some(why) => Err(RestoreError::Damaged { name: part.name.clone(), why }),
        }
    }

    fn advanced(&self, part: &Part) {
        let before = self.manifest.parts.iter().position(|one| one == part).unwrap_or_default();
        let done = self.manifest.parts.iter().take(before + 1).map(|part| part.bytes).sum();
        self.parts.progress.advanced(Stage::Copying, done, self.manifest.bytes());
    }

    /// Fills the tables. Returns the rows that were already damaged when they were copied. Errors
    /// if their number differs from the manifest.
    fn make_tables(&self, directory: &Path, epoch: Epoch) -> Result<DamagedRows, RestoreError> {
        let mut damage = DamagedRows::default();
        fill::<RestoreError>(
            directory,
            |filling| {
                for part in self.manifest.of_kind(PartKind::Rows) {
                    let raw = self.unpacked(part)?;
                    parts::rows::<RowError>(&raw, |table, key, row| {
                        damage.note_row(table, key, row);
                        filling.put(table, key, row).map_err(RowError::Tables)
                    })
                    .map_err(|error| match error {
                        RowError::Tables(error) => RestoreError::Tables(error),
                        RowError::Decode(error) => damaged(part, &error),
                    })?;
                    self.advanced(part);
                }
                Ok(())
            },
            |engine| engine.set_epoch(epoch),
        )?;
        // `fill` synced the files. Sync their directory entries too.
        sync(directory)?;
        if damage.rows == self.manifest.damaged_rows {
            return Ok(damage);
        }
        let (said, found) = (self.manifest.damaged_rows, damage.rows);
        Err(RestoreError::NotSound(format!("{found} rows are damaged; the manifest says {said}")))
    }

    fn make_log(&self, directory: &Path, tag: StoreTag) -> Result<(), RestoreError> {
        let of_part = |part: &Part| -> Vec<Result<Vec<u8>, RestoreError>> {
            let batches = self
                .unpacked(part)
                .and_then(|raw| parts::batches(&raw).map_err(|error| damaged(part, &error)));
            self.advanced(part);
            match batches {
                Ok(batches) => batches.into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error)],
            }
        };
        let batches = self.manifest.of_kind(PartKind::Log).flat_map(of_part);
        let after = BatchNumber(self.manifest.checkpoint);
        let end = log::write_segments(directory, tag, after, self.parts.segment_bytes, batches)?;
        if end.through != BatchNumber(self.manifest.through) {
            let why = format!("the log ends at batch {} instead of {}", end.through.0, self.manifest.through);
            return Err(ManifestError::Damaged(why).into());
        }
        Ok(())
    }

    fn unpacked(&self, part: &Part) -> Result<Vec<u8>, RestoreError> {
        parts::unpack(&self.fetch(part)?).map_err(|error| damaged(part, &error))
    }

    fn make_key(&self, building: &Path, part: &Part) -> Result<(), RestoreError> {
        use std::io::Write;
        use std::os::unix::fs::OpenOptionsExt;
        if !super::KEY_FILES.contains(&part.name.as_str()) {
            return Err(RestoreError::Damaged {
                name: part.name.clone(),
                why: "unknown key file".to_owned(),
            });
        }
        let path = building.join(&part.name);
        let bytes = self.fetch(part)?;
        let write = || -> io::Result<()> {
            let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
            file.write_all(&bytes)?;
            file.sync_all()
        };
        write().map_err(at(&path))
    }

    /// Checks the restored store more thoroughly than a start does, before a server can start on
    /// it.
    fn look_through(&self, building: &Path, damage: &DamagedRows) -> Result<(), RestoreError> {
        let report = check::check(CheckParts {
            data_dir: building.to_owned(),
            progress: Arc::clone(&self.parts.progress),
        })?;
        // The backup already reported rows that were damaged when it was made.
        match report.findings.iter().find(|finding| !damage.explains(finding)) {
            Some(finding) => Err(RestoreError::NotSound(finding.to_string())),
            None => Ok(()),
        }
    }

    fn move_into_place(&self, building: &Path) -> Result<bool, RestoreError> {
        let data_dir = &self.parts.data_dir;
        let keys: Vec<&str> = self.manifest.of_kind(PartKind::Key).map(|part| part.name.as_str()).collect();
        sync(building)?;
        for name in ["log", "tables"].iter().chain(&keys) {
            let to = data_dir.join(name);
            fs::rename(building.join(name), &to).map_err(at(&to))?;
        }
        sync(data_dir)?;
        fs::remove_dir_all(building).map_err(at(building))?;
        sync(data_dir)?;
        Ok(!keys.is_empty())
    }
}

/// Why a row could not be restored.
enum RowError {
    Tables(TablesError),
    Decode(DecodeError),
}

impl From<DecodeError> for RowError {
    fn from(error: DecodeError) -> RowError {
        RowError::Decode(error)
    }
}

fn damaged(part: &Part, error: &DecodeError) -> RestoreError {
    RestoreError::Damaged { name: part.name.clone(), why: error.to_string() }
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> RestoreError {
    let path = path.to_owned();
    move |error| RestoreError::Io { path, error }
}

/// Ensures that the directory exists and is empty. Returns whether it already existed.
fn make_empty(directory: &Path) -> Result<bool, RestoreError> {
    match look_empty(directory) {
        Ok(()) => Ok(true),
        Err(RestoreError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
            make_private(directory).map_err(at(directory))?;
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Errors unless the directory is empty. Ignores a lock file, which an earlier process may have
/// left.
fn look_empty(directory: &Path) -> Result<(), RestoreError> {
    if directory.join(RESTORING).exists() {
        return Err(RestoreError::Interrupted(directory.to_owned()));
    }
    for entry in fs::read_dir(directory).map_err(at(directory))? {
        if entry.map_err(at(directory))?.file_name() != lock::NAME {
            return Err(RestoreError::NotEmpty(directory.to_owned()));
        }
    }
    Ok(())
}

/// Removes the partial restore, so that the command can be repeated. Ignores errors: the next
/// attempt reports what is left.
fn clear_away(data_dir: &Path, was_there: bool) {
    let _left = fs::remove_dir_all(data_dir.join(RESTORING));
    let _left = fs::remove_file(data_dir.join(lock::NAME));
    if !was_there {
        let _left = fs::remove_dir(data_dir);
    }
}

/// Creates a directory that only its owner can access, because it will hold messages and keys.
fn make_private(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

fn sync(directory: &Path) -> Result<(), RestoreError> {
    fs::File::open(directory).and_then(|file| file.sync_all()).map_err(at(directory))
}
