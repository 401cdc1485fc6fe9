//! Presence and profile over HTTP.

use std::sync::Arc;

use bluetick_core::ports::Store;
use bluetick_core::{ProfileUpdate, Timestamp};
use bluetick_server::Hub;
use bluetick_store_memory::MemoryStore;
use serde_json::{Value, json};

use crate::harness::{Device, Person, Setup, TIMEOUT, World};

async fn presence(person: &Person, chat: &str) -> Value {
    person.get(&format!("/v1/conversations/{chat}/presence")).await.json()
}

async fn show_presence(person: &Person, shows: bool) {
    let answer = person.call("PATCH", "/v1/me", Some(json!({"show_presence": shows}))).await;
    assert_eq!((answer.status, &answer.json()["show_presence"]), (200, &json!(shows)));
}

/// Connects and reads up to `caught_up`.
async fn connect_and_catch_up(person: &Person) -> Device {
    let mut device = Device::open(person.addr).await;
    device.send_json(json!({"type": "hello", "token": person.token})).await;
    while device.receive().await["type"] != "caught_up" {}
    device
}

/// Polls until the presence is as `expected`, because the server notices a disconnect with a delay.
async fn presence_becomes(person: &Person, chat: &str, expected: impl Fn(&Value) -> bool) {
    let became = async { while !expected(&presence(person, chat).await["members"][0]) {} };
    tokio::time::timeout(TIMEOUT, became).await.expect("the presence changes in time");
}

fn names(presence: &Value) -> Vec<&str> {
    presence["members"].as_array().unwrap().iter().map(|member| member["user_id"].as_str().unwrap()).collect()
}

/// Starts a server and returns its store.
async fn world_with_store() -> (World, Arc<MemoryStore>) {
    let (tell, told) = std::sync::mpsc::channel();
    let store = move |hub: Arc<Hub>| {
        let store = Arc::new(MemoryStore::with_listener(hub));
        tell.send(Arc::clone(&store)).unwrap();
        store as Arc<dyn Store>
    };
    let world = Setup { store: Box::new(store), ..Setup::default() }.start().await;
    (world, told.recv().unwrap())
}

async fn set_last_seen(store: &MemoryStore, name: &str, at: i64) {
    let update = ProfileUpdate {
        last_seen_at: Some(Timestamp::from_millis(at)),
        ..ProfileUpdate::of(name.parse().unwrap())
    };
    store.update_profile(update).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn connected_user_is_online_and_disconnected_user_is_offline() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    let never = json!({"members": [{"user_id": "bob", "online": false, "last_seen_at": null}]});
    assert_eq!(presence(&alice, &chat).await, never);
    let [phone, tablet] = [connect_and_catch_up(&bob).await, connect_and_catch_up(&bob).await];
    let there = json!({"members": [{"user_id": "bob", "online": true, "last_seen_at": null}]});
    assert_eq!(presence(&alice, &chat).await, there);
    let entry = alice.get("/v1/conversations").await.json()["conversations"][0].clone();
    assert_eq!(entry["peer_presence"], there["members"][0]);
    assert_eq!(names(&presence(&bob, &chat).await), ["alice"], "the caller is not in its own list");
    drop((phone, tablet));
    presence_becomes(&alice, &chat, |bob| bob["online"] == false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn offline_user_has_a_last_seen_time() {
    let (world, store) = world_with_store().await;
    let alice = world.person("alice");
    let chat = alice.direct("bob").await;
    set_last_seen(&store, "bob", 1_767_225_600_123).await;
    let seen = json!({"user_id": "bob", "online": false, "last_seen_at": 1_767_225_600_123_i64});
    assert_eq!(presence(&alice, &chat).await, json!({"members": [seen]}));
    let entry = alice.get("/v1/conversations").await.json()["conversations"][0].clone();
    assert_eq!(entry["peer_presence"], seen);
    let settings = format!("/v1/conversations/{chat}/settings");
    assert_eq!(alice.call("PATCH", &settings, Some(json!({}))).await.json()["peer_presence"], seen);
}

#[tokio::test(flavor = "multi_thread")]
async fn user_who_hides_presence_appears_offline_and_never_seen() {
    let (world, store) = world_with_store().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    set_last_seen(&store, "bob", 5).await;
    show_presence(&bob, false).await;
    let hidden = json!({"user_id": "bob", "online": false, "last_seen_at": null});
    assert_eq!(presence(&alice, &chat).await["members"], json!([hidden]));
    let _phone = connect_and_catch_up(&bob).await;
    assert_eq!(presence(&alice, &chat).await["members"], json!([hidden]));
    let entry = alice.get("/v1/conversations").await.json()["conversations"][0].clone();
    assert_eq!(entry["peer_presence"], hidden);
    show_presence(&bob, true).await;
    assert_eq!(presence(&alice, &chat).await["members"][0]["online"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn own_profile_is_read_and_changed() {
    let world = World::new().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let me = |shows: bool| json!({"user_id": "alice", "display_name": null, "show_presence": shows});
    assert_eq!(alice.get("/v1/me").await.json(), me(true));
    for (body, shows) in [
        (json!({"show_presence": false}), false),
        (json!({}), false),
        (json!({"show_presence": null, "user_id": "bob"}), false),
        (json!({"show_presence": true}), true),
    ] {
        let answer = alice.call("PATCH", "/v1/me", Some(body.clone())).await;
        assert_eq!((answer.status, answer.json()), (200, me(shows)), "{body}");
        assert_eq!(alice.get("/v1/me").await.json(), me(shows));
    }
    for (body, says) in [
        (json!({"show_presence": "no"}), "show_presence: expected true or false"),
        (json!([false]), "expected an object"),
    ] {
        let refused = alice.call("PATCH", "/v1/me", Some(body)).await;
        assert_eq!(refused.refused(400, "invalid_request"), says);
    }
    assert_eq!(bob.get("/v1/me").await.json()["show_presence"], true);
    world.get("/v1/me").await.refused(401, "unauthenticated");
    world.call("PATCH", "/v1/me", None, Some(json!({}))).await.refused(401, "unauthenticated");
}

#[tokio::test(flavor = "multi_thread")]
async fn presence_lists_all_of_100_members_and_only_online_ones_above() {
    let world = World::new().await;
    let [alice, shy] = world.people(["alice", "member50"]);
    let others: Vec<String> = (1..100).map(|number| format!("member{number}")).collect();
    let group = alice.group(&others.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let _devices = [
        connect_and_catch_up(&alice).await,
        connect_and_catch_up(&world.person("member7")).await,
        connect_and_catch_up(&world.person("member99")).await,
        connect_and_catch_up(&shy).await,
    ];
    show_presence(&shy, false).await;
    let everybody = presence(&alice, &group).await;
    assert_eq!(names(&everybody).len(), 99);
    let online = |presence: &Value| {
        let members = presence["members"].as_array().unwrap().iter();
        let online = members.filter(|member| member["online"] == true);
        online.map(|member| member["user_id"].as_str().unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(online(&everybody), ["member7", "member99"]);

    alice.add(&group, &["member100"]).await;
    let there = presence(&alice, &group).await;
    assert_eq!(names(&there), ["member7", "member99"]);
    assert_eq!(online(&there), ["member7", "member99"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn presence_of_a_large_group_lists_at_most_100_online_members() {
    let world = World::new().await;
    let alice = world.person("alice");
    let others: Vec<String> = (0..120).map(|number| format!("member{number}")).collect();
    let group = alice.group(&others.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let mut devices = Vec::new();
    for name in &others {
        devices.push(connect_and_catch_up(&world.person(name)).await);
    }
    let there = presence(&alice, &group).await;
    assert_eq!(there["members"].as_array().unwrap().len(), 100);
    assert!(there["members"].as_array().unwrap().iter().all(|member| member["online"] == true));
}
