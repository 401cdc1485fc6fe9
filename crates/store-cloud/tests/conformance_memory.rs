//! The engine over tables, hints and neighbours in memory: the rules alone, without servers.

use std::sync::Arc;

use async_trait::async_trait;
use bluetick_conformance::{Harness, NOW};
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

struct Cloud {
    world: World,
    store: Arc<CloudStore>,
    life: u32,
}

impl Cloud {
    fn open(world: World, life: u32, listener: Arc<dyn CommitListener>) -> Cloud {
        let node = NodeId::new(format!("node-{life}"));
        let store = CloudStore::open(CloudParts {
            rows: world.rows.clone(),
            hints: Arc::new(world.hints.clone()),
            neighbours: Arc::new(world.street.move_in(node.clone())),
            node,
            listener,
            clock: Arc::new(ManualClock::at(NOW)),
            settings: EngineSettings::default(),
        });
        Cloud { world, store: Arc::new(store), life }
    }
}

#[async_trait]
impl Harness for Cloud {
    async fn start(listener: Arc<dyn CommitListener>) -> Cloud {
        Cloud::open(World::default(), 1, listener)
    }

    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    async fn crash_and_restart(self, listener: Arc<dyn CommitListener>) -> Cloud {
        let Cloud { world, store, life } = self;
        drop(store);
        Cloud::open(world, life + 1, listener)
    }

    async fn close_and_reopen(self, listener: Arc<dyn CommitListener>) -> Cloud {
        self.store.close().await;
        self.crash_and_restart(listener).await
    }
}

bluetick_conformance::suite!(Cloud);
