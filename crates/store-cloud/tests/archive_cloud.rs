//! The archive on real servers: rows in DynamoDB Local, objects in an S3 server.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod rows_common;

use std::path::Path;
use std::sync::Arc;

use bluetick_archive::{ArchiveEngine, ArchiveSettings, ObjectArchive};
use bluetick_core::ports::{
    Append, Archive, ArchiveError, ArchiveRun, Creation, Erase, EraseScope, NewConversation, NoListener,
    NoProgress, Store,
};
use bluetick_core::time::ManualClock;
use bluetick_core::{
    ContentType, ConversationId, Epoch, Message, PageFrom, PageLimit, PageRequest, Seq, StoreError,
    Timestamp, UserId,
};
use bluetick_store_cloud::hints::memory::MemoryHints;
use bluetick_store_cloud::neighbours::memory::Street;
use bluetick_store_cloud::{CloudParts, CloudStore, EngineSettings, NodeId};
use bluetick_testkit::dynamo::DynamoServer;
use bluetick_testkit::s3::{S3Kind, S3Server};

const THEN: Timestamp = Timestamp::from_millis(1_750_000_000_000);
const MESSAGES: u64 = 300;

struct World {
    objects: S3Server,
    hints: MemoryHints,
    street: Street,
}

impl World {
    async fn node(&self, name: &str) -> CloudStore {
        let server = DynamoServer::shared().await;
        let rows = rows_common::rows_through(&rows_common::settings(server.endpoint())).await;
        let archive = ArchiveSettings {
            engine: ArchiveEngine::S3,
            endpoint: Some(self.objects.endpoint()),
            bucket: self.objects.bucket().to_owned(),
            segment_messages: 100,
            timeout_seconds: 8,
            cache_bytes: 0,
            ..ArchiveSettings::default()
        };
        let credentials = self.objects.credentials();
        let variable = |wanted: &str| {
            let found = credentials.iter().find(|(name, _)| *name == wanted);
            found.map(|(_, value)| (*value).to_owned())
        };
        let object_archive =
            ObjectArchive::open_with_environment(&archive, Path::new("."), &variable).unwrap();
        let node = NodeId::new(name);
        CloudStore::open(CloudParts {
            rows: Arc::new(rows),
            hints: Arc::new(self.hints.clone()),
            neighbours: Arc::new(self.street.move_in(node.clone())),
            node,
            listener: Arc::new(NoListener),
            clock: Arc::new(ManualClock::at(THEN.plus_millis(100 * 24 * 3_600_000))),
            epoch: Epoch::FIRST,
            settings: EngineSettings::default(),
            object_archive: object_archive.map(Arc::new),
            archive,
        })
    }
}

fn user(name: &str) -> UserId {
    name.parse().unwrap()
}

async fn send(store: &CloudStore, id: ConversationId, number: u64) {
    let append = Append {
        conversation: id,
        sender: user(if number.is_multiple_of(10) { "bob" } else { "alice" }),
        message_id: format!("m{number}").parse().unwrap(),
        content_type: ContentType::Text,
        content: format!("message number {number} 🙂").into(),
        timestamp: THEN,
        received_at: THEN,
        retry_after: None,
        origin: None,
    };
    store.append(append).await.unwrap().await.unwrap();
}

async fn page(store: &CloudStore, id: ConversationId, after: u64) -> Result<Vec<Message>, StoreError> {
    let from = PageFrom::After(Seq::new(after));
    let request = PageRequest { conversation: id, reader: user("bob"), from, limit: PageLimit::MAX };
    Ok(store.page(request).await?.messages)
}

async fn everything(store: &CloudStore, id: ConversationId) -> Vec<Message> {
    let mut all = Vec::new();
    for after in [0, 100, 200] {
        all.extend(page(store, id, after).await.unwrap());
    }
    assert_eq!(all.len() as u64, MESSAGES);
    all
}

fn nobody_looks() -> Arc<NoProgress> {
    Arc::new(NoProgress)
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_go_to_a_bucket_are_read_and_erased_there_and_come_back() {
    let objects = S3Server::start(S3Kind::S3sFs).await;
    let mut world = World { objects, hints: MemoryHints::default(), street: Street::default() };
    let store = world.node("one").await;
    let id = ConversationId::direct(&user("alice"), &user("bob"));
    let creation = Creation::Direct { peer: user("bob") };
    let new = NewConversation { id, creation, created_by: user("alice"), created_at: THEN };
    store.open_conversation(new).await.unwrap();
    for number in 1..=MESSAGES {
        send(&store, id, number).await;
    }
    let before = everything(&store, id).await;

    let report = store.run(ArchiveRun::default(), nobody_looks()).await.unwrap();
    assert_eq!((report.moved.segments, report.moved.messages), (3, MESSAGES));
    let other = world.node("two").await;
    assert_eq!(everything(&other, id).await, before);
    let verified = other.verify(nobody_looks()).await.unwrap();
    assert_eq!((verified.checked.messages, verified.problems), (MESSAGES, Vec::new()));

    world.objects.stop().await;
    assert!(matches!(page(&other, id, 0).await, Err(StoreError::Unavailable(_))));
    let paused = store.run(ArchiveRun::default(), nobody_looks()).await;
    assert!(matches!(paused, Err(ArchiveError::Unavailable(_))), "{paused:?}");
    assert!(other.status().await.unwrap().place.contains("s3"));
    assert!(other.counters().paused.is_some(), "every node knows");
    world.objects.start_again().await;

    let scope = EraseScope::User { user: user("bob"), conversation: None };
    let erased = store.erase(Erase { scope, through: None }, nobody_looks()).await.unwrap();
    assert_eq!((erased.messages, erased.segments_rewritten), (MESSAGES / 10, 3));
    let third = world.node("three").await;
    let restored = third.restore(Some(id), nobody_looks()).await.unwrap();
    assert_eq!(restored.messages, MESSAGES - MESSAGES / 10);
    world.objects.stop().await;
    for (message, was) in everything(&third, id).await.iter().zip(&before) {
        match message.content_type {
            ContentType::Erased => assert_eq!((was.sender.as_str(), &*message.content), ("bob", "")),
            _ => assert_eq!(message, was),
        }
    }
}
