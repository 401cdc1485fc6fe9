//! Revocation: tokens that become void before they expire.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bluetick_core::Timestamp;
use bluetick_core::time::ManualClock;
use serde_json::{Value, json};

use crate::faulty_store::FaultyStore;
use crate::harness::{ADMIN_KEY, Device, Person, Reply, Setup, World, send_frame};
use crate::test_fleet::TestFleet;

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_250);

fn revoked() -> (u16, String) {
    (4402, "token_revoked".into())
}

async fn log_out(person: &Person, everywhere: bool) {
    let body = everywhere.then(|| json!({"everywhere": true}));
    assert_eq!(person.call("POST", "/v1/logout", body).await.status, 204);
}

async fn operator(world: &World, method: &str, path: &str, body: Option<Value>) -> Reply {
    world.call(method, path, Some(ADMIN_KEY), body).await
}

async fn is_authenticated(person: &Person) -> bool {
    let reply = person.get("/v1/me").await;
    if reply.status != 200 {
        reply.refused(401, "token_revoked");
    }
    reply.status == 200
}

async fn is_refused(person: &Person) {
    let mut device = Device::open(person.addr).await;
    device.send_json(json!({"type": "hello", "token": person.token})).await;
    assert_eq!(device.closed_with().await, revoked());
}

/// Returns a user with a token that the server issued.
async fn logged_in(world: &World, name: &str, path: &str) -> Person {
    let body = json!({"user_id": name, "password": "correct horse"});
    let token = world.call("POST", path, None, Some(body)).await.json()["token"].as_str().unwrap().to_owned();
    let mut person = world.person(name);
    person.token = token;
    person
}

#[tokio::test(flavor = "multi_thread")]
async fn log_out_revokes_only_the_token_used() {
    let world = World::new().await;
    let (phone, laptop) = (world.person("alice"), world.person("alice"));
    let (mut on_phone, mut on_laptop) = (phone.connect().await, laptop.connect().await);
    log_out(&phone, false).await;
    assert_eq!(on_phone.closed_with().await, revoked());
    assert!(!is_authenticated(&phone).await && is_authenticated(&laptop).await);
    phone.call("POST", "/v1/logout", None).await.refused(401, "token_revoked");
    is_refused(&phone).await;
    let chat = laptop.direct("bob").await;
    on_laptop.send(&chat, "m1", "still here").await;
    on_laptop.receive_type("ack").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn log_out_everywhere_revokes_all_tokens_of_the_user_only() {
    let world = World::new().await;
    let (phone, laptop, bob) = (world.person("alice"), world.person("alice"), world.person("bob"));
    let devices = [phone.connect().await, laptop.connect().await, laptop.connect().await];
    let mut tablet = bob.connect().await;
    log_out(&laptop, true).await;
    for mut device in devices {
        assert_eq!(device.closed_with().await, revoked());
    }
    assert!(
        !is_authenticated(&phone).await && !is_authenticated(&laptop).await && is_authenticated(&bob).await
    );
    is_refused(&phone).await;
    tablet.send_json(json!({"type": "ping"})).await;
    tablet.receive_type("pong").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn log_in_at_the_time_of_a_log_out_returns_a_valid_token() {
    let clock = Arc::new(ManualClock::at(NOW));
    let world = Setup { clock, ..Setup::open() }.start().await;
    let mut before = vec![logged_in(&world, "alice", "/v1/signup").await];
    for _ in 0..3 {
        log_out(before.last().unwrap(), true).await;
        let again = logged_in(&world, "alice", "/v1/login").await;
        for person in &before {
            assert!(
                !is_authenticated(person).await,
                "the earlier token is revoked, although the clock did not move"
            );
        }
        assert!(is_authenticated(&again).await);
        before.push(again);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn revocation_works_after_the_clock_was_set_back() {
    let clock = Arc::new(ManualClock::at(NOW));
    let world = Setup { clock: clock.clone(), ..Setup::default() }.start().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let mut tablet = bob.connect().await;
    clock.set(NOW.plus_millis(-3_000_000));
    log_out(&alice, true).await;
    assert!(!is_authenticated(&alice).await, "the token was issued after the current time");
    assert_eq!(operator(&world, "DELETE", "/v1/users/bob/sessions", None).await.status, 204);
    assert_eq!(tablet.closed_with().await, revoked());
    let minted = operator(&world, "POST", "/v1/tokens", Some(json!({"user_id": "alice"}))).await.json();
    let mut again = alice;
    again.token = minted["token"].as_str().unwrap().into();
    assert!(is_authenticated(&again).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_operator_revokes_sessions_of_another_user() {
    let world = World::new().await;
    let [alice, mallory] = world.people(["alice", "mallory"]);
    let mut phone = alice.connect().await;
    let path = "/v1/users/alice/sessions";
    for token in [None, Some(&*mallory.token), Some(&*alice.token), Some("guess")] {
        world.call("DELETE", path, token, None).await.refused(401, "unauthenticated");
    }
    assert!(is_authenticated(&alice).await);
    assert_eq!(operator(&world, "DELETE", path, None).await.status, 204, "an account is not needed");
    assert_eq!(phone.closed_with().await, revoked());
    assert!(!is_authenticated(&alice).await && is_authenticated(&mallory).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn password_change_revokes_existing_tokens() {
    let world = World::open().await;
    let alice = logged_in(&world, "alice", "/v1/signup").await;
    let mut phone = alice.connect().await;
    let password = json!({"password": "battery staple"});
    assert_eq!(operator(&world, "PUT", "/v1/users/alice/password", Some(password)).await.status, 200);
    assert_eq!(phone.closed_with().await, revoked());
    assert!(!is_authenticated(&alice).await);
    let login = json!({"user_id": "alice", "password": "battery staple"});
    assert_eq!(world.call("POST", "/v1/login", None, Some(login)).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn send_after_log_out_on_an_open_socket_is_not_stored() {
    let world = World::new().await;
    let alice = world.person("alice");
    let chat = alice.direct("bob").await;
    let mut phone = alice.connect().await;
    log_out(&alice, true).await;
    let late = tungstenite::Message::text(send_frame(&chat, "late", "after the log-out").to_string());
    let _may_be_closed = futures_util::SinkExt::send(&mut phone.socket, late).await;
    assert_eq!(phone.closed_with().await, revoked());
    let history = world.person("bob").history(&chat, "").await.json();
    assert_eq!(history["messages"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_log_out_body_revokes_nothing() {
    let world = World::new().await;
    let alice = world.person("alice");
    for body in [json!({"everywhere": "yes"}), json!([])] {
        alice.call("POST", "/v1/logout", Some(body)).await.refused(400, "invalid_request");
    }
    assert!(is_authenticated(&alice).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn single_node_reads_revocations_once_per_change() {
    let store = FaultyStore::default();
    let world = store.setup().start().await;
    let alice = world.person("alice");
    let chat = alice.direct("bob").await;
    let before = store.profiles.load(Ordering::SeqCst);
    for number in 0..20 {
        alice.send(&chat, &format!("m{number}"), "hello").await;
        assert_eq!(alice.history(&chat, "").await.status, 200);
    }
    assert_eq!(store.profiles.load(Ordering::SeqCst), before);
    log_out(&alice, false).await;
    for _ in 0..3 {
        assert!(!is_authenticated(&alice).await);
    }
    assert_eq!(store.profiles.load(Ordering::SeqCst), before + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_user_is_refused_while_revocations_are_unavailable() {
    let store = FaultyStore::default();
    let world = store.setup().start().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    assert!(is_authenticated(&alice).await);
    store.profiles_fail.store(true, Ordering::SeqCst);
    let reply = bob.get("/v1/conversations").await;
    reply.refused(503, "store_unavailable");
    assert_eq!(reply.header("retry-after"), Some("1"));
    let mut device = Device::open(bob.addr).await;
    device.send_json(json!({"type": "hello", "token": bob.token})).await;
    assert_eq!(device.closed_with().await.0, 1011, "come back later");
    assert_eq!(alice.get("/v1/conversations").await.status, 200, "a cached revocation state is used");
    store.profiles_fail.store(false, Ordering::SeqCst);
    assert!(is_authenticated(&bob).await);
}

/// Starts two nodes with one clock.
async fn two(clock: &Arc<ManualClock>) -> (TestFleet, World, World) {
    let (test_fleet, setups) = TestFleet::two();
    let [here, there] = setups.map(|setup| Setup { clock: clock.clone(), ..setup });
    (test_fleet, here.start().await, there.start().await)
}

#[tokio::test(flavor = "multi_thread")]
async fn revocation_takes_effect_on_another_node_immediately() {
    let clock = Arc::new(ManualClock::at(NOW));
    let (_ring, here, there) = two(&clock).await;
    let (phone, laptop) = (here.person("alice"), there.person("alice"));
    let mut on_laptop = laptop.connect().await;
    assert!(is_authenticated(&laptop).await);
    log_out(&phone, true).await;
    assert_eq!(on_laptop.closed_with().await, revoked());
    assert!(!is_authenticated(&laptop).await);
    is_refused(&laptop).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn node_that_misses_the_revocation_event_refuses_after_ten_seconds() {
    let clock = Arc::new(ManualClock::at(NOW));
    let (test_fleet, here, there) = two(&clock).await;
    let (phone, laptop) = (here.person("alice"), there.person("alice"));
    assert!(is_authenticated(&laptop).await);
    test_fleet.drop_events(1);
    log_out(&phone, true).await;
    assert!(!is_authenticated(&phone).await);
    clock.advance_millis(9_999);
    assert!(is_authenticated(&laptop).await, "the cached state admits the token");
    clock.advance_millis(1);
    assert!(!is_authenticated(&laptop).await);
    is_refused(&laptop).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fleet_node_uses_cached_revocations_for_a_minute_while_the_store_is_unavailable() {
    let clock = Arc::new(ManualClock::at(NOW));
    let store = FaultyStore::default();
    let (_ring, setup) = TestFleet::one(store.setup());
    let world = Setup { clock: clock.clone(), ..setup }.start().await;
    let alice = world.person("alice");
    alice.get("/v1/conversations").await;
    store.profiles_fail.store(true, Ordering::SeqCst);
    clock.advance_millis(59_999);
    assert_eq!(alice.get("/v1/conversations").await.status, 200);
    clock.advance_millis(1);
    alice.get("/v1/conversations").await.refused(503, "store_unavailable");
}
