//! Users connected to different nodes, without faults.

use std::time::Duration;

use bluetick_testkit::fleet::FleetProcesses;
use bluetick_testkit::http::{history, request};
use bluetick_testkit::load::ADMIN_KEY;
use bluetick_testkit::redis::RedisServer;
use bluetick_testkit::talker::Talker;
use serde_json::{Value, json};

use crate::dependencies::FleetDependencies;
use crate::load::{Load, measure, sizes};

pub async fn mint(address: &str, admin_key: &str, user: &str) -> String {
    let body = json!({"user_id": user, "ttl_s": 3600});
    let (status, answer) = request(address, "POST", "/v1/tokens", admin_key, Some(&body)).await.unwrap();
    assert!(status < 300, "{status} {answer}");
    answer["token"].as_str().unwrap().to_owned()
}

pub async fn open(address: &str, token: &str, body: &Value) -> String {
    let (status, answer) = request(address, "POST", "/v1/conversations", token, Some(body)).await.unwrap();
    assert!(status < 300, "{status} {answer}");
    answer["conversation_id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_created_by_one_node_are_used_by_all_nodes() {
    let redis = RedisServer::start();
    let dependencies = FleetDependencies::on(&redis).await;
    let endpoint = dependencies.dynamo().endpoint();
    let fleet = FleetProcesses::start(2, |_, data_dir| dependencies.launcher(data_dir, &endpoint)).await;
    let admin_key = |node: usize| std::fs::read_to_string(fleet.directory(node).join("admin.key")).unwrap();
    for (mints, takes) in [(0, 1), (1, 0)] {
        let token = mint(fleet.address(mints), admin_key(takes).trim(), "alice").await;
        let (status, answer) =
            request(fleet.address(takes), "GET", "/v1/conversations", &token, None).await.unwrap();
        assert_eq!(status, 200, "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_users_on_three_nodes_get_messages_in_order_with_ticks_and_presence() {
    let redis = RedisServer::start();
    let fleet = FleetDependencies::on(&redis).await.fleet(3).await;
    let names = ["alice", "bob", "carol"];
    let mut tokens = Vec::new();
    for name in names {
        tokens.push(mint(fleet.address(0), ADMIN_KEY, name).await);
    }
    let group = json!({"kind": "group", "title": "three", "members": names});
    let group = open(fleet.address(0), &tokens[0], &group).await;
    // A node announces presence only to peers in direct conversations.
    for (one, peer) in [(0, "bob"), (0, "carol"), (1, "carol")] {
        let direct = json!({"kind": "direct", "peer": peer});
        let direct = open(fleet.address(one), &tokens[one], &direct).await;
        // The peer does not see the conversation before its first message.
        let path = format!("/v1/conversations/{direct}/messages");
        let body = json!({"message_id": format!("hello-{peer}"), "content": "hello"});
        let sent = request(fleet.address(one), "POST", &path, &tokens[one], Some(&body)).await.unwrap();
        assert_eq!(sent.0, 201, "{}", sent.1);
    }
    let mut people = Vec::new();
    for (node, token) in tokens.iter().enumerate() {
        people.push(Talker::connect(fleet.address(node), token).await);
    }
    // A user who is connected already receives the presence of the others.
    let came = people[0].hear("presence").await;
    assert_eq!(came["online"], true, "{came}");

    let mut expected = Vec::new();
    for round in 0..10 {
        for speaker in 0..names.len() {
            let id = format!("{}-{round}", names[speaker]);
            people[speaker].send(&group, &id, &id).await;
            let ack = people[speaker].hear("ack").await;
            assert_eq!(ack["message_id"], id.as_str());
            expected.push((ack["seq"].as_u64().unwrap(), id.clone()));
            for listener in (0..names.len()).filter(|listener| *listener != speaker) {
                let message = loop {
                    let message = people[listener].hear("message").await;
                    if message["conversation_id"] == group.as_str() && message["content_type"] != "system" {
                        break message;
                    }
                };
                assert_eq!((&message["seq"], &message["message_id"]), (&ack["seq"], &json!(id)));
            }
        }
    }
    assert!(
        expected.is_sorted() && expected.windows(2).all(|pair| pair[0].0 + 1 == pair[1].0),
        "{expected:?}"
    );
    let head = expected.last().unwrap().0;
    for node in 0..3 {
        let stored = history(fleet.address(node), &tokens[1], &group).await;
        let said: Vec<_> = stored.iter().filter(|message| !message.system).collect();
        assert_eq!(said.len(), expected.len(), "the history on node {node}");
    }

    for (kind, field) in [("delivered", "last_delivered_seq"), ("read", "last_read_seq")] {
        people[1].say(json!({"type": kind, "conversation_id": group, "seq": head})).await;
        for listener in [0, 2] {
            loop {
                let status = people[listener].hear("status").await;
                if status["user_id"] == "bob" && status[field] == head {
                    break;
                }
            }
        }
    }
    people[2].say(json!({"type": "typing", "conversation_id": group})).await;
    for listener in [0, 1] {
        assert_eq!(people[listener].hear("typing").await["user_id"], "carol");
    }
    drop(people.pop());
    for listener in [0, 1] {
        loop {
            let presence = people[listener].hear("presence").await;
            if presence["user_id"] == "carol" && presence["online"] == false {
                break;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn devices_that_change_nodes_end_with_complete_histories() {
    let redis = RedisServer::start();
    let mut fleet = FleetDependencies::on(&redis).await.fleet(3).await;
    let load = Load::connect(&fleet, sizes(6)).await;
    let verdict = load
        .run_with_faults(&mut fleet, async |_, meter| {
            measure(meter, "without faults", Duration::from_secs(6)).await;
        })
        .await;
    assert!(verdict.happened.connections > 18 && verdict.happened.statuses > 0, "{verdict:?}");
}
