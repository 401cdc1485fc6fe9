//! Opens the store that the settings name.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use bluetick_archive::{ObjectArchive, ObjectArchiveError};
use bluetick_core::ports::{Archive, CommitListener, Fleet, NoFleet, Store, StoreObserver};
#[cfg(feature = "fleet")]
use bluetick_store_cloud::CloudStore;
#[cfg(feature = "fleet")]
use bluetick_store_cloud::rows::RowsError;
use bluetick_store_embedded::LockError;
use bluetick_store_embedded::{EmbeddedStore, OpenError, StoreParts};
use thiserror::Error;
use tokio::runtime::Handle;

use crate::failure::Failure;
#[cfg(feature = "fleet")]
use crate::fleet_store;
use crate::running::certificate_note;
use crate::settings::{Settings, StoreEngine};

#[derive(Debug, Error)]
pub enum CannotOpen {
    /// Another process uses the data directory. `address` is where it listens, once it serves.
    #[error("{reason}")]
    InUse { reason: String, address: Option<SocketAddr> },
    #[error("cannot open the store: {0}")]
    Failed(OpenError),
    #[error("cannot use the archive: {0}")]
    Archive(#[from] ObjectArchiveError),
    #[cfg(feature = "fleet")]
    #[error("cannot open the store: {0}")]
    Tables(#[from] RowsError),
    #[cfg(feature = "fleet")]
    #[error("cannot open the store: {0}")]
    Epoch(String),
    #[cfg(feature = "fleet")]
    #[error("cannot open the store: {0}")]
    Half(String),
    #[cfg(feature = "fleet")]
    #[error("cannot use Redis: {0}")]
    Redis(String),
}

/// The open store.
pub enum OpenStore {
    Embedded(Arc<EmbeddedStore>),
    #[cfg(feature = "fleet")]
    Cloud(Arc<CloudStore>),
}

impl OpenStore {
    /// Opens the store. Blocks, after a crash for seconds. Tools pass no `listener`. The store of a
    /// fleet runs on `runtime`; call this outside of its async tasks.
    #[cfg_attr(
        not(feature = "fleet"),
        expect(unused_variables, reason = "only the fleet engine runs on `runtime`")
    )]
    pub fn open(
        settings: &Settings,
        listener: Option<Arc<dyn CommitListener>>,
        observer: Arc<dyn StoreObserver>,
        runtime: &Handle,
    ) -> Result<OpenStore, CannotOpen> {
        match settings.store.engine {
            StoreEngine::Embedded => OpenStore::open_embedded(settings, listener, observer),
            #[cfg(feature = "fleet")]
            StoreEngine::DynamoDb => runtime.block_on(fleet_store::open(settings, listener)),
            #[cfg(not(feature = "fleet"))]
            StoreEngine::DynamoDb => {
                unreachable!("the settings refuse an engine that this binary does not contain")
            }
        }
    }

    fn open_embedded(
        settings: &Settings,
        listener: Option<Arc<dyn CommitListener>>,
        observer: Arc<dyn StoreObserver>,
    ) -> Result<OpenStore, CannotOpen> {
        let archive = settings.archive.clone();
        let object_archive = ObjectArchive::open(&archive, &settings.store.data_dir)?.map(Arc::new);
        let parts = StoreParts {
            listener,
            observer,
            object_archive,
            archive,
            ..StoreParts::new(settings.store.embedded.clone())
        };
        Ok(OpenStore::Embedded(Arc::new(EmbeddedStore::open(parts)?)))
    }

    pub fn store(&self) -> Arc<dyn Store> {
        match self {
            OpenStore::Embedded(store) => Arc::clone(store) as Arc<dyn Store>,
            #[cfg(feature = "fleet")]
            OpenStore::Cloud(store) => Arc::clone(store) as Arc<dyn Store>,
        }
    }

    /// The archive of the store.
    pub fn archive(&self) -> Arc<dyn Archive> {
        match self {
            OpenStore::Embedded(store) => Arc::clone(store) as Arc<dyn Archive>,
            #[cfg(feature = "fleet")]
            OpenStore::Cloud(store) => Arc::clone(store) as Arc<dyn Archive>,
        }
    }

    /// The other nodes of the fleet.
    pub fn fleet(&self) -> Arc<dyn Fleet> {
        match self {
            OpenStore::Embedded(_) => Arc::new(NoFleet),
            #[cfg(feature = "fleet")]
            OpenStore::Cloud(store) => Arc::clone(store) as Arc<dyn Fleet>,
        }
    }

    pub fn announce(&self, address: SocketAddr) -> io::Result<()> {
        match self {
            OpenStore::Embedded(store) => store.announce(&address.to_string()),
            // Tools open the tables themselves.
            #[cfg(feature = "fleet")]
            OpenStore::Cloud(_) => Ok(()),
        }
    }

    /// Stores the certificate of the server for tools on this machine. `None`: no TLS.
    pub fn announce_certificate(&self, data_dir: &Path, certificate: Option<&[u8]>) -> io::Result<()> {
        match self {
            OpenStore::Embedded(_) => certificate_note::note(data_dir, certificate),
            #[cfg(feature = "fleet")]
            OpenStore::Cloud(_) => Ok(()),
        }
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
