//! The engine on DynamoDB Local, with hints in memory.

mod rows_common;

use std::sync::Arc;

use async_trait::async_trait;
use bluetick_conformance::{Harness, NOW};
use bluetick_core::ports::{CommitListener, Store};
use bluetick_core::time::ManualClock;
use bluetick_store_cloud::hints::memory::MemoryHints;
use bluetick_store_cloud::neighbours::memory::Street;
use bluetick_store_cloud::rows::dynamo::DynamoRows;
use bluetick_store_cloud::{CloudParts, CloudStore, EngineSettings, NodeId};
use bluetick_testkit::dynamo::DynamoServer;

struct Cloud {
    rows: Arc<DynamoRows>,
    hints: MemoryHints,
    street: Street,
    store: Arc<CloudStore>,
    life: u32,
}

impl Cloud {
    fn open(
        rows: Arc<DynamoRows>,
        hints: MemoryHints,
        street: Street,
        life: u32,
        listener: Arc<dyn CommitListener>,
    ) -> Cloud {
        let node = NodeId::new(format!("node-{life}"));
        let store = CloudStore::open(CloudParts {
            rows: rows.clone(),
            hints: Arc::new(hints.clone()),
            neighbours: Arc::new(street.move_in(node.clone())),
            node,
            listener,
            clock: Arc::new(ManualClock::at(NOW)),
            settings: EngineSettings::default(),
        });
        Cloud { rows, hints, street, store: Arc::new(store), life }
    }
}

#[async_trait]
impl Harness for Cloud {
    async fn start(listener: Arc<dyn CommitListener>) -> Cloud {
        let server = DynamoServer::shared().await;
        let rows = Arc::new(rows_common::rows_through(&rows_common::settings(server.endpoint())).await);
        Cloud::open(rows, MemoryHints::default(), Street::default(), 1, listener)
    }

    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    async fn crash_and_restart(self, listener: Arc<dyn CommitListener>) -> Cloud {
        let Cloud { rows, hints, street, store, life } = self;
        drop(store);
        Cloud::open(rows, hints, street, life + 1, listener)
    }

    async fn close_and_reopen(self, listener: Arc<dyn CommitListener>) -> Cloud {
        self.store.close().await;
        self.crash_and_restart(listener).await
    }
}

bluetick_conformance::suite!(Cloud);
