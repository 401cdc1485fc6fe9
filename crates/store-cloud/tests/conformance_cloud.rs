//! The suite on the real servers: DynamoDB Local with one Redis, and with a Redis Cluster of six.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod rows_common;

use std::marker::PhantomData;
use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use bluetick_archive::ArchiveSettings;
use bluetick_conformance::{Harness, NOW};
use bluetick_core::Epoch;
use bluetick_core::ports::{CommitListener, Store};
use bluetick_core::time::ManualClock;
use bluetick_store_cloud::hints::redis::RedisHints;
use bluetick_store_cloud::neighbours::redis::RedisNeighbours;
use bluetick_store_cloud::redis::{Redis, RedisMode, RedisSettings};
use bluetick_store_cloud::rows::dynamo::{DynamoRows, DynamoSettings};
use bluetick_store_cloud::{CloudParts, CloudStore, EngineSettings, NodeId};
use bluetick_testkit::dynamo::DynamoServer;
use bluetick_testkit::redis::{RedisCluster, RedisOptions, RedisServer};

static SINGLE: LazyLock<RedisServer> = LazyLock::new(RedisServer::start);
// However busy the machine, no failover happens by itself here.
static CLUSTER: LazyLock<RedisCluster> = LazyLock::new(|| {
    RedisCluster::start_with(RedisOptions::default().with("cluster-node-timeout", "120000"))
});

/// A busy machine is no fault, here and in what follows.
const REDIS_TIMEOUT_MS: u64 = 10_000;

/// Which Redis.
trait Shape: Send + Sync + 'static {
    fn settings() -> RedisSettings;
}

struct Single;
struct Cluster;

impl Shape for Single {
    fn settings() -> RedisSettings {
        RedisSettings { urls: vec![SINGLE.url()], timeout_ms: REDIS_TIMEOUT_MS, ..RedisSettings::default() }
    }
}

impl Shape for Cluster {
    fn settings() -> RedisSettings {
        let (urls, mode) = (CLUSTER.urls(), RedisMode::Cluster);
        RedisSettings { urls, mode, timeout_ms: REDIS_TIMEOUT_MS, ..RedisSettings::default() }
    }
}

struct Cloud<S> {
    rows: Arc<DynamoRows>,
    redis: Arc<Redis>,
    store: Arc<CloudStore>,
    shape: PhantomData<S>,
}

/// Nothing else on these servers has this name.
fn new_name() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NAMES: AtomicU64 = AtomicU64::new(0);
    format!("{}-{}", std::process::id(), NAMES.fetch_add(1, Ordering::Relaxed))
}

impl<S: Shape> Cloud<S> {
    fn open(rows: Arc<DynamoRows>, redis: Arc<Redis>, listener: Arc<dyn CommitListener>) -> Cloud<S> {
        let node = NodeId::new(new_name());
        let store = CloudStore::open(CloudParts {
            rows: rows.clone(),
            hints: Arc::new(RedisHints::new(redis.clone())),
            neighbours: Arc::new(RedisNeighbours::new(redis.clone(), node.clone())),
            node,
            listener,
            clock: Arc::new(ManualClock::at(NOW)),
            epoch: Epoch::FIRST,
            settings: EngineSettings {
                void_after_ms: 10_000,
                send_deadline_ms: 180_000,
                ..EngineSettings::default()
            },
            object_archive: None,
            archive: ArchiveSettings::default(),
        });
        Cloud { rows, redis, store: Arc::new(store), shape: PhantomData }
    }
}

#[async_trait]
impl<S: Shape> Harness for Cloud<S> {
    async fn start(listener: Arc<dyn CommitListener>) -> Cloud<S> {
        let server = DynamoServer::shared().await;
        let settings = DynamoSettings {
            attempt_timeout_ms: 30_000,
            deadline_ms: 180_000,
            ..rows_common::settings(server.endpoint())
        };
        let rows = Arc::new(rows_common::rows_through(&settings).await);
        let settings = tokio::task::spawn_blocking(S::settings).await.unwrap();
        // Every case is a fleet of its own. In one for all, each would tell its news to the nodes of the cases before it,
        // and go through all their conversations when those seem to have died.
        let settings = RedisSettings { prefix: format!("bt-{}", new_name()), ..settings };
        Cloud::open(rows, Arc::new(Redis::open(settings).await.unwrap()), listener)
    }

    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    async fn crash_and_restart(self, listener: Arc<dyn CommitListener>) -> Cloud<S> {
        let Cloud { rows, redis, store, .. } = self;
        drop(store);
        Cloud::open(rows, redis, listener)
    }

    async fn close_and_reopen(self, listener: Arc<dyn CommitListener>) -> Cloud<S> {
        self.store.close().await;
        self.crash_and_restart(listener).await
    }
}

mod on_one_redis {
    bluetick_conformance::suite!(super::Cloud<super::Single>);
}

mod on_a_redis_cluster {
    bluetick_conformance::suite!(super::Cloud<super::Cluster>);
}
