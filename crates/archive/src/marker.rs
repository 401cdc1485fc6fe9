//! The marker object that identifies the archive of a store. Without it, a wrong bucket or an
//! unmounted directory would look like an archive that lost everything, and would accept new
//! segments.
//!
//! The marker is created before the first segment of a store and never deleted. Only its existence
//! matters; its text is for operators.

use std::collections::HashSet;

use bytes::Bytes;
use object_store::PutMode;
use object_store::path::Path;
use parking_lot::Mutex;

use crate::ObjectArchiveError;
use crate::fetch::{Remote, was_not_new};
use crate::name::StoreText;
use crate::staging::settle_put;

type StoreNumber = [u8; 8];

/// The stores whose markers this process has seen.
#[derive(Default)]
pub(crate) struct Markers {
    seen: Mutex<HashSet<StoreNumber>>,
}

/// Name of the marker, next to the conversations of its store. Part of the stored format: with
/// another name, existing archives count as missing.
pub(crate) const FILE: &str = "ARCHIVE.txt";

/// Returns the key of the marker, below the prefix.
pub(crate) fn key(store: StoreNumber) -> String {
    format!("{}/{FILE}", StoreText(store))
}

/// Returns the text of the marker.
fn text(store: StoreNumber) -> String {
    format!(
        "Bluetick keeps the old messages of a chat server here: those of the store {}.\n\
         The server takes this for its archive only while this object is here. Do not delete it, and if you move the \
         archive, move it along.\n",
        StoreText(store)
    )
}

impl Markers {
    /// Fails unless the marker of the store exists. It is missing if the store has put nothing yet,
    /// or if this is another location.
    pub(crate) async fn must_be_there(
        &self,
        remote: &Remote,
        store: StoreNumber,
    ) -> Result<(), ObjectArchiveError> {
        let key = key(store);
        match remote.whole(&remote.path(&key), &key).await {
            Ok(_) => {
                self.seen.lock().insert(store);
                Ok(())
            }
            Err(ObjectArchiveError::Missing { .. }) => Err(ObjectArchiveError::Unavailable(format!(
                "{} does not hold this store's archive ({key} is missing); were the settings of [archive] changed, \
                 or is the directory not mounted?",
                remote.engine().place
            ))),
            Err(error) => Err(error),
        }
    }

    /// Creates the marker if needed. Call it before a segment is put. Fails if a known marker is
    /// missing from a directory.
    pub(crate) async fn make(&self, remote: &Remote, store: StoreNumber) -> Result<(), ObjectArchiveError> {
        if self.seen.lock().contains(&store) {
            // A bucket cannot change while the process runs. A directory can be unmounted, and
            // checking it is cheap.
            return match remote.engine().directory {
                Some(_) => self.must_be_there(remote, store).await,
                None => Ok(()),
            };
        }
        let (path, bytes) = (remote.path(&key(store)), Bytes::from(text(store)));
        match remote.write(&path, &bytes, PutMode::Create).await? {
            Ok(()) => {}
            Err(error) if was_not_new(&error) => self.settle(remote, store, &path, &bytes).await?,
            Err(error) => return Err(remote.failed(&error)),
        }
        // Read it back: segments count as present only while the marker is readable.
        self.must_be_there(remote, store).await
    }

    /// Handles a marker that exists, or an object store without put-if-absent.
    async fn settle(
        &self,
        remote: &Remote,
        store: StoreNumber,
        path: &Path,
        bytes: &Bytes,
    ) -> Result<(), ObjectArchiveError> {
        match remote.whole(path, &key(store)).await {
            Ok(_) => {
                // The process that wrote it may have crashed before the fsync.
                let path = path.clone();
                remote.on_directory(move |root| settle_put(root, path.as_ref())).await.map(drop)
            }
            Err(ObjectArchiveError::Missing { .. }) => {
                let written = remote.write(path, bytes, PutMode::Overwrite).await?;
                written.map_err(|error| remote.failed(&error))
            }
            Err(error) => Err(error),
        }
    }

    /// Checks a `Missing` error against the marker. If the marker exists, the segment is lost. If
    /// not, this is another location, and the error becomes `Unavailable`.
    pub(crate) async fn judge<T>(
        &self,
        remote: &Remote,
        store: StoreNumber,
        found: Result<T, ObjectArchiveError>,
    ) -> Result<T, ObjectArchiveError> {
        if matches!(found, Err(ObjectArchiveError::Missing { .. })) {
            self.must_be_there(remote, store).await?;
        }
        found
    }
}
