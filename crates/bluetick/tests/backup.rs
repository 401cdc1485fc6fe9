//! `bluetick backup` and `bluetick restore` on a real server under load, to a directory and to S3.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod support;

use std::path::Path;
use std::time::Duration;

use bluetick_testkit::checker::{ClientEvent, ClientLog, Histories, check};
use bluetick_testkit::client::{MessageSender, Situation, epoch};
use bluetick_testkit::http::{history, messages, request};
use bluetick_testkit::process::Launcher;
use bluetick_testkit::s3::{S3Kind, S3Server};
use serde_json::{Value, json};
use support::{Outcome, Shell};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The admin key of every server under test.
const ADMIN_KEY: &str = "an-admin-key-for-this-test-alone";

/// Runs the command without blocking the threads of the test.
async fn run(shell: &Shell, variables: &[(&str, &str)], arguments: &[&str]) -> Outcome {
    let mut command = shell.command(arguments);
    command.envs(variables.iter().copied());
    tokio::task::spawn_blocking(move || Outcome::of(command.output().unwrap())).await.unwrap()
}

fn launcher(data_dir: &Path) -> Launcher {
    std::fs::create_dir_all(data_dir).unwrap();
    Launcher::new(env!("CARGO_BIN_EXE_bluetick"), data_dir)
        .with("BLUETICK_LIMITS__SENDS_PER_SECOND", "0")
        .with("BLUETICK_LIMITS__REQUESTS_PER_SECOND", "0")
        .with("BLUETICK_STORE__SEGMENT_BYTES", "4194304")
        .with("BLUETICK_STORE__CHECKPOINT_BYTES", "4194304")
        .with("BLUETICK_STORE__CHECKPOINT_IDLE_SECONDS", "1")
}

fn admin_key(data_dir: &Path) -> String {
    std::fs::read_to_string(data_dir.join("admin.key")).unwrap().trim().to_owned()
}

async fn token(address: &str, key: &str, user: &str) -> String {
    let body = json!({"user_id": user, "ttl_s": 3600});
    let (status, answer) = request(address, "POST", "/v1/tokens", key, Some(&body)).await.unwrap();
    assert!(status < 300, "{answer}");
    answer["token"].as_str().unwrap().to_owned()
}

async fn open(address: &str, token: &str, body: Value) -> String {
    let (status, answer) = request(address, "POST", "/v1/conversations", token, Some(&body)).await.unwrap();
    assert!(status < 300, "{answer}");
    answer["conversation_id"].as_str().unwrap().to_owned()
}

/// A load of senders in one group and in pairs. They send until they are stopped.
struct ClientLoad {
    announce: watch::Sender<Situation>,
    senders: JoinSet<ClientLog>,
}

impl ClientLoad {
    /// Starts the senders. `name` prefixes their message ids, so that several loads can use the
    /// same conversations in sequence.
    fn talk(name: &str, address: &str, people: &[(String, String, Vec<String>)]) -> ClientLoad {
        let (announce, situation) = watch::channel(Situation::default());
        announce.send_modify(|now| now.addresses = vec![address.to_owned()]);
        let mut senders = JoinSet::new();
        for (number, (user, token, conversations)) in people.iter().enumerate() {
            let sender = MessageSender {
                // The name only determines the message ids. The token determines the user.
                name: format!("{name}-{user}"),
                token: token.clone(),
                conversations: conversations.clone(),
                window: 1 + number * 2,
            };
            let (user, situation) = (user.clone(), situation.clone());
            senders.spawn(async move { ClientLog { sender: user, ..sender.run(situation).await } });
        }
        ClientLoad { announce, senders }
    }

    async fn end(self) -> Vec<ClientLog> {
        self.announce.send_modify(|now| now.stop = true);
        self.senders.join_all().await
    }
}

/// Keeps only the attempts: a backup made meanwhile may or may not contain their messages.
fn tried_only(logs: &[ClientLog]) -> Vec<ClientLog> {
    let tried = |log: &ClientLog| ClientLog {
        sender: log.sender.clone(),
        events: log
            .events
            .iter()
            .filter(|event| matches!(event, ClientEvent::Attempted { .. }))
            .cloned()
            .collect(),
    };
    logs.iter().map(tried).collect()
}

fn acknowledged(logs: &[ClientLog]) -> usize {
    let of = |log: &ClientLog| {
        log.events.iter().filter(|event| matches!(event, ClientEvent::Acknowledged { .. })).count()
    };
    logs.iter().map(of).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn backup_under_load_holds_all_earlier_acked_messages_and_no_partial_ones() {
    let shell = Shell::new();
    let live = shell.path("live");
    let server = launcher(&live).start().await;
    let (address, key) = (server.address.clone(), admin_key(&live));
    let names: Vec<String> = (0..6).map(|number| format!("person{number}")).collect();
    let mut tokens = Vec::new();
    for name in &names {
        tokens.push(token(&address, &key, name).await);
    }
    let group = open(&address, &tokens[0], json!({"kind": "group", "title": "all", "members": names})).await;
    let (mut people, mut conversations) = (Vec::new(), vec![(0, group.clone())]);
    for (number, name) in names.iter().enumerate() {
        let peer = &names[(number + 1) % names.len()];
        let direct = open(&address, &tokens[number], json!({"kind": "direct", "peer": peer})).await;
        conversations.push((number, direct.clone()));
        people.push((name.clone(), tokens[number].clone(), vec![group.clone(), direct]));
    }

    // All of this is acknowledged before the first backup begins.
    let before = ClientLoad::talk("before", &address, &people);
    while history(&address, &tokens[0], &group).await.len() < 200 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let before = before.end().await;
    let during = ClientLoad::talk("during", &address, &people);
    let mut backups = Vec::new();
    for number in 0..3 {
        let to = format!("backup-{number}");
        let said = run(&shell, &[], &["backup", &to, "--data-dir", "live", "--json"]).await.printed();
        let report: Value = serde_json::from_str(&said).unwrap();
        assert_eq!((&report["with_keys"], &report["damaged_rows"]), (&json!(true), &json!(0)), "{report}");
        backups.push((to, report));
        let so_far = history(&address, &tokens[0], &group).await.len();
        while history(&address, &tokens[0], &group).await.len() < so_far + 30 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    let during = during.end().await;
    println!("{} acknowledged before, {} during", acknowledged(&before), acknowledged(&during));
    assert!(acknowledged(&before) > 100 && acknowledged(&during) > 100, "too little traffic");
    let old_epoch = epoch(&address, &tokens[0]).await.unwrap();
    server.kill().await;

    for (number, (backup, report)) in backups.iter().enumerate() {
        let again = format!("again-{number}");
        run(&shell, &[], &["restore", backup, "--data-dir", &again]).await.printed();
        let checked = run(&shell, &[], &["check", "--data-dir", &again]).await.printed();
        assert!(checked.contains("none; the store is sound"), "{checked}");
        let server = launcher(&shell.path(&again)).start().await;
        // The backup contains the keys, so tokens of the old server are valid here.
        let mut messages = 0;
        for (reader, conversation) in &conversations {
            messages += history(&server.address, &tokens[*reader], conversation).await.len();
        }
        assert_eq!(json!(messages), report["messages"]);
        assert!(epoch(&server.address, &tokens[0]).await.unwrap() > old_epoch);
        let in_group = history(&server.address, &tokens[0], &group).await.len();
        let after = ClientLoad::talk("after", &server.address, &people);
        while history(&server.address, &tokens[0], &group).await.len() < in_group + 20 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let after = after.end().await;
        let mut histories = Histories::new();
        for (reader, conversation) in &conversations {
            let messages = history(&server.address, &tokens[*reader], conversation).await;
            histories.insert(conversation.clone(), messages);
        }
        let logs = [before.clone(), tried_only(&during), after].concat();
        let checked = check(&logs, &histories).unwrap_or_else(|violations| panic!("{violations:#?}"));
        println!("{backup}: {messages} messages, then {checked:?}");
        assert!(checked.acknowledged > acknowledged(&before) + 10, "nothing new was stored: {checked:?}");
        server.kill().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_backup_or_restore_is_refused_with_a_reason() {
    let shell = Shell::new();
    let live = shell.path("live");
    let server = launcher(&live).start().await;
    std::fs::create_dir(shell.path("taken")).unwrap();
    shell.file("taken/mine", "1");
    // Expect the same errors with and without a running server.
    let refusals = |shell: &Shell| {
        [
            shell.run(&["backup", "taken", "--data-dir", "live"]).refused(),
            shell.run(&["backup", "live/backup", "--data-dir", "live"]).refused(),
            shell.run(&["backup", "s3://bucket", "--data-dir", "live"]).refused(),
        ]
    };
    let online = refusals(&shell);
    server.kill().await;
    assert_eq!(refusals(&shell), online);
    assert!(online[0].contains("is not empty") && online[1].contains("lost with it"), "{online:?}");
    shell.run(&["backup", "offline", "--data-dir", "live", "--without-keys"]).printed();
    assert!(!shell.path("offline/token.key").exists());
    let said = shell.run(&["restore", "offline", "--data-dir", "taken"]).refused();
    assert!(said.contains("is not empty"), "{said}");
    let said = shell.run(&["restore", "taken", "--data-dir", "new"]).refused();
    assert!(said.contains("holds no backup"), "{said}");
    let said = shell.run(&["restore", "nowhere", "--data-dir", "new"]).refused();
    assert!(said.contains("no such directory"), "{said}");
    let said = shell.run(&["restore", "offline", "--data-dir", "new"]).printed();
    assert!(said.contains("Epoch") && said.contains("put token.key and admin.key back"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn backup_in_a_bucket_excludes_the_keys() {
    let objects = S3Server::start(S3Kind::S3sFs).await;
    let shell = Shell::new();
    let live = shell.path("live");
    let endpoint = objects.endpoint();
    let mut variables = vec![("BLUETICK_ARCHIVE__ENDPOINT", endpoint.as_str())];
    variables.extend(objects.credentials());
    let mut launcher = launcher(&live).with("BLUETICK_ADMIN__KEY", ADMIN_KEY);
    for (name, value) in &variables {
        launcher = launcher.with(name, value);
    }
    let server = launcher.start().await;
    let alice = token(&server.address, ADMIN_KEY, "alice").await;
    let id = open(&server.address, &alice, json!({"kind": "direct", "peer": "bob"})).await;
    for number in 0..30 {
        let body = json!({"message_id": format!("m{number}"), "content": format!("message {number}")});
        let path = format!("/v1/conversations/{id}/messages");
        assert_eq!(request(&server.address, "POST", &path, &alice, Some(&body)).await.unwrap().0, 201);
    }
    let known = messages(&server.address, &alice, &id).await;
    let to = format!("s3://{}/safe/monday", objects.bucket());
    let with_key = [&variables[..], &[("BLUETICK_ADMIN__KEY", ADMIN_KEY)]].concat();
    let said = run(&shell, &with_key, &["backup", &to, "--data-dir", "live", "--json"]).await.printed();
    let report: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&report["messages"], &report["with_keys"]), (&json!(30), &json!(false)), "{report}");
    let again = run(&shell, &with_key, &["backup", &to, "--data-dir", "live"]).await.refused();
    assert!(again.contains("is not empty"), "{again}");
    server.kill().await;

    run(&shell, &variables, &["restore", &to, "--data-dir", "again"]).await.printed();
    assert!(!shell.path("again/token.key").exists());
    // The backup has no keys, so copy them back from where they are kept.
    std::fs::copy(live.join("token.key"), shell.path("again/token.key")).unwrap();
    let server = Launcher::new(env!("CARGO_BIN_EXE_bluetick"), &shell.path("again")).start().await;
    assert_eq!(messages(&server.address, &alice, &id).await, known);
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        match entry.path().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_cold_copy_has_a_new_epoch_and_all_messages() {
    let shell = Shell::new();
    let data_dir = shell.path("data");
    let launcher = launcher(&data_dir);
    let server = launcher.start().await;
    let alice = token(&server.address, &admin_key(&data_dir), "alice").await;
    let id = open(&server.address, &alice, json!({"kind": "direct", "peer": "bob"})).await;
    let say = async |address: &str, text: &str| {
        let body = json!({"message_id": text, "content": text});
        let path = format!("/v1/conversations/{id}/messages");
        let (status, answer) = request(address, "POST", &path, &alice, Some(&body)).await.unwrap();
        assert_eq!(status, 201, "{answer}");
    };
    say(&server.address, "before-the-copy").await;
    let kept = messages(&server.address, &alice, &id).await;
    let first_epoch = epoch(&server.address, &alice).await.unwrap();
    let in_use = run(&shell, &[], &["restored", "--yes", "--data-dir", "data"]).await.refused();
    assert!(in_use.contains("is in use by process") && in_use.contains("stop the server"), "{in_use}");
    server.kill().await;
    copy(&data_dir, &shell.path("copy"));

    let server = launcher.start().await;
    say(&server.address, "after-the-copy").await;
    assert_eq!(epoch(&server.address, &alice).await, Some(first_epoch));
    server.kill().await;
    std::fs::rename(&data_dir, shell.path("lost")).unwrap();
    std::fs::rename(shell.path("copy"), &data_dir).unwrap();

    let unasked = run(&shell, &[], &["restored", "--data-dir", "data"]).await.refused();
    assert!(unasked.contains("--yes"), "{unasked}");
    let nowhere = run(&shell, &[], &["restored", "--yes", "--data-dir", "nowhere"]).await.refused();
    assert!(nowhere.contains("there is no store here"), "{nowhere}");
    assert!(!shell.path("nowhere").exists());
    let said = run(&shell, &[], &["restored", "--yes", "--json", "--data-dir", "data"]).await.printed();
    let said: Value = serde_json::from_str(&said).unwrap();
    let audit = std::fs::read_to_string(data_dir.join("audit.log")).unwrap();
    let acts: Vec<Value> = audit.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let outcomes: Vec<_> =
        acts.iter().filter(|entry| entry["act"] == "restored").map(|entry| &entry["outcome"]).collect();
    assert_eq!(outcomes, ["begun", "done"], "{audit}");

    let server = launcher.start().await;
    let second_epoch = epoch(&server.address, &alice).await.unwrap();
    assert!(second_epoch > first_epoch);
    assert_eq!(said["epoch"], json!(second_epoch));
    assert_eq!(messages(&server.address, &alice, &id).await, kept);
    server.kill().await;
}
