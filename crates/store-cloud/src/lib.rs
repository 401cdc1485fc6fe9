//! The store for a fleet of nodes.
//!
//! [`rows`] hold the truth (DynamoDB or anything that speaks its API), [`hints`] make it fast (Redis or Valkey), and
//! [`neighbours`] carry news between nodes. Each has an adapter in memory beside the real one.

mod append;
mod archive;
mod behind;
mod cells;
mod changes;
pub mod cluster;
mod engine;
mod epoch;
mod fallback;
mod fleet;
mod flush;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod heart;
pub mod hints;
pub mod hot;
pub mod import;
mod inbox;
mod incoming;
mod intent;
mod keyed;
mod local;
pub mod log;
mod looked_after;
mod memberships;
mod mend;
pub mod neighbours;
mod news;
mod outage;
mod outgoing;
mod overlooked;
pub mod owner;
mod pending;
mod people;
pub mod redis;
mod repair;
mod revoked;
mod rooms;
pub mod rows;
mod seeding;
mod spreading;
mod standings;
mod statuses;
mod store;
mod told;

pub use bluetick_fleet_settings::EngineSettings;
pub use engine::{CloudParts, CloudStore};
pub use epoch::{raise_epoch, read_epoch};

use std::fmt;
use std::sync::Arc;

/// One life of one server process: a new one with every start.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(Arc<str>);

impl NodeId {
    /// A name without blanks.
    pub fn new(name: impl Into<Arc<str>>) -> NodeId {
        NodeId(name.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
