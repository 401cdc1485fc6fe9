//! The engine over tables, hints and neighbours in memory: the rules alone, without servers. With hints that work, with
//! none at all, and with hints that are forgotten all the time: what is promised is the same.

use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use bluetick_archive::ArchiveSettings;
use bluetick_conformance::{Harness, NOW};
use bluetick_core::ports::{Append, CommitListener, Creation, NewConversation, NoListener, Store};
use bluetick_core::time::ManualClock;
use bluetick_core::{ContentType, ConversationId, Epoch, Seq, UserId};
use bluetick_store_cloud::hints::memory::MemoryHints;
use bluetick_store_cloud::hot::{Layout, Registry};
use bluetick_store_cloud::neighbours::memory::Street;
use bluetick_store_cloud::rows::memory::MemoryRows;
use bluetick_store_cloud::rows::{Key, Rows, Table};
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
    const IS_HOT: bool = false;

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

/// Every conversation is spread anew all the time, over any number of partitions.
struct Hot;
struct HotAndAway;
struct HotAndForgetful;

impl Weather for Hot {
    const IS_HOT: bool = true;
}

impl Weather for HotAndAway {
    const IS_HOT: bool = true;

    fn prepare(hints: &MemoryHints) {
        Away::prepare(hints);
    }
}

impl Weather for HotAndForgetful {
    const IS_FORGETFUL: bool = true;
    const IS_HOT: bool = true;

    fn prepare(hints: &MemoryHints) {
        Forgetful::prepare(hints);
    }
}

fn settings(is_hot: bool) -> EngineSettings {
    let usual = EngineSettings { patience_ms: 1, outage_look_ms: 20, ..EngineSettings::default() };
    if !is_hot {
        return usual;
    }
    let layout =
        Layout { block: 2, plain_through: Seq::new(4), ahead: 8, restless: true, ..Layout::default() };
    EngineSettings { most_partitions: 4, layout, ..usual }
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
            settings: settings(W::IS_HOT),
            object_archive: None,
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

/// So that the suites below are about what they say.
#[tokio::test(flavor = "multi_thread")]
async fn conversations_really_are_spread_while_the_suite_runs() {
    let cloud = Cloud::<Hot>::open(World::default(), 1, Arc::new(NoListener));
    let [alice, bob]: [UserId; 2] = ["alice", "bob"].map(|name| name.parse().expect("a name"));
    let id = ConversationId::direct(&alice, &bob);
    let creation = Creation::Direct { peer: bob.clone() };
    let new = NewConversation { id, creation, created_by: alice.clone(), created_at: NOW };
    cloud.store.open_conversation(new).await.expect("it opens");
    for number in 1..=100 {
        let append = Append {
            conversation: id,
            sender: alice.clone(),
            message_id: format!("m{number}").parse().expect("an id"),
            content_type: ContentType::Text,
            content: format!("text {number}").into(),
            timestamp: NOW,
            received_at: NOW,
            retry_after: None,
            origin: None,
        };
        cloud.store.append(append).await.expect("it is taken").await.expect("it is stored");
    }
    let cells = cloud.world.rows.scan(Table::Messages, None, 1_000).await.expect("rows").rows;
    let partitions: BTreeSet<_> = cells.into_iter().map(|(key, _)| key.partition).collect();
    assert!(partitions.len() >= 4, "{partitions:?}");
    let row = cloud.world.rows.get(Table::HotRegistry, &Key::new(id)).await.expect("rows").expect("a row");
    assert!(Registry::decode(&row).expect("a registry").epochs().len() >= 4);
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

mod spread_over_partitions {
    bluetick_conformance::suite!(super::Cloud<super::Hot>);
}

mod spread_over_partitions_without_redis {
    bluetick_conformance::suite!(super::Cloud<super::HotAndAway>);
}

mod spread_over_partitions_with_a_redis_that_forgets {
    bluetick_conformance::suite!(super::Cloud<super::HotAndForgetful>);
}
