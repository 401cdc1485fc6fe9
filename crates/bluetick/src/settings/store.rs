//! Section `[store]`: which engine keeps everything, and what each of them may be told.

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
    /// DynamoDB or anything that speaks its API, with Redis or Valkey, for a fleet of servers.
    DynamoDb,
}

/// Unknown keys are refused where the layers are put together.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct StoreSection {
    pub engine: Engine,
    /// Also the data directory of a server whose engine is elsewhere: its keys are there.
    #[serde(flatten)]
    pub embedded: StoreSettings,
    pub dynamodb: DynamoSettings,
    pub redis: RedisSettings,
    pub fleet: EngineSettings,
}

/// The embedded store's settings came first and stand in the section itself.
impl Deref for StoreSection {
    type Target = StoreSettings;

    fn deref(&self) -> &StoreSettings {
        &self.embedded
    }
}

impl StoreSection {
    /// One window for all.
    pub fn redis(&self) -> RedisSettings {
        RedisSettings { dedupe_window_seconds: self.embedded.dedupe_window_seconds, ..self.redis.clone() }
    }

    pub fn fleet(&self) -> EngineSettings {
        EngineSettings { dedupe_window_seconds: self.embedded.dedupe_window_seconds, ..self.fleet.clone() }
    }
}
