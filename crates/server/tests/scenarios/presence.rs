//! Presence announcements and last_seen_at.

use bluetick_core::ProfileUpdate;
use serde_json::{Value, json};

use crate::harness::{Device, TIMEOUT, World};

async fn disconnect(mut device: Device) {
    device.socket.close(None).await.unwrap();
    while device.receive_raw().await.is_some() {}
}

fn presences(frames: Vec<Value>) -> Vec<Value> {
    frames.into_iter().filter(|frame| frame["type"] == "presence").collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn peer_gets_online_and_offline_with_last_seen() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    alice.direct_with_message("bob").await;
    let mut phone = alice.connect().await;
    let tablet = bob.connect().await;
    let online = json!({"type": "presence", "user_id": "bob", "online": true, "last_seen_at": null});
    assert_eq!(phone.receive_type("presence").await, online);
    disconnect(tablet).await;
    let offline = phone.receive_type("presence").await;
    assert_eq!((&offline["user_id"], &offline["online"]), (&json!("bob"), &json!(false)));
    let stored = world.store.profile(&"bob".parse().unwrap()).await.unwrap().last_seen_at.unwrap();
    assert_eq!(offline["last_seen_at"], stored.millis());
}

#[tokio::test(flavor = "multi_thread")]
async fn second_device_and_short_absence_are_not_announced() {
    let world = World::new().await;
    let [alice, bob, carol] = world.people(["alice", "bob", "carol"]);
    alice.direct_with_message("bob").await;
    alice.direct_with_message("carol").await;
    let mut phone = alice.connect().await;
    let tablet = bob.connect().await;
    phone.receive_type("presence").await;
    let watch = bob.connect().await;
    disconnect(tablet).await;
    disconnect(watch).await;
    // Bob reconnects at once. Carol leaves afterwards, and is announced after the grace period.
    let _tablet = bob.connect_now().await;
    let carols = carol.connect().await;
    assert_eq!(phone.receive_type("presence").await["user_id"], "carol");
    disconnect(carols).await;
    let gone = phone.receive_type("presence").await;
    assert_eq!((&gone["user_id"], &gone["online"]), (&json!("carol"), &json!(false)));
}

#[tokio::test(flavor = "multi_thread")]
async fn group_members_without_direct_conversation_get_no_presence() {
    let world = World::new().await;
    let [alice, bob, eve] = world.people(["alice", "bob", "eve"]);
    alice.direct_with_message("bob").await;
    alice.group(&["bob", "eve"]).await;
    let (mut phone, mut evil) = (alice.connect().await, eve.connect().await);
    let _tablet = bob.connect().await;
    phone.receive_type("presence").await;
    assert_eq!(presences(evil.received_so_far().await), Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn hidden_presence_is_not_announced() {
    let world = World::new().await;
    let [alice, bob, carol] = world.people(["alice", "bob", "carol"]);
    alice.direct_with_message("bob").await;
    alice.direct_with_message("carol").await;
    let update = ProfileUpdate { hides_presence: Some(true), ..ProfileUpdate::of("bob".parse().unwrap()) };
    world.store.update_profile(update).await.unwrap();
    let mut phone = alice.connect().await;
    let tablet = bob.connect().await;
    disconnect(tablet).await;
    // Announcements keep their order, so carol's arrives after any for bob.
    let carols = carol.connect().await;
    assert_eq!(phone.receive_type("presence").await["user_id"], "carol");
    disconnect(carols).await;
    assert_eq!(phone.receive_type("presence").await["user_id"], "carol");
}

#[tokio::test(flavor = "multi_thread")]
async fn connect_stores_last_seen_immediately() {
    let world = World::new().await;
    let alice = world.person("alice");
    let mut phone = alice.connect().await;
    phone.receives_nothing().await;
    let profile = || async { world.store.profile(&"alice".parse().unwrap()).await.unwrap() };
    let stored = tokio::time::timeout(TIMEOUT, async {
        while profile().await.last_seen_at.is_none() {
            tokio::task::yield_now().await;
        }
    });
    stored.await.expect("last_seen_at is stored during the connection");
}

#[tokio::test(flavor = "multi_thread")]
async fn drain_stores_last_seen_of_connected_users() {
    let mut world = World::new().await;
    let mut device = world.person("alice").connect().await;
    let drained = tokio::spawn(world.take_server().drain());
    assert_eq!(device.closed_with().await.0, 1012);
    drained.await.unwrap();
    let profile = world.store.profile(&"alice".parse().unwrap()).await.unwrap();
    assert!(profile.last_seen_at.is_some());
}
