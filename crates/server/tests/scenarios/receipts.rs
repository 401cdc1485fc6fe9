//! Receipts and inbox entries as frames on connected devices.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bluetick_core::ports::{Receipt, SetPreferences};
use bluetick_core::time::ManualClock;
use bluetick_core::{ConversationId, PreferenceChange, ReceiptKind, Seq, Timestamp};
use serde_json::{Value, json};

use crate::faulty_store::FaultyStore;
use crate::harness::{Device, Person, Setup, TIMEOUT, World};

fn status(conversation: &str, user: &str, delivered: u64, read: u64) -> Value {
    json!({
        "type": "status", "conversation_id": conversation, "user_id": user, "last_delivered_seq": delivered,
        "last_read_seq": read,
    })
}

fn with_unread(mut status: Value, unread: u64) -> Value {
    status["unread"] = unread.into();
    status
}

/// Returns the received frames of these types, after everything committed has passed the fan-out.
async fn heard(person: &Person, device: &mut Device, kinds: &[&str]) -> Vec<Value> {
    person.wait_for_delivery().await;
    let frames = device.received_so_far().await;
    frames.into_iter().filter(|frame| kinds.iter().any(|kind| frame["type"] == *kind)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn delivered_and_read_receipts_reach_both_devices_of_the_sender() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    let (mut phone, mut laptop) = (alice.connect().await, alice.connect().await);
    let mut tablet = bob.connect().await;
    phone.send(&chat, "m1", "hi").await;
    tablet.receive_type("message").await;
    tablet.send_receipt("delivered", &chat, 1).await;
    for device in [&mut phone, &mut laptop] {
        assert_eq!(receive_status(device).await, status(&chat, "bob", 1, 0));
    }
    tablet.send_receipt("read", &chat, 1).await;
    for device in [&mut phone, &mut laptop] {
        assert_eq!(receive_status(device).await, status(&chat, "bob", 1, 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn own_receipts_reach_the_other_device_with_the_unread_count() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    let (mut tablet, mut watch) = (bob.connect().await, bob.connect().await);
    for number in 1..=3 {
        alice.send(&chat, &format!("m{number}"), "hi").await;
    }
    tablet.send_receipt("delivered", &chat, 3).await;
    assert_eq!(receive_status(&mut watch).await, with_unread(status(&chat, "bob", 3, 0), 3));
    tablet.send_receipt("read", &chat, 2).await;
    assert_eq!(receive_status(&mut watch).await, with_unread(status(&chat, "bob", 3, 2), 1));
    // The device that sent the receipt gets no frame.
    assert_eq!(heard(&bob, &mut tablet, &["status"]).await, Vec::<Value>::new());
}

/// Returns the next `status` frame and skips messages.
async fn receive_status(device: &mut Device) -> Value {
    loop {
        let frame = device.receive_any().await;
        if frame["type"] == "status" {
            return frame;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reply_marks_earlier_messages_as_read() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    let mut phone = alice.connect().await;
    phone.send(&chat, "m1", "hi").await;
    phone.receive_type("ack").await;
    bob.send(&chat, "m2", "hello").await;
    assert_eq!(phone.receive_type("message").await["seq"], 2);
    assert_eq!(phone.receive_type("status").await, status(&chat, "bob", 1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn late_repeated_and_forged_receipts_change_nothing() {
    let world = World::new().await;
    let [alice, bob, eve] = world.people(["alice", "bob", "eve"]);
    let chat = alice.direct("bob").await;
    let (mut phone, mut tablet, mut evil) = (alice.connect().await, bob.connect().await, eve.connect().await);
    alice.send(&chat, "m1", "hi").await;
    // A seq above the head counts as the head.
    tablet.send_receipt("read", &chat, 9_000_000_000_000_000_000).await;
    assert_eq!(receive_status(&mut phone).await, status(&chat, "bob", 1, 1));
    for (kind, seq) in [("read", 1), ("delivered", 1), ("read", 0), ("delivered", 0), ("read", 7)] {
        tablet.send_receipt(kind, &chat, seq).await;
    }
    evil.send_receipt("read", &chat, 1).await;
    evil.receive_error("conversation_not_found").await;
    evil.send_receipt("delivered", "g0123456789abcdefghjkmnpq", 1).await;
    evil.receive_error("conversation_not_found").await;
    assert_eq!(heard(&bob, &mut tablet, &["status", "error"]).await, Vec::<Value>::new());
    assert_eq!(heard(&alice, &mut phone, &["status"]).await, Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn hidden_reads_reach_own_devices_only() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    let change = PreferenceChange { hides_reads: Some(true), ..PreferenceChange::default() };
    let prefer = SetPreferences { conversation: chat.parse().unwrap(), user: "bob".parse().unwrap(), change };
    world.store.set_preferences(prefer).await.unwrap();
    let (mut phone, mut tablet, mut watch) =
        (alice.connect().await, bob.connect().await, bob.connect().await);
    alice.send(&chat, "m1", "hi").await;
    tablet.send_receipt("read", &chat, 1).await;
    assert_eq!(receive_status(&mut watch).await, with_unread(status(&chat, "bob", 1, 1), 0));
    assert_eq!(receive_status(&mut phone).await, status(&chat, "bob", 1, 0));
}

/// The store is busy with the first receipt while a thousand more arrive.
#[tokio::test(flavor = "multi_thread")]
async fn receipts_during_a_busy_store_are_merged_into_one_write() {
    let store = FaultyStore::default();
    let world = store.setup().start().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    let (mut phone, mut tablet) = (alice.connect().await, bob.connect().await);
    for number in 1..=100 {
        alice.send(&chat, &format!("m{number}"), "hi").await;
    }
    store.hold_receipts(true);
    for _ in 0..10 {
        for seq in 1..=100 {
            tablet.send_receipt("delivered", &chat, seq).await;
        }
    }
    tablet.send_receipt("read", &chat, 40).await;
    tablet.receives_no_error().await;
    store.hold_receipts(false);
    let mut statuses = vec![receive_status(&mut phone).await];
    while statuses.last() != Some(&status(&chat, "bob", 100, 40)) {
        statuses.push(receive_status(&mut phone).await);
    }
    assert!(statuses.len() <= 3, "{statuses:?}");
    assert_eq!(
        store.receipts.load(Ordering::SeqCst),
        3,
        "the first receipt, the read one, and the last delivered one"
    );
    let metrics = world.get("/metrics").await.text();
    assert!(metrics.contains(r#"bluetick_marks_total{result="merged"} 998"#), "{metrics}");
}

impl Device {
    async fn receives_no_error(&mut self) {
        let frames = self.received_so_far().await;
        assert!(frames.iter().all(|frame| frame["type"] != "error"), "{frames:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn receipts_of_a_disconnected_device_are_stored() {
    let store = FaultyStore::default();
    let world = store.setup().start().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    let (mut phone, mut tablet) = (alice.connect().await, bob.connect().await);
    for number in 1..=3 {
        alice.send(&chat, &format!("m{number}"), "hi").await;
    }
    store.hold_receipts(true);
    tablet.send_receipt("delivered", &chat, 1).await;
    tablet.send_receipt("delivered", &chat, 3).await;
    tablet.socket.close(None).await.unwrap();
    while tablet.receive_raw().await.is_some() {}
    store.hold_receipts(false);
    while receive_status(&mut phone).await != status(&chat, "bob", 3, 0) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn socket_is_not_read_while_too_many_receipts_wait() {
    const MOST: u32 = 1_024;
    let store = FaultyStore::default();
    let world = store.setup().start().await;
    let mut tablet = world.person("bob").connect().await;
    store.hold_receipts(true);
    for number in 0..MOST {
        let mut bits = [0; 15];
        bits[..4].copy_from_slice(&number.to_be_bytes());
        tablet.send_receipt("read", &ConversationId::group(bits).to_string(), 1).await;
    }
    tablet.send_json(json!({"type": "ping"})).await;
    let early = tokio::time::timeout(Duration::from_millis(300), tablet.receive()).await;
    assert!(early.is_err(), "the server read the ping while receipts were waiting: {early:?}");
    store.hold_receipts(false);
    let mut refused = 0;
    while tablet.receive().await["type"] == "error" {
        refused += 1;
    }
    assert!(refused > 0, "receipts in unknown conversations are refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn drain_waits_for_accepted_receipts_and_refuses_later_ones() {
    let store = FaultyStore::default();
    let mut world = store.setup().start().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    alice.send(&chat, "m1", "hi").await;
    let mut tablet = bob.connect().await;
    store.hold_receipts(true);
    tablet.send_receipt("read", &chat, 1).await;
    tablet.receives_nothing().await;
    let drained = tokio::spawn(world.take_server().drain());
    loop {
        tablet.send_receipt("read", &chat, 1).await;
        let answer = tokio::time::timeout(Duration::from_millis(100), tablet.receive()).await;
        if answer.is_ok_and(|answer| answer["code"] == "draining") {
            break;
        }
    }
    assert!(!drained.is_finished());
    store.hold_receipts(false);
    assert_eq!(tablet.closed_with().await.0, 1012);
    tokio::time::timeout(TIMEOUT, drained).await.unwrap().unwrap();
    let bob = "bob".parse().unwrap();
    let statuses = world.store.statuses(chat.parse().unwrap(), &bob).await.unwrap();
    assert_eq!(statuses.members[1].read_state.read, Seq::FIRST);
}

#[tokio::test(flavor = "multi_thread")]
async fn receipts_above_their_own_rate_are_refused_and_then_a_flood() {
    let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_800_000_000_000)));
    let mut setup = Setup::limits(|limits| {
        limits.acks_per_second = 1;
        limits.acks_burst = 3;
        limits.requests_per_second = 1;
        limits.requests_burst = 5;
        limits.flood_rejections = 2;
    });
    setup.clock = clock.clone();
    let world = setup.start().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    let mut tablet = bob.connect().await;
    for _ in 0..4 {
        tablet.send_receipt("delivered", &chat, 1).await;
    }
    tablet.receive_error("rate_limited").await;
    // These four requests are charged to the request budget.
    for _ in 0..4 {
        tablet.receives_nothing().await;
    }
    clock.advance_millis(1_000);
    tablet.send_receipt("delivered", &chat, 1).await;
    tablet.receives_nothing().await;
    for _ in 0..2 {
        tablet.send_receipt("delivered", &chat, 1).await;
    }
    assert_eq!(tablet.closed_with().await, (4429, "flood".into()));
}

/// A thousand members read a message; a few dozen of them and the sender are connected.
#[tokio::test(flavor = "multi_thread")]
async fn receipts_of_1000_members_cost_the_sender_few_frames_and_others_none() {
    const MEMBERS: usize = 1_000;
    const CONNECTED: usize = 30;
    let world = Setup::limits(|limits| limits.requests_per_second = 0).start().await;
    let names: Vec<String> = (0..MEMBERS).map(|number| format!("p{number}")).collect();
    let members: Vec<&str> = names.iter().map(String::as_str).collect();
    let sender = world.person("p0");
    let group = sender.group(&members[1..]).await;
    let mut phone = sender.connect().await;
    let mut devices = Vec::new();
    for name in &names[1..=CONNECTED] {
        devices.push(world.person(name).connect_now().await);
    }
    phone.send(&group, "m1", "hello everybody").await;
    assert_eq!(phone.receive_type("ack").await["seq"], 2);
    for device in &mut devices {
        device.receive_type("message").await;
        device.send_receipt("read", &group, 2).await;
    }
    for name in &names[CONNECTED + 1..] {
        for kind in [ReceiptKind::Delivered, ReceiptKind::Read] {
            let conversation = group.parse().unwrap();
            let user = name.parse().unwrap();
            world
                .store
                .apply_receipt(Receipt { conversation, user, kind, seq: Seq::new(2), origin: None })
                .await
                .unwrap();
        }
    }
    let mut frames = Vec::new();
    let done = json!({
        "type": "receipts", "conversation_id": group, "last_delivered_seq": 2, "last_read_seq": 2,
    });
    while frames.last() != Some(&done) {
        frames.push(phone.receive_any().await);
    }
    assert!(frames.len() <= 20, "{} frames", frames.len());
    for device in &mut devices {
        let others = device.received_so_far().await;
        assert!(
            others.iter().all(|frame| frame["type"] != "status" && frame["type"] != "receipts"),
            "{others:?}"
        );
    }
    let merged = world.get("/metrics").await.text();
    let merged =
        merged.lines().find_map(|line| line.strip_prefix("bluetick_statuses_merged_total ")).unwrap();
    assert!(merged.parse::<usize>().unwrap() > MEMBERS, "{merged}");
}

#[tokio::test(flavor = "multi_thread")]
async fn recent_sender_in_a_large_group_gets_named_receipts() {
    let world = Setup::default().start().await;
    let names: Vec<String> = (0..20).map(|number| format!("p{number}")).collect();
    let members: Vec<&str> = names.iter().map(String::as_str).collect();
    let people: Vec<Person> = names.iter().map(|name| world.person(name)).collect();
    let group = people[0].group(&members[1..]).await;
    people[0].send(&group, "m1", "written before anybody was connected").await;
    let (mut writer, mut quiet) = (people[0].connect().await, people[1].connect().await);
    let mut reader = people[2].connect().await;
    reader.send_receipt("read", &group, 2).await;
    assert_eq!(writer.receive_type("status").await, status(&group, "p2", 2, 2));
    assert_eq!(
        heard(&people[0], &mut writer, &["receipts"]).await,
        Vec::<Value>::new(),
        "all others are at 0"
    );
    assert_eq!(heard(&people[1], &mut quiet, &["status", "receipts"]).await, Vec::<Value>::new());
}

/// Creates a group of 20, of which all but the first and the last have read up to `seq`.
async fn all_but_one_read(
    world: &World,
    seq: u64,
    fill: impl AsyncFnOnce(&[Person], &str),
) -> (Vec<Person>, String) {
    let people: Vec<Person> = (0..20).map(|number| world.person(&format!("p{number:02}"))).collect();
    let members: Vec<&str> = people[1..].iter().map(|person| person.name.as_str()).collect();
    let group = people[0].group(&members).await;
    people[0].send(&group, "m1", "hi").await;
    fill(&people, &group).await;
    for person in &people[1..19] {
        person.post(&format!("/v1/conversations/{group}/read"), json!({"seq": seq})).await;
    }
    (people, group)
}

#[tokio::test(flavor = "multi_thread")]
async fn leaving_of_the_last_reader_raises_the_lowest_read_state() {
    let world = World::new().await;
    let (people, group) = all_but_one_read(&world, 2, async |_, _| ()).await;
    let mut writer = people[0].connect().await;
    assert_eq!(people[0].remove(&group, &people[19].name).await.status, 204);
    writer.receive_type("message").await;
    let lowest = writer.receive_type("receipts").await;
    assert_eq!((&lowest["last_delivered_seq"], &lowest["last_read_seq"]), (&json!(2), &json!(2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn sender_awaiting_receipts_is_informed_after_many_later_messages() {
    let world = World::new().await;
    let write_on = async |people: &[Person], group: &str| {
        for number in 0..120 {
            people[1].send(group, &format!("m{number}"), "on and on").await;
        }
    };
    let (people, group) = all_but_one_read(&world, 2, write_on).await;
    let mut writer = people[0].connect().await;
    people[19].post(&format!("/v1/conversations/{group}/read"), json!({"seq": 2})).await;
    let lowest = writer.receive_type("receipts").await;
    assert_eq!(lowest["last_read_seq"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn new_conversation_reaches_all_devices_with_peer_presence() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let (mut tablet, mut watch) = (bob.connect().await, bob.connect().await);
    let mut phone = alice.connect().await;
    let chat = alice.direct("bob").await;
    assert_eq!(phone.receive_type("conversation").await["peer"], "bob");
    alice.send(&chat, "m1", "hello").await;
    for device in [&mut tablet, &mut watch] {
        assert_eq!(device.receive_type("message").await["seq"], 1);
        let entry = device.receive_type("conversation").await;
        assert_eq!((&entry["conversation_id"], &entry["peer"]), (&json!(chat), &json!("alice")));
        assert_eq!(entry["peer_presence"]["online"], true);
    }
    let group = alice.group(&["carol"]).await;
    alice.add(&group, &["bob"]).await;
    for device in [&mut tablet, &mut watch] {
        assert_eq!(device.receive_type("message").await["seq"], 2);
        let entry = device.receive_type("conversation").await;
        assert_eq!((&entry["conversation_id"], &entry["first_seq"]), (&json!(group), &json!(2)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn preferences_reach_all_own_devices_and_no_other_user() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    let (mut phone, mut tablet, mut watch) =
        (alice.connect().await, bob.connect().await, bob.connect().await);
    let change = PreferenceChange { pinned: Some(true), ..PreferenceChange::default() };
    let prefer = SetPreferences { conversation: chat.parse().unwrap(), user: "bob".parse().unwrap(), change };
    world.store.set_preferences(prefer).await.unwrap();
    for device in [&mut tablet, &mut watch] {
        assert_eq!(device.receive_type("conversation").await["pinned"], true);
    }
    assert_eq!(heard(&alice, &mut phone, &["conversation"]).await, Vec::<Value>::new());
}
