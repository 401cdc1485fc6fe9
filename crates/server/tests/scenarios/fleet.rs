//! Two servers with one store: presence, typing and delivery between users on different nodes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bluetick_core::ports::{CommitListener, Committed};
use bluetick_core::{Message, Seq, Timestamp, UserId};
use serde_json::{Value, json};

use crate::faulty_store::FaultyStore;
use crate::harness::{Device, World};
use crate::test_fleet::TestFleet;

async fn two() -> (TestFleet, World, World) {
    let (test_fleet, [here, there]) = TestFleet::two();
    (test_fleet, here.start().await, there.start().await)
}

async fn disconnect(mut device: Device) {
    device.socket.close(None).await.unwrap();
    while device.receive_raw().await.is_some() {}
}

async fn wait_until_disconnected(world: &World) {
    while !world.get("/metrics").await.text().contains("bluetick_connections 0\n") {}
}

fn of_type(kind: &str, frames: Vec<Value>) -> Vec<Value> {
    frames.into_iter().filter(|frame| frame["type"] == kind).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn presence_of_a_peer_on_another_node_is_announced() {
    let (_ring, here, there) = two().await;
    let (alice, bob) = (here.person("alice"), there.person("bob"));
    let chat = alice.direct_with_message("bob").await;
    let mut phone = alice.connect().await;
    let tablet = bob.connect().await;
    let online = phone.receive_type("presence").await;
    assert_eq!((&online["user_id"], &online["online"]), (&json!("bob"), &json!(true)));
    let presence = alice.get(&format!("/v1/conversations/{chat}/presence")).await.json();
    assert_eq!(presence["members"][0]["online"], true);
    let entry = alice.get("/v1/conversations").await.json()["conversations"][0].clone();
    assert_eq!(entry["peer_presence"]["online"], true);
    disconnect(tablet).await;
    let offline = phone.receive_type("presence").await;
    assert_eq!((&offline["user_id"], &offline["online"]), (&json!("bob"), &json!(false)));
    assert!(offline["last_seen_at"].is_number());
    let presence = alice.get(&format!("/v1/conversations/{chat}/presence")).await.json();
    assert_eq!(presence["members"][0]["online"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn user_on_two_nodes_is_announced_at_first_connect_and_last_disconnect() {
    let (_ring, here, there) = two().await;
    let alice = here.person("alice");
    alice.direct_with_message("bob").await;
    alice.direct_with_message("carol").await;
    let mut phone = alice.connect().await;
    let tablet = there.person("bob").connect().await;
    assert_eq!(phone.receive_type("presence").await["user_id"], "bob");
    let watch = here.person("bob").connect().await;
    disconnect(tablet).await;
    // Announcements keep their order, so carol's arrives after any for bob.
    let carols = there.person("carol").connect().await;
    assert_eq!(phone.receive_type("presence").await["user_id"], "carol");
    disconnect(carols).await;
    assert_eq!(phone.receive_type("presence").await["user_id"], "carol");
    disconnect(watch).await;
    let gone = phone.receive_type("presence").await;
    assert_eq!((&gone["user_id"], &gone["online"]), (&json!("bob"), &json!(false)));
}

#[tokio::test(flavor = "multi_thread")]
async fn new_conversation_shows_a_peer_on_another_node_as_online() {
    let (_ring, here, there) = two().await;
    let alice = here.person("alice");
    let mut phone = alice.connect().await;
    let _tablet = there.person("bob").connect().await;
    alice.direct("bob").await;
    let entry = phone.receive_type("conversation").await;
    assert_eq!(entry["peer_presence"]["online"], true, "{entry}");
}

#[tokio::test(flavor = "multi_thread")]
async fn presence_of_a_large_group_includes_members_on_other_nodes() {
    let (_ring, here, there) = two().await;
    let alice = here.person("alice");
    let others: Vec<String> = (0..120).map(|number| format!("member{number}")).collect();
    let group = alice.group(&others.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let _devices = [here.person("member90").connect_now().await, there.person("member7").connect_now().await];
    let presence = alice.get(&format!("/v1/conversations/{group}/presence")).await.json();
    let names: Vec<_> = presence["members"].as_array().unwrap().iter().map(|of| &of["user_id"]).collect();
    assert_eq!(names, ["member90", "member7"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn typing_reaches_other_members_on_every_node() {
    let (_ring, here, there) = two().await;
    let chat = here.person("alice").direct_with_message("bob").await;
    let mut phone = here.person("alice").connect().await;
    let mut laptop = there.person("alice").connect().await;
    let (mut tablet, mut watch) = (there.person("bob").connect().await, here.person("bob").connect().await);
    phone.send_json(json!({"type": "typing", "conversation_id": chat})).await;
    for device in [&mut tablet, &mut watch] {
        assert_eq!(device.receive_type("typing").await["user_id"], "alice");
    }
    for device in [&mut phone, &mut laptop, &mut tablet, &mut watch] {
        assert_eq!(
            of_type("typing", device.received_so_far().await),
            Vec::<Value>::new(),
            "typing is forwarded only once"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn void_is_delivered_on_every_node_and_not_counted_as_a_send() {
    let (test_fleet, here, there) = two().await;
    let chat = here.person("alice").direct("bob").await;
    let devices = [here.person("alice").connect_now().await, there.person("bob").connect_now().await];
    let (id, alice): (_, UserId) = (chat.parse().unwrap(), "alice".parse().unwrap());
    let members = here.store.conversation(id, &alice).await.unwrap().members;
    let message = Arc::new(Message::void(id, Seq::FIRST, Timestamp::from_millis(5)));
    test_fleet.committed(vec![Committed {
        message,
        members,
        departed: None,
        origin: None,
        is_stored_here: true,
    }]);
    for mut device in devices {
        let expected = json!({
            "type": "message", "conversation_id": chat, "seq": 1, "message_id": "system:1", "sender_id": "void",
            "receiver_id": null, "content": "", "content_type": "void", "timestamp": 5, "received_at": 5,
        });
        assert_eq!(device.receive_type("message").await, expected);
    }
    let text = here.get("/metrics").await.text();
    assert!(text.contains(r#"bluetick_sends_total{result="stored"} 0"#), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn catch_up_starts_after_the_fleet_has_registered_the_user() {
    let (test_fleet, here, there) = two().await;
    let chat = here.person("alice").direct("bob").await;
    test_fleet.hold(true);
    let mut tablet = there.person("bob").send_hello(json!({})).await;
    here.person("alice").send(&chat, "m1", "sent while bob was not registered").await;
    for _ in 0..20 {
        tablet.receives_nothing().await;
    }
    test_fleet.hold(false);
    assert_eq!(tablet.receive_type("message").await["content"], "sent while bob was not registered");
    tablet.receive_type("caught_up").await;
    here.person("alice").send(&chat, "m2", "sent after bob was registered").await;
    assert_eq!(tablet.receive_type("message").await["content"], "sent after bob was registered");
}

#[tokio::test(flavor = "multi_thread")]
async fn fleet_gets_every_connect_and_the_last_disconnect() {
    let (test_fleet, here, _there) = two().await;
    let alice = here.person("alice");
    let (phone, laptop) = (alice.connect_now().await, alice.connect_now().await);
    disconnect(phone).await;
    assert_eq!(test_fleet.calls(), ["alice came 0", "alice came 0"]);
    disconnect(laptop).await;
    test_fleet.wait_for_calls(&["alice came 0", "alice came 0", "alice went 0"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_that_ends_before_registration_is_reported_as_disconnected() {
    let (test_fleet, here, _there) = two().await;
    test_fleet.hold(true);
    let phone = here.person("alice").send_hello(json!({})).await;
    drop(phone);
    wait_until_disconnected(&here).await;
    test_fleet.hold(false);
    test_fleet.wait_for_calls(&["alice came 0", "alice went 0"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reconnect_during_the_last_disconnect_is_reported_as_connected() {
    let (test_fleet, here, _there) = two().await;
    let alice = here.person("alice");
    let phone = alice.connect_now().await;
    test_fleet.hold(true);
    drop(phone);
    wait_until_disconnected(&here).await;
    let mut phone = alice.send_hello(json!({})).await;
    test_fleet.hold(false);
    phone.receive_type("caught_up").await;
    let told = test_fleet.calls();
    assert_eq!(told.last().map(String::as_str), Some("alice came 0"), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn drain_reports_all_users_as_disconnected_before_the_store_closes() {
    let store = FaultyStore::default();
    let (test_fleet, setup) = TestFleet::one(store.setup());
    let mut world = setup.start().await;
    let [mut phone, mut tablet] =
        [world.person("alice").connect_now().await, world.person("bob").connect_now().await];
    test_fleet.hold(true);
    let drained = tokio::spawn(world.take_server().drain());
    assert_eq!((phone.closed_with().await.0, tablet.closed_with().await.0), (1012, 1012));
    assert!(!store.closed.load(Ordering::SeqCst), "the store closes after the fleet got all disconnects");
    test_fleet.hold(false);
    drained.await.unwrap();
    let mut told = test_fleet.calls().split_off(2);
    told.sort();
    assert_eq!(told, ["alice went 0", "bob went 0"]);
    assert!(store.closed.load(Ordering::SeqCst));
}
