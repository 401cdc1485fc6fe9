//! Kills the server repeatedly with `kill -9` under load. Every client keeps a log; at the end the
//! checker compares all logs with the server's history.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bluetick_testkit::checker::{Histories, check};
use bluetick_testkit::client::{MessageSender, Situation};
use bluetick_testkit::http::{get_text, history, request};
use bluetick_testkit::process::{Launcher, ServerProcess};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The admin key of every server under test.
const ADMIN_KEY: &str = "an-admin-key-for-this-test-alone";
/// Number of clients that send concurrently.
const SENDERS: usize = 8;
/// Number of kills during the run. With fewer, kills hit fewer steps of a checkpoint.
const KILLS: usize = 24;

async fn token(address: &str, user: &str) -> String {
    let body = json!({"user_id": user, "ttl_s": 3600});
    let (status, answer) = request(address, "POST", "/v1/tokens", ADMIN_KEY, Some(&body)).await.unwrap();
    assert!(status < 300, "{answer}");
    answer["token"].as_str().unwrap().to_owned()
}

async fn open(address: &str, token: &str, body: Value) -> String {
    let (status, answer) = request(address, "POST", "/v1/conversations", token, Some(&body)).await.unwrap();
    assert!(status < 300, "{answer}");
    answer["conversation_id"].as_str().unwrap().to_owned()
}

/// How many checkpoints the server has completed since its start.
async fn checkpoints_of(address: &str) -> u64 {
    let metrics = get_text(address, "/metrics").await.unwrap();
    let count = metrics.lines().find_map(|line| line.strip_prefix("bluetick_checkpoint_seconds_count "));
    count.unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_dozen_kills_keep_every_acked_message_once_at_its_seq() {
    traffic_under_kills(&[]).await;
}

/// Archives messages as soon as they are in the tables, in small segments, so that kills hit every
/// step of the archiver.
#[tokio::test(flavor = "multi_thread")]
async fn two_dozen_kills_during_archiving_keep_every_acked_message_once() {
    let settings = [
        ("BLUETICK_ARCHIVE__ENGINE", "directory"),
        ("BLUETICK_ARCHIVE__AGE_SECONDS", "0"),
        ("BLUETICK_ARCHIVE__SEGMENT_MESSAGES", "10"),
        ("BLUETICK_ARCHIVE__MESSAGES_PER_SECOND", "0"),
    ];
    let (data_dir, server) = traffic_under_kills(&settings).await;
    let status = job(&server.address, "run", &json!({"partial": true})).await;
    let verified = job(&server.address, "verify", &json!({})).await;
    println!("{status:#}\n{verified:#}");
    assert_eq!(verified["last_job"]["report"]["problems"], json!([]));
    let (segments, messages) = (&verified["cold"]["segments"], &verified["cold"]["messages"]);
    assert!(messages.as_u64() > Some(500), "too few messages were archived: {messages}");
    // The archiver has removed orphans: the archive has one object per segment and the marker.
    let objects = files_below(&data_dir.path().join("archive"));
    assert_eq!(json!(objects - 1), *segments);
}

fn files_below(directory: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(directory).unwrap().flatten();
    entries.map(|entry| if entry.path().is_dir() { files_below(&entry.path()) } else { 1 }).sum()
}

/// Runs an archive job and returns the status of the archive afterwards.
async fn job(address: &str, kind: &str, body: &Value) -> Value {
    let path = format!("/v1/archive/{kind}");
    let job = loop {
        let (status, answer) = request(address, "POST", &path, ADMIN_KEY, Some(body)).await.unwrap();
        match status {
            202 => break answer["job_id"].clone(),
            // Another job is running.
            409 => tokio::time::sleep(Duration::from_millis(20)).await,
            _ => panic!("{status} {answer}"),
        }
    };
    loop {
        let (_, now) = request(address, "GET", "/v1/archive", ADMIN_KEY, None).await.unwrap();
        if now["last_job"]["job_id"] == job {
            assert_eq!(now["last_job"]["error"], Value::Null);
            return now;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn traffic_under_kills(settings: &[(&str, &str)]) -> (tempfile::TempDir, ServerProcess) {
    let mut seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64 | 1;
    println!("seed {seed}");
    let mut up_to = |bound: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % bound
    };
    let data_dir = tempfile::tempdir().unwrap();
    // Run checkpoints without a pause, so that kills hit many of them.
    let mut launcher = Launcher::new(env!("CARGO_BIN_EXE_bluetick"), data_dir.path())
        .with("BLUETICK_ADMIN__KEY", ADMIN_KEY)
        .with("BLUETICK_LIMITS__SENDS_PER_SECOND", "0")
        .with("BLUETICK_LIMITS__REQUESTS_PER_SECOND", "0")
        .with("BLUETICK_STORE__SEGMENT_BYTES", "4194304")
        .with("BLUETICK_STORE__CHECKPOINT_BYTES", "4194304")
        .with("BLUETICK_STORE__CHECKPOINT_IDLE_SECONDS", "0")
        .with("BLUETICK_STORE__AWAKE_CONVERSATIONS", "2");
    for (variable, value) in settings {
        launcher = launcher.with(variable, value);
    }
    let archives = !settings.is_empty();

    let mut server = launcher.start().await;
    let names: Vec<String> = (0..SENDERS).map(|number| format!("sender{number}")).collect();
    let mut tokens = Vec::new();
    for name in &names {
        tokens.push(token(&server.address, name).await);
    }
    let group = json!({"kind": "group", "title": "everybody", "members": names});
    let group = open(&server.address, &tokens[0], group).await;
    let mut conversations = vec![(0, group.clone())];
    let mut senders = JoinSet::new();
    let (announce, situation) = watch::channel(Situation::default());
    for (number, name) in names.iter().enumerate() {
        let peer = &names[(number + 1) % SENDERS];
        let direct = open(&server.address, &tokens[number], json!({"kind": "direct", "peer": peer})).await;
        conversations.push((number, direct.clone()));
        let sender = MessageSender {
            name: name.clone(),
            token: tokens[number].clone(),
            conversations: vec![group.clone(), direct],
            window: 1 + number * 4,
        };
        senders.spawn(sender.run(situation.clone()));
    }

    let mut checkpoints = 0;
    for _ in 0..KILLS {
        announce.send_modify(|now| now.addresses = vec![server.address.clone()]);
        if archives {
            let run = json!({"partial": true});
            let asked = request(&server.address, "POST", "/v1/archive/run", ADMIN_KEY, Some(&run)).await;
            let (status, answer) = asked.unwrap();
            assert_eq!(status, 202, "{answer} {}", launcher.log());
        }
        tokio::time::sleep(Duration::from_millis(20 + up_to(230))).await;
        checkpoints += checkpoints_of(&server.address).await;
        announce.send_modify(|now| now.addresses.clear());
        server.kill().await;
        server = launcher.start().await;
    }
    announce.send_modify(|now| now.addresses = vec![server.address.clone()]);
    tokio::time::sleep(Duration::from_millis(200)).await;
    announce.send_modify(|now| now.stop = true);
    let logs = senders.join_all().await;

    let mut histories = Histories::new();
    for (reader, conversation) in conversations {
        let messages = history(&server.address, &tokens[reader], &conversation).await;
        histories.insert(conversation, messages);
    }
    let checked = check(&logs, &histories).unwrap_or_else(|violations| panic!("{violations:#?}"));
    println!("{checked:?}");
    println!("{checkpoints} checkpoints");
    assert!(checkpoints > KILLS as u64, "too few checkpoints: {checkpoints}");
    assert!(checked.acknowledged > 500, "too little traffic: {checked:?}");
    assert!(checked.connections > SENDERS * KILLS / 2, "too few reconnects: {checked:?}");
    (data_dir, server)
}
