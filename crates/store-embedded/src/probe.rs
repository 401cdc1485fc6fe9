//! Checks whether a data directory could be opened, without changing it.

use std::path::Path;

use crate::lock::DataLock;
use crate::log::segment;
use crate::open::OpenError;
use crate::recovery::RecoveryError;
use crate::tables::read_markers;

/// Fails where opening the directory would fail. For example, another process uses it, a newer
/// program wrote it, or a restore was not finished. It also fails if the log and the tables do not
/// belong together. Accepts a missing or empty directory. Does not look for damage inside the log
/// and the tables; see [`check`](crate::check::check).
pub fn probe(directory: &Path) -> Result<(), OpenError> {
    if directory.join(crate::backup::RESTORING).exists() {
        return Err(OpenError::HalfRestored(directory.to_owned()));
    }
    let lock = DataLock::hold(directory)
        .map_err(|error| OpenError::Lock { directory: directory.to_owned(), error })?;
    let (log, tables) = (directory.join("log"), directory.join("tables"));
    let markers = read_markers(&tables)?;
    let mut segments = Vec::new();
    if log.is_dir() {
        segments = segment::list(&log).map_err(|error| OpenError::Io { path: log.clone(), error })?;
    }
    for (_, path) in &segments {
        segment::read_header(path).map_err(|error| OpenError::Recovery(RecoveryError::from(error)))?;
    }
    drop(lock);
    match (markers.identity, segments.is_empty()) {
        (None, false) => Err(OpenError::LogWithoutTables(log)),
        (Some(_), true) if markers.log_started => Err(OpenError::TablesWithoutLog(log)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::time::SystemTime;

    use super::*;
    use crate::lock::LockError;
    use crate::tables::TablesError;
    use crate::{EmbeddedStore, StoreParts, StoreSettings};

    async fn store_in(directory: &Path) -> EmbeddedStore {
        let settings = StoreSettings { data_dir: directory.to_owned(), ..StoreSettings::default() };
        EmbeddedStore::open(StoreParts::new(settings)).unwrap()
    }

    /// Records every path with its length and modification time.
    fn everything(directory: &Path, found: &mut BTreeMap<std::path::PathBuf, (u64, SystemTime)>) {
        let about = fs::metadata(directory).unwrap();
        found.insert(directory.to_owned(), (about.len(), about.modified().unwrap()));
        if about.is_dir() {
            fs::read_dir(directory).unwrap().for_each(|entry| everything(&entry.unwrap().path(), found));
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn probe_of_empty_or_closed_directory_succeeds_and_changes_nothing() {
        use bluetick_core::ports::Store;
        let directory = tempfile::tempdir().unwrap();
        probe(&directory.path().join("missing")).unwrap();
        probe(directory.path()).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        store_in(directory.path()).await.close().await;
        let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
        everything(directory.path(), &mut before);
        probe(directory.path()).unwrap();
        everything(directory.path(), &mut after);
        assert_eq!(before, after);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn probe_of_directory_in_use_is_refused_and_names_the_holder() {
        use bluetick_core::ports::Store;
        let directory = tempfile::tempdir().unwrap();
        let store = store_in(directory.path()).await;
        store.announce("127.0.0.1:8080").unwrap();
        match probe(directory.path()) {
            Err(OpenError::Lock { error: LockError::InUse(holder), .. }) => {
                assert_eq!(holder.process, std::process::id().to_string());
                assert_eq!(holder.address.as_deref(), Some("127.0.0.1:8080"));
            }
            other => panic!("{other:?}"),
        }
        store.close().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn newer_format_or_missing_log_or_tables_is_refused() {
        use bluetick_core::ports::Store;
        let directory = tempfile::tempdir().unwrap();
        let (log, tables) = (directory.path().join("log"), directory.path().join("tables"));
        store_in(directory.path()).await.close().await;
        fs::rename(&log, directory.path().join("aside")).unwrap();
        assert!(matches!(probe(directory.path()), Err(OpenError::TablesWithoutLog(_))));
        fs::rename(directory.path().join("aside"), &log).unwrap();
        fs::rename(&tables, directory.path().join("aside")).unwrap();
        assert!(matches!(probe(directory.path()), Err(OpenError::LogWithoutTables(_))));
        fs::rename(directory.path().join("aside"), &tables).unwrap();
        crate::tables::pretend_version(&tables, 99);
        let refused = probe(directory.path());
        assert!(matches!(refused, Err(OpenError::Tables(TablesError::TooNew { found: 99 }))), "{refused:?}");
    }
}
