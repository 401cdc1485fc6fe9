//! Section `[store]`: the engine, and the settings of each engine.

use std::ops::Deref;

use bluetick_fleet_settings::{DynamoSettings, EngineSettings, RedisSettings};
use bluetick_store_embedded::StoreSettings;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StoreEngine {
    /// Files in the data directory, for one server.
    #[default]
    Embedded,
    /// DynamoDB or a compatible store, with Redis or Valkey, for a fleet of servers.
    DynamoDb,
}

/// The answer of a binary without the fleet engine to a command or a setting that needs it.
#[cfg(not(feature = "fleet"))]
pub const NO_FLEET_ENGINE: &str = "this binary is built without the fleet engine; build one with it: \
                                   cargo build --release --features fleet";

/// The section. `layers` refuses unknown keys, because a flattened struct cannot.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct StoreSection {
    pub engine: StoreEngine,
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

    /// The settings of the fleet engine, with the same window.
    #[cfg(feature = "fleet")]
    pub fn fleet(&self) -> EngineSettings {
        EngineSettings { dedupe_window_seconds: self.embedded.dedupe_window_seconds, ..self.fleet.clone() }
    }
}
