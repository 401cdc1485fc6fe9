//! The dependencies of a fleet: its own tables on the shared DynamoDB Local, and a Redis.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use bluetick_store_cloud::rows::dynamo::{Connection, DynamoSettings, tables};
use bluetick_testkit::dynamo::DynamoServer;
use bluetick_testkit::fleet::FleetProcesses;
use bluetick_testkit::load::ADMIN_KEY;
use bluetick_testkit::process::Launcher;
use bluetick_testkit::redis::{RedisCluster, RedisServer};

pub struct FleetDependencies {
    dynamo: &'static DynamoServer,
    tables: String,
    redis: [(&'static str, String); 2],
}

/// Counter that gives every fleet of this process its own tables.
static FLEETS: AtomicU32 = AtomicU32::new(0);

impl FleetDependencies {
    pub async fn on(redis: &RedisServer) -> FleetDependencies {
        FleetDependencies::with("single", redis.url()).await
    }

    pub async fn on_cluster(redis: &RedisCluster) -> FleetDependencies {
        FleetDependencies::with("cluster", redis.urls().join(",")).await
    }

    async fn with(mode: &str, urls: String) -> FleetDependencies {
        let dynamo = DynamoServer::shared().await;
        let tables = format!("fleet{}_", FLEETS.fetch_add(1, Ordering::Relaxed));
        let settings = DynamoSettings {
            endpoint: Some(dynamo.endpoint()),
            region: Some("us-east-1".to_owned()),
            table_prefix: tables.clone(),
            ..DynamoSettings::default()
        };
        let [(_, access_key_id), (_, secret_access_key)] = dynamo.credentials();
        let connection = Connection::with_keys(&settings, access_key_id, secret_access_key).await.unwrap();
        tables::create(&connection).await.unwrap();
        let redis = [("BLUETICK_STORE__REDIS__MODE", mode.to_owned()), ("BLUETICK_STORE__REDIS__URLS", urls)];
        FleetDependencies { dynamo, tables, redis }
    }

    pub fn dynamo(&self) -> &'static DynamoServer {
        self.dynamo
    }

    /// A launcher for a node that reaches the tables at `endpoint`.
    pub fn launcher(&self, data_dir: &Path, endpoint: &str) -> Launcher {
        let mut launcher = Launcher::new(env!("CARGO_BIN_EXE_bluetick"), data_dir)
            .with("BLUETICK_STORE__ENGINE", "dynamodb")
            .with("BLUETICK_STORE__DYNAMODB__ENDPOINT", endpoint)
            .with("BLUETICK_STORE__DYNAMODB__REGION", "us-east-1")
            .with("BLUETICK_STORE__DYNAMODB__TABLE_PREFIX", &self.tables)
            // Allow a slow machine: only real faults of Redis should time out.
            .with("BLUETICK_STORE__REDIS__TIMEOUT_MS", "1000")
            .with("BLUETICK_LIMITS__SENDS_PER_SECOND", "0")
            .with("BLUETICK_LIMITS__REQUESTS_PER_SECOND", "0")
            .with("BLUETICK_LIMITS__ACKS_PER_SECOND", "0")
            .with("BLUETICK_LIMITS__BACKLOG_MESSAGES", "15");
        for (name, value) in self.dynamo.credentials() {
            launcher = launcher.with(name, value);
        }
        for (name, value) in &self.redis {
            launcher = launcher.with(name, value);
        }
        launcher
    }

    /// Starts nodes that connect directly to the tables.
    pub async fn fleet(&self, nodes: usize) -> FleetProcesses {
        let endpoint = self.dynamo.endpoint();
        FleetProcesses::start(nodes, |_, data_dir| {
            self.launcher(data_dir, &endpoint).with("BLUETICK_ADMIN__KEY", ADMIN_KEY)
        })
        .await
    }
}
