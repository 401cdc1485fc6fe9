//! The backlog that a device gets when it connects.

use std::sync::atomic::Ordering;

use bluetick_core::Seq;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::faulty_store::FaultyStore;
use crate::harness::{Device, Person, Setup, World};

pub fn without_rates() -> Setup {
    Setup::limits(|limits| {
        limits.sends_per_second = 0;
        limits.requests_per_second = 0;
    })
}

/// Returns the seqs of a conversation, of messages and acks alike, in the order received.
pub fn seqs(frames: &[Value], conversation: &str) -> Vec<u64> {
    let of_it = frames.iter().filter(|frame| frame["conversation_id"] == conversation);
    let placed = of_it.filter(|frame| frame["type"] == "message" || frame["type"] == "ack");
    placed.map(|frame| frame["seq"].as_u64().unwrap()).collect()
}

pub fn range(first: u64, last: u64) -> Vec<u64> {
    (first..=last).collect()
}

pub async fn write(sender: &Person, conversation: &str, count: usize) {
    let mut device = sender.connect_now().await;
    for number in 0..count {
        device.send(conversation, &format!("{}-{number}", sender.name), "hi").await;
    }
    for _ in 0..count {
        while device.receive_any().await["type"] != "ack" {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missed_messages_are_sent_in_order_until_acknowledged() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    write(&alice, &chat, 250).await;
    for _ in 0..2 {
        let tablet = bob.connect().await;
        assert_eq!(seqs(&tablet.backlog, &chat), range(1, 250));
    }
    let mut tablet = bob.connect().await;
    tablet.send_receipt("delivered", &chat, 249).await;
    tablet.receives_nothing().await;
    world.person("settler").wait_for_delivery().await;
    assert_eq!(seqs(&bob.connect().await.backlog, &chat), [250]);
    tablet.send_receipt("delivered", &chat, 250).await;
    tablet.receives_nothing().await;
    world.person("settler").wait_for_delivery().await;
    assert_eq!(seqs(&bob.connect().await.backlog, &chat), [0; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn unacknowledged_push_is_sent_again_after_reconnect() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    let mut tablet = bob.connect().await;
    alice.send(&chat, "m1", "hi").await;
    tablet.receive_type("message").await;
    drop(tablet);
    assert_eq!(seqs(&bob.connect().await.backlog, &chat), [1]);
}

/// The user has read everything on one device while the other was offline.
#[tokio::test(flavor = "multi_thread")]
async fn device_with_a_position_gets_messages_above_it() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    write(&alice, &chat, 120).await;
    let mut tablet = bob.connect().await;
    tablet.send_receipt("read", &chat, 120).await;
    tablet.receives_nothing().await;
    bob.wait_for_delivery().await;
    let at = |position: Value| json!({chat.clone(): position});
    assert_eq!(seqs(&bob.connect_at(at(json!({"epoch": 1, "seq": 7}))).await.backlog, &chat), range(8, 120));
    assert_eq!(seqs(&bob.connect_at(at(json!(119))).await.backlog, &chat), [120]);
    assert_eq!(seqs(&bob.connect_at(at(json!(120))).await.backlog, &chat), [0; 0]);
    assert_eq!(seqs(&bob.connect_at(at(json!(5_000))).await.backlog, &chat), [0; 0]);
    // A position of another store epoch is ignored, and so is one above the head.
    let other_life = at(json!({"epoch": 9, "seq": 7}));
    assert_eq!(seqs(&bob.connect_at(other_life).await.backlog, &chat), [0; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn position_in_a_left_or_unknown_group_returns_gone() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let group = alice.group(&["bob"]).await;
    assert_eq!(alice.remove(&group, "bob").await.status, 204);
    let never = format!("g{}", "0".repeat(group.len() - 1));
    let tablet = bob.connect_at(json!({group.clone(): 1, never.clone(): 4})).await;
    let mut gone: Vec<Value> = [group, never].map(|id| json!({"type": "gone", "conversation_id": id})).into();
    // The notice of the removal may still be in delivery; then it is sent, followed by another
    // `gone`.
    let mut backlog = tablet.backlog.clone();
    backlog.retain(|frame| frame["type"] == "gone");
    for frames in [&mut gone, &mut backlog] {
        frames.sort_by_key(Value::to_string);
    }
    backlog.dedup();
    assert_eq!(backlog, gone, "an unknown and an inaccessible group get the same answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn position_in_hello_stores_messages_as_delivered() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    write(&alice, &chat, 5).await;
    let mut phone = alice.connect().await;
    let tablet = bob.connect_at(json!({chat.clone(): 3})).await;
    assert_eq!(seqs(&tablet.backlog, &chat), [4, 5]);
    let status = phone.receive_type("status").await;
    assert_eq!((&status["user_id"], &status["last_delivered_seq"]), (&json!("bob"), &json!(3)));
}

#[tokio::test(flavor = "multi_thread")]
async fn device_without_backlog_gets_caught_up_immediately() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    alice.direct("bob").await;
    let mut tablet = bob.connect().await;
    assert_eq!(tablet.backlog, Vec::<Value>::new());
    tablet.receives_nothing().await;
    let metrics = world.get("/metrics").await.text();
    assert!(metrics.contains("bluetick_catch_ups 0\n"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn backlog_above_the_limit_returns_a_paging_range_and_continues_live() {
    let mut setup = without_rates();
    setup.limits.backlog_messages = 150;
    let world = setup.start().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    write(&alice, &chat, 400).await;
    let mut tablet = bob.connect().await;
    let (backlog, messages) = tablet.backlog.split_last().unwrap();
    assert_eq!(seqs(messages, &chat), range(1, 150));
    let expected = json!({
        "type": "backlog", "conversation_id": chat, "next_after_seq": 150, "head_seq": 400,
    });
    assert_eq!(*backlog, expected);
    alice.send(&chat, "live", "hi").await;
    assert_eq!(tablet.receive_type("message").await["seq"], 401);
    let page = bob.history(&chat, "?after_seq=150&limit=100").await;
    assert_eq!(page.seqs(), range(151, 250));
}

#[tokio::test(flavor = "multi_thread")]
async fn backlog_of_exactly_the_limit_is_sent_completely() {
    let mut setup = without_rates();
    setup.limits.backlog_messages = 20;
    let world = setup.start().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    write(&alice, &chat, 20).await;
    let tablet = bob.connect().await;
    assert_eq!((seqs(&tablet.backlog, &chat), tablet.backlog.len()), (range(1, 20), 20));
}

#[tokio::test(flavor = "multi_thread")]
async fn conversations_above_the_backlog_limit_get_only_a_backlog_frame() {
    let mut setup = without_rates();
    setup.limits.backlog_conversations = 3;
    let world = setup.start().await;
    let bob = world.person("bob");
    let mut chats = Vec::new();
    for number in 0..8 {
        let friend = world.person(&format!("friend{number}"));
        let chat = friend.direct("bob").await;
        friend.send(&chat, "m1", "hi").await;
        friend.send(&chat, "m2", "hi").await;
        chats.push((friend, chat));
    }
    let mut tablet = bob.connect().await;
    let whole = chats.iter().filter(|(_, chat)| seqs(&tablet.backlog, chat) == [1, 2]).count();
    let told = tablet.backlog.iter().filter(|frame| frame["type"] == "backlog").collect::<Vec<_>>();
    assert_eq!((whole, told.len(), tablet.backlog.len()), (3, 5, 2 * 3 + 5));
    assert!(told.iter().all(|frame| frame["next_after_seq"] == 0 && frame["head_seq"] == 2));
    for (friend, chat) in &chats {
        friend.send(chat, "m3", "live").await;
        assert_eq!(tablet.receive_type("message").await["seq"], 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn store_failure_during_catch_up_closes_with_internal_error() {
    let store = FaultyStore::default();
    let world = store.setup().start().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    alice.send(&chat, "m1", "hi").await;
    store.pages_fail.store(true, Ordering::SeqCst);
    let mut tablet = Device::open(world.addr).await;
    tablet.send_json(json!({"type": "hello", "token": bob.token})).await;
    assert_eq!(tablet.closed_with().await, (1011, "internal_error".into()));
    store.pages_fail.store(false, Ordering::SeqCst);
    assert_eq!(seqs(&bob.connect().await.backlog, &chat), [1]);
}

/// A position applies to its conversation. In others, unacknowledged messages are sent.
#[tokio::test(flavor = "multi_thread")]
async fn backlogs_of_several_conversations_keep_their_order() {
    let world = without_rates().start().await;
    let bob = world.person("bob");
    let mut chats = Vec::new();
    for number in 0..10 {
        let friend = world.person(&format!("friend{number}"));
        let chat = friend.direct("bob").await;
        write(&friend, &chat, 120).await;
        chats.push(chat);
    }
    let tablet = bob.connect_at(json!({chats[0].clone(): 100})).await;
    assert_eq!(seqs(&tablet.backlog, &chats[0]), range(101, 120));
    for chat in &chats[1..] {
        assert_eq!(seqs(&tablet.backlog, chat), range(1, 120));
    }
}

/// Many devices reconnect at once, as after a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_reconnects_each_get_their_backlog() {
    const DEVICES: usize = 150;
    let world = without_rates().start().await;
    let names: Vec<String> = (0..DEVICES).map(|number| format!("p{number}")).collect();
    let members: Vec<&str> = names.iter().map(String::as_str).collect();
    let alice = world.person("alice");
    let group = alice.group(&members).await;
    write(&alice, &group, 100).await;
    let mut devices = JoinSet::new();
    for name in &names {
        let person = world.person(name);
        devices.spawn(async move { person.connect_now().await.backlog });
    }
    for backlog in devices.join_all().await {
        assert_eq!(seqs(&backlog, &group), range(1, 101));
    }
    let metrics = world.get("/metrics").await.text();
    // The sender got the notice of its own group, too.
    let expected = format!("bluetick_backlog_messages_total {}\n", DEVICES * 101 + 1);
    assert!(metrics.contains(&expected) && metrics.contains("bluetick_catch_ups 0\n"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn late_member_gets_no_backlog_from_before_its_joining() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let group = alice.group(&["carol"]).await;
    alice.send(&group, "m1", "before").await;
    alice.add(&group, &["bob"]).await;
    alice.send(&group, "m2", "after").await;
    assert_eq!(seqs(&bob.connect_at(json!({group.clone(): 0})).await.backlog, &group), [3, 4]);
    let behind = world.store.behind(&"bob".parse().unwrap(), Vec::new()).await.unwrap().behind;
    assert_eq!(behind[0].after, Seq::new(2));
}
