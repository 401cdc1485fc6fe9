//! Making a data directory of a backup.
//!
//! Everything is built below `restoring` in the new directory and looked through there; then it is moved to its places, and
//! `restoring` goes last. While it is there, no server starts on the directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bluetick_archive::{Depot, VaultError};
use bluetick_core::Epoch;
use bluetick_core::ports::{Progress, Stage};
use bluetick_core::time::Clock;
use bytes::Bytes;
use thiserror::Error;
use tokio::runtime::Handle;

use super::manifest::{MANIFEST, Manifest, ManifestError, Part, PartKind};
use super::parts;
use crate::check::{self, CheckError, CheckParts};
use crate::codec::DecodeError;
use crate::log::{self, BatchNumber, LogError, StoreTag};
use crate::tables::{TablesError, fill};

/// Where a restore builds; there until it is done.
pub const RESTORING: &str = "restoring";

#[derive(Debug, Error)]
pub enum RestoreError {
    #[error("{0} holds no backup: {MANIFEST} is not there, which is written last")]
    NoBackup(String),
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error("{name} of the backup is damaged: {why}")]
    Damaged { name: String, why: String },
    #[error("{0}")]
    Unreachable(String),
    #[error("{} is not empty; a backup is restored into a new directory only", .0.display())]
    NotEmpty(PathBuf),
    #[error("{}: an earlier restore was interrupted; delete this directory and give the command again", .0.display())]
    Interrupted(PathBuf),
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error(transparent)]
    Tables(#[from] TablesError),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("what was restored cannot be looked through: {0}")]
    Check(#[from] CheckError),
    #[error(
        "what was restored is not sound, though every part is what was written: {0}. It stays in `{RESTORING}`"
    )]
    NotSound(String),
    #[error("the restore was interrupted")]
    Stopped,
}

pub struct RestoreParts {
    pub depot: Depot,
    /// Made where it is not there.
    pub data_dir: PathBuf,
    pub segment_bytes: u64,
    pub clock: Arc<dyn Clock>,
    pub progress: Arc<dyn Progress>,
}

/// What was restored.
#[derive(Clone, Debug)]
pub struct Restored {
    pub manifest: Manifest,
    /// What clients will be told. They drop what they keep, since it is another one.
    pub epoch: Epoch,
    pub with_keys: bool,
}

pub async fn restore(parts: RestoreParts) -> Result<Restored, RestoreError> {
    let manifest = read_manifest(&parts.depot).await?;
    let made = Handle::current();
    let work = tokio::task::spawn_blocking(move || Restore { parts, manifest, runtime: made }.run());
    work.await.map_err(|_| RestoreError::Stopped)?
}

async fn read_manifest(depot: &Depot) -> Result<Manifest, RestoreError> {
    match depot.get(MANIFEST).await {
        Ok(bytes) => Ok(Manifest::read(&bytes)?),
        Err(VaultError::Missing { .. }) => Err(RestoreError::NoBackup(depot.place().to_string())),
        Err(error) => Err(RestoreError::Unreachable(error.to_string())),
    }
}

struct Restore {
    parts: RestoreParts,
    manifest: Manifest,
    runtime: Handle,
}

impl Restore {
    fn run(self) -> Result<Restored, RestoreError> {
        let data_dir = &self.parts.data_dir;
        make_empty(data_dir)?;
        let building = data_dir.join(RESTORING);
        for directory in [building.clone(), building.join("tables"), building.join("log")] {
            make_private(&directory).map_err(at(&directory))?;
        }
        sync(data_dir)?;
        let (tag, epoch) = (self.tag()?, self.next_epoch());
        self.make_tables(&building.join("tables"), epoch)?;
        self.make_log(&building.join("log"), tag)?;
        for part in self.manifest.of_kind(PartKind::Key) {
            self.make_key(&building, part)?;
        }
        self.look_through(&building)?;
        let with_keys = self.move_into_place(&building)?;
        Ok(Restored { epoch, with_keys, manifest: self.manifest })
    }

    /// Other than any that clients may have been told, also by another restore of the same backup.
    fn next_epoch(&self) -> Epoch {
        let seconds = u64::try_from(self.parts.clock.now().millis() / 1000).unwrap_or_default();
        Epoch::new(seconds.max(self.manifest.epoch + 1))
    }

    fn tag(&self) -> Result<StoreTag, RestoreError> {
        let text = &self.manifest.store;
        let byte = |at: usize| text.get(at * 2..at * 2 + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
        let mut tag = [0; 8];
        for (at, slot) in tag.iter_mut().enumerate() {
            *slot = byte(at).ok_or_else(|| ManifestError::Damaged("the name of its store".to_owned()))?;
        }
        Ok(StoreTag(tag))
    }

    fn fetch(&self, part: &Part) -> Result<Bytes, RestoreError> {
        let bytes = match self.runtime.block_on(self.parts.depot.get(&part.name)) {
            Ok(bytes) => bytes,
            Err(VaultError::Missing { .. }) => {
                return Err(RestoreError::Damaged {
                    name: part.name.clone(),
                    why: "it is not there".to_owned(),
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

    fn make_tables(&self, directory: &Path, epoch: Epoch) -> Result<(), RestoreError> {
        fill(
            directory,
            |filling| {
                for part in self.manifest.of_kind(PartKind::Rows) {
                    let raw = self.unpacked(part)?;
                    parts::rows::<RowError>(&raw, |table, key, row| {
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
        )
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
                why: "there is no such key".to_owned(),
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

    /// What a start would find out, and more: before anybody can start on it.
    fn look_through(&self, building: &Path) -> Result<(), RestoreError> {
        let report = check::check(CheckParts {
            data_dir: building.to_owned(),
            progress: Arc::clone(&self.parts.progress),
        })?;
        match report.findings.first() {
            // It was as damaged when the backup was made, and said so.
            Some(finding) if self.manifest.damaged_rows == 0 => {
                Err(RestoreError::NotSound(finding.to_string()))
            }
            _ => Ok(()),
        }
    }

    fn move_into_place(&self, building: &Path) -> Result<bool, RestoreError> {
        let data_dir = &self.parts.data_dir;
        let keys: Vec<&str> = self.manifest.of_kind(PartKind::Key).map(|part| part.name.as_str()).collect();
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

/// Why a row could not be put.
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

fn make_empty(directory: &Path) -> Result<(), RestoreError> {
    if directory.join(RESTORING).exists() {
        return Err(RestoreError::Interrupted(directory.to_owned()));
    }
    match fs::read_dir(directory) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(RestoreError::NotEmpty(directory.to_owned())),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_private(directory).map_err(at(directory))
        }
        Err(error) => Err(at(directory)(error)),
    }
}

/// Messages and keys lie here: nobody else may look.
fn make_private(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

fn sync(directory: &Path) -> Result<(), RestoreError> {
    fs::File::open(directory).and_then(|file| file.sync_all()).map_err(at(directory))
}
