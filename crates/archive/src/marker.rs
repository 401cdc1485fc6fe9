//! The object that says whose archive a place is. Without it, a wrong bucket or a directory that is not mounted looks
//! like an archive that has lost everything, and takes new segments as gladly as the right one.
//!
//! It is made before the first segment of a store and stays when the last one goes. What is in it is for people: that
//! it is there is what counts.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use object_store::PutMode;
use object_store::path::Path;

use crate::VaultError;
use crate::fetch::{Remote, was_not_new};
use crate::name::StoreText;
use crate::staging::settle_put;

type Store = [u8; 8];

/// Which stores' markers this process has seen.
#[derive(Default)]
pub(crate) struct Markers {
    seen: Mutex<HashSet<Store>>,
}

/// What it is called, beside the conversations of its store.
pub(crate) const FILE: &str = "ARCHIVE.txt";

/// Its key below the prefix.
pub(crate) fn key(store: Store) -> String {
    format!("{}/{FILE}", StoreText(store))
}

fn text(store: Store) -> String {
    format!(
        "Bluetick keeps the old messages of a chat server here: those of the store {}.\n\
         The server takes this for its archive only while this object is here. Do not delete it, and if you move the \
         archive, move it along.\n",
        StoreText(store)
    )
}

impl Markers {
    /// Fails where a store has put nothing yet, and where it is another place than the one it has put into.
    pub(crate) async fn must_be_there(&self, remote: &Remote, store: Store) -> Result<(), VaultError> {
        let key = key(store);
        match remote.whole(&remote.path(&key), &key).await {
            Ok(_) => {
                self.seen.lock().unwrap_or_else(PoisonError::into_inner).insert(store);
                Ok(())
            }
            Err(VaultError::Missing { .. }) => Err(VaultError::Unavailable(format!(
                "{} does not hold this store's archive ({key} is not there); were the settings of [archive] changed, \
                 or is the directory not mounted?",
                remote.engine().place
            ))),
            Err(error) => Err(error),
        }
    }

    /// Before a segment is put.
    pub(crate) async fn make(&self, remote: &Remote, store: Store) -> Result<(), VaultError> {
        if self.seen.lock().unwrap_or_else(PoisonError::into_inner).contains(&store) {
            // A bucket stays the same one while the process runs. A directory may not: looking costs little there.
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
        // Segments are believed to be here for as long as it can be read.
        self.must_be_there(remote, store).await
    }

    /// It is there already, or the object store knows no condition.
    async fn settle(
        &self,
        remote: &Remote,
        store: Store,
        path: &Path,
        bytes: &Bytes,
    ) -> Result<(), VaultError> {
        match remote.whole(path, &key(store)).await {
            Ok(_) => {
                // Whoever put it may have died before it would outlast a power loss.
                let path = path.clone();
                remote.on_directory(move |root| settle_put(root, path.as_ref())).await.map(drop)
            }
            Err(VaultError::Missing { .. }) => {
                let written = remote.write(path, bytes, PutMode::Overwrite).await?;
                written.map_err(|error| remote.failed(&error))
            }
            Err(error) => Err(error),
        }
    }

    /// A segment that is missing where the archive is was lost. Elsewhere it is still where it was put.
    pub(crate) async fn judge<T>(
        &self,
        remote: &Remote,
        store: Store,
        found: Result<T, VaultError>,
    ) -> Result<T, VaultError> {
        if matches!(found, Err(VaultError::Missing { .. })) {
            self.must_be_there(remote, store).await?;
        }
        found
    }
}
