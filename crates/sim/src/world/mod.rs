//! The servers of a run, their simulated infrastructure and its faults.

mod bus;
mod cache;
mod embedded;
mod fleet;
mod node;
mod rows;

use std::sync::Arc;

pub use embedded::Embedded;
pub use fleet::SimulatedFleet;

use crate::cluster::Cluster;
use crate::faults::Fault;
use crate::plant::PlantedBug;

/// The store that the servers use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum WorldKind {
    /// One server on the embedded store, on a disk that loses unsynced writes
    Embedded,
    /// Several servers on tables and a Redis that fail, lose data and answer late
    Fleet,
}

pub enum World {
    Embedded(Arc<Embedded>),
    Fleet(Arc<SimulatedFleet>),
}

impl World {
    pub async fn open(kind: WorldKind, town: &Arc<Cluster>, plant: Option<PlantedBug>) -> World {
        match kind {
            WorldKind::Embedded => World::Embedded(Embedded::open(town, plant).await),
            WorldKind::Fleet => World::Fleet(SimulatedFleet::open(town, plant).await),
        }
    }

    /// Injects a fault, or ends one.
    pub async fn suffer(&self, fault: Fault) {
        match self {
            World::Embedded(world) => world.suffer(fault).await,
            World::Fleet(world) => world.suffer(fault).await,
        }
    }

    /// Ends all faults and waits until every node is up.
    pub async fn heal(&self) {
        match self {
            World::Embedded(world) => world.heal().await,
            World::Fleet(world) => world.heal().await,
        }
    }
}
