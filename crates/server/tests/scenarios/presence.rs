use bluetick_core::ProfileUpdate;
use serde_json::{Value, json};

use crate::harness::{Device, PATIENCE, World};

async fn say_goodbye(mut device: Device) {
    device.socket.close(None).await.unwrap();
    while device.hear_raw().await.is_some() {}
}

fn presences(frames: Vec<Value>) -> Vec<Value> {
    frames.into_iter().filter(|frame| frame["type"] == "presence").collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_friend_sees_somebody_come_and_go_and_when_they_were_last_here() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    alice.direct_with_message("bob").await;
    let mut phone = alice.connect().await;
    let tablet = bob.connect().await;
    let online = json!({"type": "presence", "user_id": "bob", "online": true, "last_seen_at": null});
    assert_eq!(phone.hear_type("presence").await, online);
    say_goodbye(tablet).await;
    let offline = phone.hear_type("presence").await;
    assert_eq!((&offline["user_id"], &offline["online"]), (&json!("bob"), &json!(false)));
    let stored = world.store.profile(&"bob".parse().unwrap()).await.unwrap().last_seen_at.unwrap();
    assert_eq!(offline["last_seen_at"], stored.millis());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_device_and_a_short_absence_are_no_news() {
    let world = World::new().await;
    let [alice, bob, carol] = world.people(["alice", "bob", "carol"]);
    alice.direct_with_message("bob").await;
    alice.direct_with_message("carol").await;
    let mut phone = alice.connect().await;
    let tablet = bob.connect().await;
    phone.hear_type("presence").await;
    let watch = bob.connect().await;
    say_goodbye(tablet).await;
    say_goodbye(watch).await;
    // Back at once; then another one leaves, of whom it is told only after the time in which one may return.
    let _tablet = bob.connect_now().await;
    let carols = carol.connect().await;
    assert_eq!(phone.hear_type("presence").await["user_id"], "carol");
    say_goodbye(carols).await;
    let gone = phone.hear_type("presence").await;
    assert_eq!((&gone["user_id"], &gone["online"]), (&json!("carol"), &json!(false)));
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_and_members_of_the_same_group_are_told_nothing() {
    let world = World::new().await;
    let [alice, bob, eve] = world.people(["alice", "bob", "eve"]);
    alice.direct_with_message("bob").await;
    alice.group(&["bob", "eve"]).await;
    let (mut phone, mut evil) = (alice.connect().await, eve.connect().await);
    let _tablet = bob.connect().await;
    phone.hear_type("presence").await;
    assert_eq!(presences(evil.heard_so_far().await), Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_somebody_who_hides_nothing_is_told() {
    let world = World::new().await;
    let [alice, bob, carol] = world.people(["alice", "bob", "carol"]);
    alice.direct_with_message("bob").await;
    alice.direct_with_message("carol").await;
    let update = ProfileUpdate { hides_presence: Some(true), ..ProfileUpdate::of("bob".parse().unwrap()) };
    world.store.update_profile(update).await.unwrap();
    let mut phone = alice.connect().await;
    let tablet = bob.connect().await;
    say_goodbye(tablet).await;
    // Whoever comes and goes after is told after.
    let carols = carol.connect().await;
    assert_eq!(phone.hear_type("presence").await["user_id"], "carol");
    say_goodbye(carols).await;
    assert_eq!(phone.hear_type("presence").await["user_id"], "carol");
}

#[tokio::test(flavor = "multi_thread")]
async fn that_somebody_has_come_is_stored_at_once_should_the_server_not_live_to_see_it_go() {
    let world = World::new().await;
    let alice = world.person("alice");
    let mut phone = alice.connect().await;
    phone.hears_nothing().await;
    let profile = || async { world.store.profile(&"alice".parse().unwrap()).await.unwrap() };
    let stored = tokio::time::timeout(PATIENCE, async {
        while profile().await.last_seen_at.is_none() {
            tokio::task::yield_now().await;
        }
    });
    stored.await.expect("it is stored while the connection lasts");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_stores_when_everybody_was_last_here() {
    let mut world = World::new().await;
    let mut device = world.person("alice").connect().await;
    let drained = tokio::spawn(world.take_server().drain());
    assert_eq!(device.closed_with().await.0, 1012);
    drained.await.unwrap();
    let profile = world.store.profile(&"alice".parse().unwrap()).await.unwrap();
    assert!(profile.last_seen_at.is_some());
}
