//! Opens the store that the settings name.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use bluetick_archive::{ObjectArchive, ObjectArchiveError};
use bluetick_core::ports::{
    Archive, CommitListener, Fleet, NoFleet, NoListener, Random, Store, StoreObserver, SystemRandom,
};
use bluetick_core::time::SystemClock;
use bluetick_store_cloud::hints::redis::RedisHints;
use bluetick_store_cloud::import::Marker;
use bluetick_store_cloud::neighbours::redis::RedisNeighbours;
use bluetick_store_cloud::redis::Redis;
use bluetick_store_cloud::rows::RowsError;
use bluetick_store_cloud::rows::dynamo::DynamoRows;
use bluetick_store_cloud::{CloudParts, CloudStore, NodeId, read_epoch};
use bluetick_store_embedded::lock::LockError;
use bluetick_store_embedded::{EmbeddedStore, OpenError, StoreParts};
use thiserror::Error;
use tokio::runtime::Handle;

use crate::failure::Failure;
use crate::running::known;
use crate::settings::{Engine, Settings};

#[derive(Debug, Error)]
pub enum CannotOpen {
    /// Another process uses the data directory. `address` is where it listens, once it serves.
    #[error("{reason}")]
    InUse { reason: String, address: Option<SocketAddr> },
    #[error("cannot open the store: {0}")]
    Failed(OpenError),
    #[error("cannot use the archive: {0}")]
    Archive(#[from] ObjectArchiveError),
    #[error("cannot open the store: {0}")]
    Tables(#[from] RowsError),
    #[error("cannot open the store: {0}")]
    Epoch(String),
    #[error("cannot open the store: {0}")]
    Half(String),
    #[error("cannot use Redis: {0}")]
    Redis(String),
}

/// The open store.
pub enum OpenStore {
    Embedded(Arc<EmbeddedStore>),
    Cloud(Arc<CloudStore>),
}

impl OpenStore {
    /// Opens the store. Blocks, after a crash for seconds. Tools pass no `listener`. The store of a
    /// fleet runs on `runtime`; call this outside of its async tasks.
    pub fn open(
        settings: &Settings,
        listener: Option<Arc<dyn CommitListener>>,
        observer: Arc<dyn StoreObserver>,
        runtime: &Handle,
    ) -> Result<OpenStore, CannotOpen> {
        match settings.store.engine {
            Engine::Embedded => OpenStore::open_embedded(settings, listener, observer),
            Engine::DynamoDb => runtime.block_on(OpenStore::open_cloud(settings, listener)),
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

    async fn open_cloud(
        settings: &Settings,
        listener: Option<Arc<dyn CommitListener>>,
    ) -> Result<OpenStore, CannotOpen> {
        let rows = DynamoRows::open(&settings.store.dynamodb).await?;
        whole_copy(&rows).await?;
        let redis = Redis::open(settings.store.redis()).await.map_err(CannotOpen::Redis)?;
        let redis = Arc::new(redis);
        let archive = settings.archive.clone();
        // A tool creates no archive. A missing one is on another machine or not mounted.
        let object_archive = match settings.missing_archive() {
            Some(_) if listener.is_none() => None,
            _ => ObjectArchive::open(&archive, &settings.store.data_dir)?.map(Arc::new),
        };
        let epoch = read_epoch(&rows).await.map_err(|error| CannotOpen::Epoch(error.to_string()))?;
        let node = new_node();
        let store = CloudStore::open(CloudParts {
            rows: Arc::new(rows),
            hints: Arc::new(RedisHints::new(Arc::clone(&redis))),
            neighbours: Arc::new(RedisNeighbours::new(redis, node.clone())),
            node,
            listener: listener.unwrap_or_else(|| Arc::new(NoListener)),
            clock: Arc::new(SystemClock),
            epoch,
            settings: settings.store.fleet(),
            object_archive,
            archive,
        });
        Ok(OpenStore::Cloud(Arc::new(store)))
    }

    pub fn store(&self) -> Arc<dyn Store> {
        match self {
            OpenStore::Embedded(store) => Arc::clone(store) as Arc<dyn Store>,
            OpenStore::Cloud(store) => Arc::clone(store) as Arc<dyn Store>,
        }
    }

    /// The archive of the store.
    pub fn archive(&self) -> Arc<dyn Archive> {
        match self {
            OpenStore::Embedded(store) => Arc::clone(store) as Arc<dyn Archive>,
            OpenStore::Cloud(store) => Arc::clone(store) as Arc<dyn Archive>,
        }
    }

    /// The other nodes of the fleet.
    pub fn fleet(&self) -> Arc<dyn Fleet> {
        match self {
            OpenStore::Embedded(_) => Arc::new(NoFleet),
            OpenStore::Cloud(store) => Arc::clone(store) as Arc<dyn Fleet>,
        }
    }

    pub fn announce(&self, address: SocketAddr) -> io::Result<()> {
        match self {
            OpenStore::Embedded(store) => store.announce(&address.to_string()),
            // Tools open the tables themselves.
            OpenStore::Cloud(_) => Ok(()),
        }
    }

    /// Stores the certificate of the server for tools on this machine. `None`: no TLS.
    pub fn announce_certificate(&self, data_dir: &Path, certificate: Option<&[u8]>) -> io::Result<()> {
        match self {
            OpenStore::Embedded(_) => known::note(data_dir, certificate),
            OpenStore::Cloud(_) => Ok(()),
        }
    }
}

/// Fails if a migration into the tables is unfinished.
pub async fn whole_copy(rows: &DynamoRows) -> Result<(), CannotOpen> {
    let copy = Marker::read(rows).await.map_err(|error| CannotOpen::Half(error.to_string()))?;
    if copy.is_some_and(|copy| copy.finished_at.is_none()) {
        let reason = "a copy into these tables is not finished; run `bluetick migrate` to finish it";
        return Err(CannotOpen::Half(reason.into()));
    }
    Ok(())
}

/// A random node id, unique to this run of the process.
fn new_node() -> NodeId {
    let mut bytes = [0; 8];
    SystemRandom.fill(&mut bytes);
    NodeId::new(format!("{:016x}", u64::from_be_bytes(bytes)))
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
