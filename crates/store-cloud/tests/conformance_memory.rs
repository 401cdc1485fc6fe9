//! The engine over tables, hints and neighbours in memory: the rules alone, without servers. With hints that work, with
//! none at all, and with hints that are forgotten all the time: what is promised is the same.

use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use bluetick_archive::ArchiveSettings;
use bluetick_conformance::{Harness, NOW};
use bluetick_core::Epoch;
use bluetick_core::ports::{CommitListener, Store};
use bluetick_core::time::ManualClock;
use bluetick_store_cloud::hints::memory::MemoryHints;
use bluetick_store_cloud::neighbours::memory::Street;
use bluetick_store_cloud::rows::memory::MemoryRows;
use bluetick_store_cloud::{CloudParts, CloudStore, EngineSettings, NodeId};

#[derive(Clone, Default)]
struct World {
    rows: Arc<MemoryRows>,
    hints: MemoryHints,
    street: Street,
}

/// What Redis is like.
trait Weather: Send + Sync + 'static {
    const IS_FORGETFUL: bool = false;

    fn prepare(_hints: &MemoryHints) {}
}

struct Fair;
struct Away;
struct Forgetful;

impl Weather for Fair {}

impl Weather for Away {
    fn prepare(hints: &MemoryHints) {
        hints.set_away(true);
    }
}

impl Weather for Forgetful {
    const IS_FORGETFUL: bool = true;

    /// Counted and not timed, so that a slow machine sees the same.
    fn prepare(hints: &MemoryHints) {
        hints.forget_every(37);
    }
}

struct Cloud<W> {
    world: World,
    store: Arc<CloudStore>,
    life: u32,
    of: PhantomData<W>,
}

impl<W: Weather> Cloud<W> {
    fn open(world: World, life: u32, listener: Arc<dyn CommitListener>) -> Cloud<W> {
        let node = NodeId::new(format!("node-{life}"));
        let store = CloudStore::open(CloudParts {
            rows: world.rows.clone(),
            hints: Arc::new(world.hints.clone()),
            neighbours: Arc::new(world.street.move_in(node.clone())),
            node,
            listener,
            clock: Arc::new(ManualClock::at(NOW)),
            epoch: Epoch::FIRST,
            settings: EngineSettings { patience_ms: 1, ..EngineSettings::default() },
            vault: None,
            archive: ArchiveSettings::default(),
        });
        W::prepare(&world.hints);
        Cloud { world, store: Arc::new(store), life, of: PhantomData }
    }
}

#[async_trait]
impl<W: Weather> Harness for Cloud<W> {
    async fn start(listener: Arc<dyn CommitListener>) -> Cloud<W> {
        Cloud::open(World::default(), 1, listener)
    }

    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    async fn crash_and_restart(self, listener: Arc<dyn CommitListener>) -> Cloud<W> {
        // One thing at a time: who loses Redis and a node in the same moment may lose the order of an inbox.
        if W::IS_FORGETFUL {
            self.store.close().await;
        }
        let (world, life) = (self.world.clone(), self.life + 1);
        drop(self);
        Cloud::open(world, life, listener)
    }

    async fn close_and_reopen(self, listener: Arc<dyn CommitListener>) -> Cloud<W> {
        self.store.close().await;
        self.crash_and_restart(listener).await
    }
}

mod with_redis {
    bluetick_conformance::suite!(super::Cloud<super::Fair>);
}

mod without_redis {
    bluetick_conformance::suite!(super::Cloud<super::Away>);
}

mod with_a_redis_that_forgets {
    bluetick_conformance::suite!(super::Cloud<super::Forgetful>);
}
