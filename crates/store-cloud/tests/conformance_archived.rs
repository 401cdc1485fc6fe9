//! The same suite, while everything is moved to the archive as soon as it is stored: nobody notices.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bluetick_archive::object_store::memory::InMemory;
use bluetick_archive::{ArchiveSettings, ObjectArchive};
use bluetick_conformance::{Harness, NOW};
use bluetick_core::ports::{
    Append, Archive, ArchiveError, ArchiveRun, CommitListener, Creation, NewConversation, NoListener,
    NoProgress, Store,
};
use bluetick_core::time::ManualClock;
use bluetick_core::{ContentType, ConversationId, Epoch, PageFrom, PageLimit, PageRequest, Seq, UserId};
use bluetick_store_cloud::hints::memory::MemoryHints;
use bluetick_store_cloud::hot::Layout;
use bluetick_store_cloud::neighbours::memory::Street;
use bluetick_store_cloud::rows::memory::MemoryRows;
use bluetick_store_cloud::{CloudParts, CloudStore, EngineSettings, NodeId};
use tokio::task::JoinHandle;

#[derive(Clone, Default)]
struct World {
    rows: Arc<MemoryRows>,
    hints: MemoryHints,
    street: Street,
    objects: Arc<InMemory>,
}

struct Archived<const HOT: bool> {
    world: World,
    store: Arc<CloudStore>,
    archiving: JoinHandle<()>,
    life: u32,
}

impl<const HOT: bool> Archived<HOT> {
    fn open(world: World, life: u32, listener: Arc<dyn CommitListener>) -> Archived<HOT> {
        let node = NodeId::new(format!("node-{life}"));
        let store = CloudStore::open(CloudParts {
            rows: world.rows.clone(),
            hints: Arc::new(world.hints.clone()),
            neighbours: Arc::new(world.street.move_in(node.clone())),
            node,
            listener,
            // A moment later, so that what was received just now is old, and the turn of a life before is over.
            clock: Arc::new(ManualClock::at(NOW.plus_millis(120_000 * i64::from(life)))),
            epoch: Epoch::FIRST,
            settings: if HOT { hot() } else { EngineSettings::default() },
            object_archive: Some(Arc::new(ObjectArchive::over(world.objects.clone(), "test", 1 << 20))),
            archive: ArchiveSettings { age_seconds: 0, segment_messages: 1, ..ArchiveSettings::default() },
        });
        let store = Arc::new(store);
        let archiving = tokio::spawn(archive_always(Arc::clone(&store)));
        Archived { world, store, archiving, life }
    }

    async fn stop_archiving(&mut self) {
        self.archiving.abort();
        let _ended = (&mut self.archiving).await;
    }
}

/// Every conversation is spread anew all the time, over any number of partitions.
fn hot() -> EngineSettings {
    let layout =
        Layout { block: 2, plain_through: Seq::new(4), ahead: 8, restless: true, ..Layout::default() };
    EngineSettings { most_partitions: 4, layout, ..EngineSettings::default() }
}

/// Until the store closes. A run that fails for another reason ends the test, even where no case looks at it.
async fn archive_always(store: Arc<CloudStore>) {
    let run = ArchiveRun { only: None, partial: true };
    loop {
        match store.run(run.clone(), Arc::new(NoProgress)).await {
            Ok(_) => tokio::time::sleep(Duration::from_millis(1)).await,
            Err(ArchiveError::Stopped) => return,
            Err(error) => {
                eprintln!("a run failed: {error}");
                std::process::abort();
            }
        }
    }
}

/// So that the suite below is about what it says.
#[tokio::test(flavor = "multi_thread")]
async fn everything_really_moves_while_the_suite_runs() {
    let archived = Archived::<false>::open(World::default(), 1, Arc::new(NoListener));
    let store = &archived.store;
    let [alice, bob]: [UserId; 2] = ["alice", "bob"].map(|name| name.parse().unwrap());
    let id = ConversationId::direct(&alice, &bob);
    let creation = Creation::Direct { peer: bob.clone() };
    let new = NewConversation { id, creation, created_by: alice.clone(), created_at: NOW };
    store.open_conversation(new).await.unwrap();
    for number in 1..=10 {
        let append = Append {
            conversation: id,
            sender: alice.clone(),
            message_id: format!("m{number}").parse().unwrap(),
            content_type: ContentType::Text,
            content: format!("text {number}").into(),
            timestamp: NOW,
            received_at: NOW,
            retry_after: None,
            origin: None,
        };
        store.append(append).await.unwrap().await.unwrap();
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    while store.status().await.unwrap().cold.messages < 10 {
        assert!(Instant::now() < deadline, "nothing moves");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let from = PageFrom::After(Seq::ZERO);
    let request = PageRequest { conversation: id, reader: bob, from, limit: PageLimit::MAX };
    let texts: Vec<_> = store.page(request).await.unwrap().messages.into_iter().map(|m| m.content).collect();
    assert_eq!(texts.len(), 10);
    assert_eq!(*texts[9], *"text 10");
    assert!(Archive::counters(&**store).fetches > 0, "it was read from the archive");
}

#[async_trait]
impl<const HOT: bool> Harness for Archived<HOT> {
    async fn start(listener: Arc<dyn CommitListener>) -> Archived<HOT> {
        Archived::open(World::default(), 1, listener)
    }

    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    async fn crash_and_restart(mut self, listener: Arc<dyn CommitListener>) -> Archived<HOT> {
        self.stop_archiving().await;
        let Archived { world, store, life, .. } = self;
        drop(store);
        Archived::open(world, life + 1, listener)
    }

    async fn close_and_reopen(mut self, listener: Arc<dyn CommitListener>) -> Archived<HOT> {
        self.stop_archiving().await;
        let Archived { world, store, life, .. } = self;
        store.close().await;
        Archived::open(world, life + 1, listener)
    }
}

mod in_one_partition {
    bluetick_conformance::suite!(super::Archived<false>);
}

mod spread_over_partitions {
    bluetick_conformance::suite!(super::Archived<true>);
}
