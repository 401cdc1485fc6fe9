//! A node reserves a seq for a message and does not write it, because it crashes or is slow. The
//! next writer or reader fills the gap with a void. The writer's client gets one ack, with another
//! seq.

use std::time::Duration;

use bluetick_testkit::checker::HistoryMessage;
use bluetick_testkit::dynamo_proxy::{DynamoProxy, FaultRule, RequestFault};
use bluetick_testkit::fleet::FleetProcesses;
use bluetick_testkit::http::{history, messages};
use bluetick_testkit::load::ADMIN_KEY;
use bluetick_testkit::redis::RedisServer;
use bluetick_testkit::talker::Talker;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::chat::{mint, open};
use crate::dependencies::FleetDependencies;

/// Bounds every wait. It allows for a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Alice is connected to the node whose writes can be delayed, Bob to another node.
struct Scene {
    redis: RedisServer,
    fleet: FleetProcesses,
    proxy: DynamoProxy,
    tokens: [String; 2],
    chat: String,
    alice: Talker,
    bob: Talker,
}

impl Scene {
    async fn set_up() -> Scene {
        let redis = RedisServer::start();
        let dependencies = FleetDependencies::on(&redis).await;
        let proxy = DynamoProxy::start(dependencies.dynamo().address(), 1).await;
        let endpoints = [proxy.endpoint(), dependencies.dynamo().endpoint()];
        let fleet = FleetProcesses::start(2, |number, data_dir| {
            dependencies
                .launcher(data_dir, &endpoints[number])
                .with("BLUETICK_ADMIN__KEY", ADMIN_KEY)
                // Make one attempt only, so that a delayed write stays late.
                .with("BLUETICK_STORE__DYNAMODB__ATTEMPT_TIMEOUT_MS", "60000")
                .with("BLUETICK_STORE__DYNAMODB__DEADLINE_MS", "60000")
        })
        .await;
        let tokens = [
            mint(fleet.address(0), ADMIN_KEY, "alice").await,
            mint(fleet.address(1), ADMIN_KEY, "bob").await,
        ];
        let chat = open(fleet.address(0), &tokens[0], &json!({"kind": "direct", "peer": "bob"})).await;
        let mut alice = Talker::connect(fleet.address(0), &tokens[0]).await;
        let mut bob = Talker::connect(fleet.address(1), &tokens[1]).await;
        alice.send(&chat, "a1", "hello").await;
        assert_eq!(alice.hear("ack").await["seq"], 1);
        assert_eq!(bob.hear("message").await["seq"], 1);
        Scene { redis, fleet, proxy, tokens, chat, alice, bob }
    }

    /// Alice sends a message. Her node reserves a seq, and the proxy delays the write.
    async fn alice_is_held_back(&mut self, delay: Duration) {
        self.proxy.meet([FaultRule::always(RequestFault::Slow(delay)).on("PutItem")]);
        self.alice.send(&self.chat, "a2", "late").await;
        self.reserved(2).await;
    }

    async fn reserved(&self, place: u64) {
        let start = Instant::now();
        let pattern = format!("*:c:{}", self.chat);
        let key = self.redis.command(&["KEYS", &pattern]).many()[0].text();
        while self.redis.command(&["HGET", &key, "reserved"]).text() != place.to_string() {
            assert!(start.elapsed() < PATIENCE, "no seq was reserved");
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Content types and message ids of the history. Asserts that all live nodes agree and that the
    /// history has no gap.
    async fn history(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for address in self.fleet.addresses() {
            let stored = history(&address, &self.tokens[1], &self.chat).await;
            let seqs: Vec<u64> = stored.iter().map(|HistoryMessage { seq, .. }| *seq).collect();
            assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "the history has a gap");
            let all = messages(&address, &self.tokens[1], &self.chat).await;
            let text = |message: &serde_json::Value, field: &str| message[field].as_str().unwrap().to_owned();
            let all = all.iter().map(|message| {
                let kind = text(message, "content_type");
                let id = if kind == "void" { String::new() } else { text(message, "message_id") };
                (kind, id)
            });
            found.push(all.collect::<Vec<_>>());
        }
        assert!(found.windows(2).all(|pair| pair[0] == pair[1]), "{found:#?}");
        found.remove(0)
    }
}

fn expected(rows: &[(&str, &str)]) -> Vec<(String, String)> {
    rows.iter().map(|(kind, id)| ((*kind).to_owned(), (*id).to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn seq_of_a_dead_writer_becomes_void_and_later_sends_continue() {
    let mut scene = Scene::set_up().await;
    scene.alice_is_held_back(10 * PATIENCE).await;
    scene.fleet.kill(0).await;
    scene.bob.send(&scene.chat, "b1", "are you there?").await;
    assert_eq!(scene.bob.hear("ack").await["seq"], 3, "the next seq after the reserved one");
    let void = scene.bob.hear("message").await;
    assert_eq!((&void["seq"], &void["content_type"]), (&json!(2), &json!("void")));

    // Alice's client received no ack, so it reconnects to another node and resends the message.
    let mut alice = Talker::connect(scene.fleet.address(1), &scene.tokens[0]).await;
    alice.send(&scene.chat, "a2", "late").await;
    let ack = alice.hear("ack").await;
    assert_eq!((&ack["seq"], &ack["duplicate"]), (&json!(4), &json!(false)));
    assert_eq!(scene.bob.hear("message").await["seq"], 4);
    let rows = [("text", "a1"), ("void", ""), ("text", "b1"), ("text", "a2")];
    assert_eq!(scene.history().await, expected(&rows));
}

#[tokio::test(flavor = "multi_thread")]
async fn reader_fills_the_gap_of_a_dead_writer_with_a_void() {
    let mut scene = Scene::set_up().await;
    scene.alice_is_held_back(10 * PATIENCE).await;
    scene.fleet.kill(0).await;
    // The reserved seq becomes a visible gap when a message is written above it. The first reader
    // fills it.
    scene.bob.send(&scene.chat, "b1", "are you there?").await;
    let rows = [("text", "a1"), ("void", ""), ("text", "b1")];
    let start = Instant::now();
    while scene.history().await.len() < rows.len() {
        assert!(start.elapsed() < PATIENCE, "the second message did not arrive");
    }
    assert_eq!(scene.history().await, expected(&rows));
    assert_eq!(scene.bob.hear("ack").await["seq"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_writer_loses_its_seq_and_its_client_gets_one_ack_with_another_seq() {
    let mut scene = Scene::set_up().await;
    scene.alice_is_held_back(Duration::from_secs(3)).await;
    scene.bob.send(&scene.chat, "b1", "are you there?").await;
    assert_eq!(scene.bob.hear("ack").await["seq"], 3);
    assert_eq!(scene.bob.hear("message").await["content_type"], "void");
    scene.proxy.pass();

    let ack = scene.alice.hear("ack").await;
    assert_eq!((&ack["message_id"], &ack["seq"]), (&json!("a2"), &json!(4)));
    assert_eq!(scene.bob.hear("message").await["message_id"], "a2");
    let rows = [("text", "a1"), ("void", ""), ("text", "b1"), ("text", "a2")];
    assert_eq!(scene.history().await, expected(&rows));
    // Send one more message: a second ack for the last one would arrive before its ack.
    scene.alice.send(&scene.chat, "a3", "again").await;
    assert_eq!(scene.alice.hear("ack").await["message_id"], "a3");
    assert_eq!(scene.alice.unheard("ack"), 0);
}
