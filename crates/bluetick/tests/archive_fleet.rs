//! `bluetick archive` and `bluetick erase` on the tables of a fleet, with a shared archive
//! directory.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod support;

use std::sync::Arc;

use bluetick_archive::ArchiveSettings;
use bluetick_core::ports::{Append, Creation, NewConversation, NoListener, Store};
use bluetick_core::time::SystemClock;
use bluetick_core::{ContentType, ConversationId, Epoch, Timestamp, UserId};
use bluetick_store_cloud::hints::memory::MemoryHints;
use bluetick_store_cloud::neighbours::memory::Street;
use bluetick_store_cloud::rows::dynamo::{Connection, DynamoRows, DynamoSettings};
use bluetick_store_cloud::{CloudParts, CloudStore, EngineSettings, NodeId};
use bluetick_testkit::dynamo::DynamoServer;
use bluetick_testkit::redis::RedisServer;
use support::{Outcome, Shell};

/// Prefix of the tables of this test, because all tests share one DynamoDB Local.
const PREFIX: &str = "cold_";
/// A time that is old enough for the archive.
const THEN: Timestamp = Timestamp::from_millis(1_600_000_000_000);

async fn run(shell: &Shell, server: &DynamoServer, arguments: &[&str]) -> Outcome {
    let mut command = shell.command(arguments);
    command.envs(server.credentials());
    Outcome::of(tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap())
}

async fn send_ten(server: &DynamoServer) -> ConversationId {
    let settings = DynamoSettings {
        endpoint: Some(server.endpoint()),
        region: Some("us-east-1".to_owned()),
        table_prefix: PREFIX.to_owned(),
        attempt_timeout_ms: 10_000,
        deadline_ms: 60_000,
        ..DynamoSettings::default()
    };
    let [(_, id), (_, secret)] = server.credentials();
    let rows =
        DynamoRows::open_on(Connection::with_keys(&settings, id, secret).await.unwrap()).await.unwrap();
    let node = NodeId::new("node");
    let store = CloudStore::open(CloudParts {
        rows: Arc::new(rows),
        hints: Arc::new(MemoryHints::default()),
        neighbours: Arc::new(Street::default().move_in(node.clone())),
        node,
        listener: Arc::new(NoListener),
        clock: Arc::new(SystemClock),
        epoch: Epoch::FIRST,
        settings: EngineSettings::default(),
        object_archive: None,
        archive: ArchiveSettings::default(),
    });
    let [alice, bob]: [UserId; 2] = ["alice", "bob"].map(|name| name.parse().unwrap());
    let id = ConversationId::direct(&alice, &bob);
    let creation = Creation::Direct { peer: bob };
    let new = NewConversation { id, creation, created_by: alice.clone(), created_at: THEN };
    store.open_conversation(new).await.unwrap();
    for number in 1..=10 {
        let append = Append {
            conversation: id,
            sender: alice.clone(),
            message_id: format!("m{number}").parse().unwrap(),
            content_type: ContentType::Text,
            content: format!("text {number}").into(),
            timestamp: THEN,
            received_at: THEN,
            retry_after: None,
            origin: None,
        };
        store.append(append).await.unwrap().await.unwrap();
    }
    store.close().await;
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn every_archive_job_runs_on_the_fleet_tables() {
    let (server, redis) = (DynamoServer::shared().await, RedisServer::start());
    let shell = Shell::new();
    std::fs::create_dir(shell.path("objects")).unwrap();
    let settings = format!(
        "[store]\nengine = \"dynamodb\"\n[store.dynamodb]\nendpoint = \"{}\"\nregion = \"us-east-1\"\n\
         table_prefix = \"{PREFIX}\"\ndeadline_ms = 60000\nattempt_timeout_ms = 10000\n\
         [store.redis]\nurls = [\"{}\"]\n[archive]\nengine = \"directory\"\ndirectory = \"{}\"\n",
        server.endpoint(),
        redis.url(),
        shell.path("objects").display(),
    );
    shell.file("bluetick.toml", &settings);
    let warned = run(&shell, server, &["config", "check"]).await;
    assert!(
        warned.stderr.contains("every node of the fleet must mount the same directory"),
        "{}",
        warned.stderr
    );
    run(&shell, server, &["tables", "create"]).await.printed();
    let id = send_ten(server).await.to_string();
    let moved = run(&shell, server, &["archive", "run", "--partial"]).await.printed();
    assert!(moved.contains("10 messages of 1 conversation"), "{moved}");
    let status = run(&shell, server, &["archive", "status"]).await.printed();
    assert!(status.contains("10 messages in 1 segment") && !status.contains("Hot tables"), "{status}");
    let verified = run(&shell, server, &["archive", "verify"]).await.printed();
    assert!(verified.contains("Problems       none"), "{verified}");
    let erased =
        run(&shell, server, &["erase", "conversation", &id, "--through", "4", "--yes"]).await.printed();
    assert!(erased.contains("4 messages in 1 conversation"), "{erased}");
    let restored = run(&shell, server, &["archive", "restore", &id]).await.printed();
    assert!(restored.contains("6 messages from 1 segment"), "{restored}");
    let retention = ("BLUETICK_ARCHIVE__RETENTION_SECONDS", "60");
    let mut command = shell.command(&["archive", "run"]);
    command.env(retention.0, retention.1).envs(server.credentials());
    let expired = Outcome::of(tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap());
    let expired = expired.printed();
    assert!(expired.contains("Erased         6 messages"), "{expired}");
}
