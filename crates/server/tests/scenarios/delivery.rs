//! Delivery of messages to all devices, and their order.

use serde_json::json;

use crate::harness::{Setup, World};

#[tokio::test(flavor = "multi_thread")]
async fn message_reaches_all_devices_and_the_sending_one_gets_the_ack() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    let (mut phone, mut laptop) = (alice.connect().await, alice.connect().await);
    let (mut tablet, mut watch) = (bob.connect().await, bob.connect().await);
    phone.send(&chat, "m1", "hi").await;

    let ack = phone.receive_type("ack").await;
    let expected = json!({
        "type": "ack", "conversation_id": chat, "message_id": "m1", "seq": 1, "received_at": ack["received_at"],
        "duplicate": false,
    });
    assert_eq!(ack, expected);
    for device in [&mut laptop, &mut tablet, &mut watch] {
        let message = device.receive_type("message").await;
        let expected = json!({
            "type": "message", "conversation_id": chat, "seq": 1, "message_id": "m1", "sender_id": "alice",
            "receiver_id": "bob", "content": "hi", "content_type": "text", "timestamp": message["timestamp"],
            "received_at": ack["received_at"],
        });
        assert_eq!(message, expected);
    }
    phone.receives_nothing().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn message_sent_over_http_reaches_all_devices_of_the_sender() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    let (mut phone, mut tablet) = (alice.connect().await, bob.connect().await);
    assert_eq!(alice.send(&chat, "m1", "hi").await.status, 201);
    assert_eq!(phone.receive_type("message").await["message_id"], "m1");
    assert_eq!(tablet.receive_type("message").await["message_id"], "m1");
}

#[tokio::test(flavor = "multi_thread")]
async fn group_notices_reach_online_members() {
    let world = World::new().await;
    let [alice, bob, carol] = world.people(["alice", "bob", "carol"]);
    let (mut bobs, mut carols) = (bob.connect().await, carol.connect().await);
    let group = alice.group(&["bob"]).await;
    assert_eq!(bobs.receive_type("message").await["seq"], 1);
    alice.add(&group, &["carol", "dave"]).await;
    assert_eq!(
        (bobs.receive().await["seq"].as_u64(), bobs.receive().await["seq"].as_u64()),
        (Some(2), Some(3))
    );
    assert_eq!(
        (carols.receive().await["seq"].as_u64(), carols.receive().await["seq"].as_u64()),
        (Some(2), Some(3))
    );
}

/// Eight users send to one group concurrently. Every connection gets every seq once and in order,
/// own messages as acks.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_senders_produce_one_order_on_every_connection() {
    const EACH: usize = 150;
    let names = ["p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7"];
    let world = Setup::limits(|limits| limits.sends_per_second = 0).start().await;
    let people = world.people(names);
    let group = people[0].group(&names).await;
    let watcher = world.person("p0");
    let mut devices = vec![watcher.connect().await];
    for person in &people {
        devices.push(person.connect().await);
    }
    let total = names.len() * EACH;
    let mut tasks = tokio::task::JoinSet::new();
    for (number, mut device) in devices.into_iter().enumerate() {
        let group = group.clone();
        tasks.spawn(async move {
            let own = number.checked_sub(1);
            if let Some(sender) = own {
                for index in 0..EACH {
                    device.send(&group, &format!("{sender}-{index}"), "x").await;
                }
            }
            let mut seen = Vec::new();
            for _ in 0..total {
                let frame = device.receive().await;
                let id = frame["message_id"].as_str().unwrap().to_string();
                let mine = own.is_some_and(|sender| id.starts_with(&format!("{sender}-")));
                assert_eq!(frame["type"], if mine { "ack" } else { "message" });
                seen.push((frame["seq"].as_u64().unwrap(), id));
            }
            seen
        });
    }
    let views = tasks.join_all().await;
    let seqs: Vec<u64> = views[0].iter().map(|(seq, _)| *seq).collect();
    assert_eq!(seqs, (2..=total as u64 + 1).collect::<Vec<_>>());
    assert!(views.iter().all(|view| *view == views[0]));
    // Messages of one connection keep the order in which it sent them.
    for sender in 0..names.len() {
        let prefix = format!("{sender}-");
        let own: Vec<&str> = views[0].iter().filter_map(|(_, id)| id.strip_prefix(&prefix)).collect();
        assert_eq!(own, (0..EACH).map(|index| index.to_string()).collect::<Vec<_>>());
    }
}
