//! Opens the store of a fleet: the tables, Redis, and this node's part in them.

use std::sync::Arc;

use bluetick_archive::ObjectArchive;
use bluetick_core::ports::{CommitListener, NoListener, Random, SystemRandom};
use bluetick_core::time::SystemClock;
use bluetick_store_cloud::hints::redis::RedisHints;
use bluetick_store_cloud::import::Marker;
use bluetick_store_cloud::neighbours::redis::RedisNeighbours;
use bluetick_store_cloud::redis::Redis;
use bluetick_store_cloud::rows::dynamo::DynamoRows;
use bluetick_store_cloud::{CloudParts, CloudStore, NodeId, read_epoch};

use crate::settings::Settings;
use crate::store::{CannotOpen, OpenStore};

/// Opens the store of a node, and its archive. Tools pass no `listener`.
pub async fn open(
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
