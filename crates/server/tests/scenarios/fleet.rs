//! Two servers with one store: what somebody at one of them sees of somebody at the other.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bluetick_core::ports::{CommitListener, Committed};
use bluetick_core::{Message, Seq, Timestamp, UserId};
use serde_json::{Value, json};

use crate::harness::{Device, World};
use crate::rigged_store::RiggedStore;
use crate::ring::Ring;

async fn two() -> (Ring, World, World) {
    let (ring, [here, there]) = Ring::two();
    (ring, here.start().await, there.start().await)
}

async fn say_goodbye(mut device: Device) {
    device.socket.close(None).await.unwrap();
    while device.hear_raw().await.is_some() {}
}

async fn nobody_is_connected(world: &World) {
    while !world.get("/metrics").await.text().contains("bluetick_connections 0\n") {}
}

fn are_of(kind: &str, frames: Vec<Value>) -> Vec<Value> {
    frames.into_iter().filter(|frame| frame["type"] == kind).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_friend_at_another_node_is_seen_to_come_and_to_go() {
    let (_ring, here, there) = two().await;
    let (alice, bob) = (here.person("alice"), there.person("bob"));
    let chat = alice.direct_with_message("bob").await;
    let mut phone = alice.connect().await;
    let tablet = bob.connect().await;
    let online = phone.hear_type("presence").await;
    assert_eq!((&online["user_id"], &online["online"]), (&json!("bob"), &json!(true)));
    let presence = alice.get(&format!("/v1/conversations/{chat}/presence")).await.json();
    assert_eq!(presence["members"][0]["online"], true);
    let entry = alice.get("/v1/conversations").await.json()["conversations"][0].clone();
    assert_eq!(entry["peer_presence"]["online"], true);
    say_goodbye(tablet).await;
    let offline = phone.hear_type("presence").await;
    assert_eq!((&offline["user_id"], &offline["online"]), (&json!("bob"), &json!(false)));
    assert!(offline["last_seen_at"].is_number());
    let presence = alice.get(&format!("/v1/conversations/{chat}/presence")).await.json();
    assert_eq!(presence["members"][0]["online"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_who_is_at_two_nodes_comes_with_the_first_and_goes_with_the_last() {
    let (_ring, here, there) = two().await;
    let alice = here.person("alice");
    alice.direct_with_message("bob").await;
    alice.direct_with_message("carol").await;
    let mut phone = alice.connect().await;
    let tablet = there.person("bob").connect().await;
    assert_eq!(phone.hear_type("presence").await["user_id"], "bob");
    let watch = here.person("bob").connect().await;
    say_goodbye(tablet).await;
    // Whoever comes and goes after is told after.
    let carols = there.person("carol").connect().await;
    assert_eq!(phone.hear_type("presence").await["user_id"], "carol");
    say_goodbye(carols).await;
    assert_eq!(phone.hear_type("presence").await["user_id"], "carol");
    say_goodbye(watch).await;
    let gone = phone.hear_type("presence").await;
    assert_eq!((&gone["user_id"], &gone["online"]), (&json!("bob"), &json!(false)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_conversation_with_somebody_at_another_node_shows_that_they_are_there() {
    let (_ring, here, there) = two().await;
    let alice = here.person("alice");
    let mut phone = alice.connect().await;
    let _tablet = there.person("bob").connect().await;
    alice.direct("bob").await;
    let entry = phone.hear_type("conversation").await;
    assert_eq!(entry["peer_presence"]["online"], true, "{entry}");
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_large_group_those_at_another_node_are_there_too() {
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
async fn that_somebody_is_writing_is_heard_at_every_node_by_all_but_the_writer() {
    let (_ring, here, there) = two().await;
    let chat = here.person("alice").direct_with_message("bob").await;
    let mut phone = here.person("alice").connect().await;
    let mut laptop = there.person("alice").connect().await;
    let (mut tablet, mut watch) = (there.person("bob").connect().await, here.person("bob").connect().await);
    phone.say(json!({"type": "typing", "conversation_id": chat})).await;
    for device in [&mut tablet, &mut watch] {
        assert_eq!(device.hear_type("typing").await["user_id"], "alice");
    }
    for device in [&mut phone, &mut laptop, &mut tablet, &mut watch] {
        assert_eq!(are_of("typing", device.heard_so_far().await), Vec::<Value>::new(), "once is enough");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_nobody_wrote_to_reaches_everybody_as_a_void_and_is_nobodys_send() {
    let (ring, here, there) = two().await;
    let chat = here.person("alice").direct("bob").await;
    let devices = [here.person("alice").connect_now().await, there.person("bob").connect_now().await];
    let (id, alice): (_, UserId) = (chat.parse().unwrap(), "alice".parse().unwrap());
    let members = here.store.conversation(id, &alice).await.unwrap().members;
    let message = Arc::new(Message::void(id, Seq::FIRST, Timestamp::from_millis(5)));
    ring.committed(vec![Committed { message, members, departed: None, origin: None, is_stored_here: true }]);
    for mut device in devices {
        let expected = json!({
            "type": "message", "conversation_id": chat, "seq": 1, "message_id": "system:1", "sender_id": "void",
            "receiver_id": null, "content": "", "content_type": "void", "timestamp": 5, "received_at": 5,
        });
        assert_eq!(device.hear_type("message").await, expected);
    }
    let text = here.get("/metrics").await.text();
    assert!(text.contains(r#"bluetick_sends_total{result="stored"} 0"#), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_asks_what_it_missed_only_when_the_fleet_knows_of_it() {
    let (ring, here, there) = two().await;
    let chat = here.person("alice").direct("bob").await;
    ring.hold(true);
    let mut tablet = there.person("bob").greet(json!({})).await;
    here.person("alice").send(&chat, "m1", "while nobody knew").await;
    for _ in 0..20 {
        tablet.hears_nothing().await;
    }
    ring.hold(false);
    assert_eq!(tablet.hear_type("message").await["content"], "while nobody knew");
    tablet.hear_type("caught_up").await;
    here.person("alice").send(&chat, "m2", "now everybody does").await;
    assert_eq!(tablet.hear_type("message").await["content"], "now everybody does");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fleet_hears_of_every_connection_and_of_the_end_of_the_last() {
    let (ring, here, _there) = two().await;
    let alice = here.person("alice");
    let (phone, laptop) = (alice.connect_now().await, alice.connect_now().await);
    say_goodbye(phone).await;
    assert_eq!(ring.told(), ["alice came 0", "alice came 0"]);
    say_goodbye(laptop).await;
    ring.is_told(&["alice came 0", "alice came 0", "alice went 0"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_ends_before_the_fleet_knows_of_it_is_gone_in_the_end() {
    let (ring, here, _there) = two().await;
    ring.hold(true);
    let phone = here.person("alice").greet(json!({})).await;
    drop(phone);
    nobody_is_connected(&here).await;
    ring.hold(false);
    ring.is_told(&["alice came 0", "alice went 0"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_comes_while_the_last_one_goes_is_there_in_the_end() {
    let (ring, here, _there) = two().await;
    let alice = here.person("alice");
    let phone = alice.connect_now().await;
    ring.hold(true);
    drop(phone);
    nobody_is_connected(&here).await;
    let mut phone = alice.greet(json!({})).await;
    ring.hold(false);
    phone.hear_type("caught_up").await;
    let told = ring.told();
    assert_eq!(told.last().map(String::as_str), Some("alice came 0"), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_tells_the_fleet_of_everybody_before_the_store_closes() {
    let store = RiggedStore::default();
    let (ring, setup) = Ring::one(store.setup());
    let mut world = setup.start().await;
    let [mut phone, mut tablet] =
        [world.person("alice").connect_now().await, world.person("bob").connect_now().await];
    ring.hold(true);
    let drained = tokio::spawn(world.take_server().drain());
    assert_eq!((phone.closed_with().await.0, tablet.closed_with().await.0), (1012, 1012));
    assert!(!store.closed.load(Ordering::SeqCst), "the store waits for the fleet to be told");
    ring.hold(false);
    drained.await.unwrap();
    let mut told = ring.told().split_off(2);
    told.sort();
    assert_eq!(told, ["alice went 0", "bob went 0"]);
    assert!(store.closed.load(Ordering::SeqCst));
}
