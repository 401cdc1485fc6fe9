//! A backup destination: whole objects under plain names, each written once. It is a directory, or
//! a bucket with the region, endpoint and credentials of the archive.

use std::fmt;
use std::io::{self, Write};
use std::path::{Path as FilePath, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::StreamExt;
use object_store::PutMode;

use crate::engine::{self, ObjectBackend};
use crate::fetch::{Remote, was_not_new};
use crate::{ArchiveSettings, ObjectArchiveError};

/// Minimum timeout of one request, even if `archive.timeout_seconds` is lower. With a shorter one,
/// a large backup object fails over a slow network.
const LEAST_TIMEOUT: Duration = Duration::from_secs(60);

/// The location of a backup destination: a directory, or `s3://bucket/prefix`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupLocation {
    Directory(PathBuf),
    Bucket { bucket: String, prefix: String },
}

impl FromStr for BackupLocation {
    type Err = String;

    fn from_str(text: &str) -> Result<BackupLocation, String> {
        let Some(rest) = text.strip_prefix("s3://") else {
            if text.is_empty() || text.contains("://") {
                return Err("a backup destination is a directory or s3://bucket/prefix".to_owned());
            }
            return Ok(BackupLocation::Directory(text.into()));
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_end_matches('/');
        if bucket.is_empty() || prefix.is_empty() {
            return Err("a backup in a bucket needs a prefix: s3://bucket/prefix".to_owned());
        }
        Ok(BackupLocation::Bucket { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
    }
}

impl fmt::Display for BackupLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BackupLocation::Directory(directory) => write!(f, "{}", directory.display()),
            BackupLocation::Bucket { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
        }
    }
}

/// A backup destination.
pub struct BackupDestination {
    remote: Remote,
    place: BackupLocation,
}

impl BackupDestination {
    /// Opens the destination. A bucket uses the region, endpoint and timeout of `settings`, and
    /// ignores their bucket and prefix. A missing directory is created if `make` is set, else it is
    /// an error.
    pub fn open(
        place: &BackupLocation,
        settings: &ArchiveSettings,
        make: bool,
    ) -> Result<BackupDestination, ObjectArchiveError> {
        let engine = match place {
            BackupLocation::Directory(root) => open_directory(root, make)?,
            BackupLocation::Bucket { bucket, prefix } => open_bucket(bucket, prefix, settings)?,
        };
        let remote = Remote::new(engine, settings.timeout().max(LEAST_TIMEOUT));
        Ok(BackupDestination { remote, place: place.clone() })
    }

    pub fn place(&self) -> &BackupLocation {
        &self.place
    }

    /// Returns whether the destination is a directory.
    pub fn is_directory(&self) -> bool {
        matches!(self.place, BackupLocation::Directory(_))
    }

    /// Returns whether the destination is a directory that group or others can access. A directory
    /// created by [`BackupDestination::open`] is not.
    pub fn is_open_to_others(&self) -> bool {
        use std::os::unix::fs::PermissionsExt;
        match &self.place {
            BackupLocation::Directory(root) => {
                std::fs::metadata(root).is_ok_and(|root| root.permissions().mode() & 0o077 != 0)
            }
            BackupLocation::Bucket { .. } => false,
        }
    }

    /// Returns whether the destination holds no object and no file.
    pub async fn is_empty(&self) -> Result<bool, ObjectArchiveError> {
        if let BackupLocation::Directory(root) = &self.place {
            // List the directory itself: the object store hides some files.
            let mut entries =
                std::fs::read_dir(root).map_err(|error| self.remote.unavailable(&error.to_string()))?;
            return Ok(entries.next().is_none());
        }
        let prefix = object_store::path::Path::from(self.remote.engine().prefix.clone());
        let mut listed = self.remote.objects().list(Some(&prefix));
        let first = self.remote.ask(async { listed.next().await.transpose() }).await?;
        Ok(first.map_err(|error| self.remote.failed(&error))?.is_none())
    }

    /// Writes an object that does not exist yet; it is durable on return. Succeeds if the same
    /// bytes exist, and fails if others do. A file is readable by its owner only.
    pub async fn put(&self, name: &str, bytes: &Bytes) -> Result<(), ObjectArchiveError> {
        if self.is_directory() {
            let (file, bytes) = (name.to_owned(), bytes.clone());
            return self.remote.on_directory(move |root| put_file(root, &file, &bytes)).await.map(drop);
        }
        let path = self.remote.path(name);
        match self.remote.write(&path, bytes, PutMode::Create).await? {
            Ok(()) => {}
            Err(error) if was_not_new(&error) => match self.remote.whole(&path, name).await {
                // An earlier attempt succeeded, but its response was lost.
                Ok(there) if there == *bytes => {}
                Ok(_) => return Err(self.remote.unavailable(&format!("{name} already exists"))),
                // The object store does not support put-if-absent.
                Err(ObjectArchiveError::Missing { .. }) => {
                    let written = self.remote.write(&path, bytes, PutMode::Overwrite).await?;
                    written.map_err(|error| self.remote.failed(&error))?;
                }
                Err(error) => return Err(error),
            },
            Err(error) => return Err(self.remote.failed(&error)),
        }
        Ok(())
    }

    /// Reads a whole object.
    pub async fn get(&self, name: &str) -> Result<Bytes, ObjectArchiveError> {
        self.remote.whole(&self.remote.path(name), name).await
    }
}

/// Writes a file under a temporary name and then links it, so that a reader never sees a partial
/// file.
fn put_file(root: &FilePath, name: &str, bytes: &[u8]) -> io::Result<u64> {
    use std::os::unix::fs::OpenOptionsExt;
    let (draft, path) = (root.join(format!(".{name}.new")), root.join(name));
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    // A hard link fails if the name exists; a rename would replace the existing file.
    let linked = std::fs::hard_link(&draft, &path);
    std::fs::remove_file(&draft)?;
    match linked {
        // An earlier attempt has written the same bytes.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && std::fs::read(&path)? == bytes => {}
        other => other.map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))?,
    }
    engine::sync_directory(root)?;
    Ok(0)
}

/// Opens a directory as an object store.
fn open_directory(root: &FilePath, make: bool) -> Result<ObjectBackend, ObjectArchiveError> {
    let wrong = |why: &str| ObjectArchiveError::Settings(format!("{} cannot be used: {why}", root.display()));
    if !make && !root.is_dir() {
        return Err(wrong("there is no such directory"));
    }
    engine::open_directory(root).map_err(|why| wrong(&why))
}

/// Opens a bucket with the connection settings of the archive.
fn open_bucket(
    bucket: &str,
    prefix: &str,
    settings: &ArchiveSettings,
) -> Result<ObjectBackend, ObjectArchiveError> {
    let settings = ArchiveSettings {
        engine: crate::ArchiveEngine::S3,
        bucket: bucket.to_owned(),
        prefix: prefix.to_owned(),
        ..settings.clone()
    };
    let opened = engine::open(&settings, FilePath::new(""), &|name| std::env::var(name).ok())?;
    opened.ok_or_else(|| ObjectArchiveError::Settings("there is no such bucket".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backup_location_parses_as_directory_or_bucket_prefix() {
        let bucket = |bucket: &str, prefix: &str| BackupLocation::Bucket {
            bucket: bucket.into(),
            prefix: prefix.into(),
        };
        assert_eq!(
            "/var/backups/monday".parse(),
            Ok(BackupLocation::Directory("/var/backups/monday".into()))
        );
        assert_eq!("s3://safe/chat/monday/".parse(), Ok(bucket("safe", "chat/monday")));
        for wrong in ["", "s3://", "s3://bucket", "s3:///x", "https://example.org/x"] {
            assert!(wrong.parse::<BackupLocation>().is_err(), "{wrong}");
        }
    }

    #[tokio::test]
    async fn second_put_with_other_bytes_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let place = BackupLocation::Directory(root.path().join("new"));
        assert!(BackupDestination::open(&place, &ArchiveSettings::default(), false).is_err());
        let destination = BackupDestination::open(&place, &ArchiveSettings::default(), true).unwrap();
        assert!(destination.is_empty().await.unwrap());
        destination.put("one", &Bytes::from_static(b"1")).await.unwrap();
        destination.put("one", &Bytes::from_static(b"1")).await.unwrap();
        assert!(destination.put("one", &Bytes::from_static(b"2")).await.is_err());
        assert_eq!(destination.get("one").await.unwrap(), "1");
        assert!(!destination.is_empty().await.unwrap());
        assert_eq!(std::fs::read_dir(root.path().join("new")).unwrap().count(), 1, "no draft is left");
    }

    #[tokio::test]
    async fn backup_files_are_private_even_in_a_shared_directory() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        let mode = |path: &FilePath| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let open = |path: &FilePath| {
            BackupDestination::open(
                &BackupLocation::Directory(path.to_owned()),
                &ArchiveSettings::default(),
                true,
            )
            .unwrap()
        };
        let made = root.path().join("made");
        assert!(!open(&made).is_open_to_others());
        assert_eq!(mode(&made), 0o700);
        let there = root.path().join("there");
        std::fs::create_dir(&there).unwrap();
        std::fs::set_permissions(&there, std::fs::Permissions::from_mode(0o755)).unwrap();
        let destination = open(&there);
        assert!(destination.is_open_to_others());
        destination.put("one", &Bytes::from_static(b"1")).await.unwrap();
        assert_eq!((mode(&there), mode(&there.join("one"))), (0o755, 0o600));
    }
}
