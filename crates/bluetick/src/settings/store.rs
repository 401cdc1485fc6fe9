//! Section `[store]`: the engine, and the settings of each engine.

use std::ops::Deref;

use bluetick_store_cloud::EngineSettings;
use bluetick_store_cloud::redis::RedisSettings;
use bluetick_store_cloud::rows::dynamo::DynamoSettings;
use bluetick_store_embedded::StoreSettings;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// Files in the data directory, for one server.
    #[default]
    Embedded,
    /// DynamoDB or a compatible store, with Redis or Valkey, for a fleet of servers.
    DynamoDb,
}

/// The section. `layers` refuses unknown keys, because a flattened struct cannot.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct StoreSection {
    pub engine: Engine,
    /// The data directory in it also applies to a fleet: it holds the keys of the node.
    #[serde(flatten)]
    pub embedded: StoreSettings,
    pub dynamodb: DynamoSettings,
    pub redis: RedisSettings,
    pub fleet: EngineSettings,
}

/// The settings of the embedded store are directly in the section, for compatibility.
impl Deref for StoreSection {
    type Target = StoreSettings;

    fn deref(&self) -> &StoreSettings {
        &self.embedded
    }
}

impl StoreSection {
    /// The Redis settings. All engines share one dedupe window, `store.dedupe_window_seconds`.
    pub fn redis(&self) -> RedisSettings {
        RedisSettings { dedupe_window_seconds: self.embedded.dedupe_window_seconds, ..self.redis.clone() }
    }

    pub fn fleet(&self) -> EngineSettings {
        EngineSettings { dedupe_window_seconds: self.embedded.dedupe_window_seconds, ..self.fleet.clone() }
    }
}
