//! Opens the store that the settings name.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bluetick_archive::{Vault, VaultError};
use bluetick_core::ports::{Archive, CommitListener, Store, StoreObserver};
use bluetick_store_embedded::lock::LockError;
use bluetick_store_embedded::{EmbeddedStore, OpenError, StoreParts};
use thiserror::Error;

use crate::failure::Failure;
use crate::settings::Settings;

#[derive(Debug, Error)]
pub enum CannotOpen {
    /// Another process has the data directory; where that one listens, if it serves already.
    #[error("{reason}")]
    InUse { reason: String, address: Option<SocketAddr> },
    #[error("cannot open the store: {0}")]
    Failed(OpenError),
    #[error("cannot use the archive: {0}")]
    Archive(#[from] VaultError),
}

/// The store, and the way to tell others on this machine where its server listens.
pub struct OpenStore {
    embedded: Arc<EmbeddedStore>,
}

impl OpenStore {
    /// Blocks; may take seconds after a crash. Without a listener for a tool that only looks or changes users.
    pub fn open(
        settings: &Settings,
        listener: Option<Arc<dyn CommitListener>>,
        observer: Arc<dyn StoreObserver>,
    ) -> Result<OpenStore, CannotOpen> {
        let archive = settings.archive.clone();
        let vault = Vault::open(&archive, &settings.store.data_dir)?.map(Arc::new);
        let parts =
            StoreParts { listener, observer, vault, archive, ..StoreParts::new(settings.store.clone()) };
        let embedded = EmbeddedStore::open(parts)?;
        Ok(OpenStore { embedded: Arc::new(embedded) })
    }

    pub fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.embedded) as Arc<dyn Store>
    }

    /// Where its old messages go.
    pub fn archive(&self) -> Arc<dyn Archive> {
        Arc::clone(&self.embedded) as Arc<dyn Archive>
    }

    pub fn announce(&self, address: SocketAddr) -> io::Result<()> {
        self.embedded.announce(&address.to_string())
    }
}

impl From<OpenError> for CannotOpen {
    fn from(error: OpenError) -> CannotOpen {
        let reason = error.to_string();
        match error {
            OpenError::Lock { error: LockError::InUse(holder), .. } => {
                let address = holder.address.and_then(|address| address.parse().ok());
                CannotOpen::InUse { reason, address }
            }
            other => CannotOpen::Failed(other),
        }
    }
}

impl From<CannotOpen> for Failure {
    fn from(error: CannotOpen) -> Failure {
        Failure::failed(error)
    }
}
