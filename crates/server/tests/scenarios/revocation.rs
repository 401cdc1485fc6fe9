//! Tokens that are void before they expire: logging out, and being logged out.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bluetick_core::Timestamp;
use bluetick_core::time::ManualClock;
use serde_json::{Value, json};

use crate::harness::{ADMIN_KEY, Device, Person, Reply, Setup, World, send_frame};
use crate::rigged_store::RiggedStore;
use crate::ring::Ring;

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

async fn is_in(person: &Person) -> bool {
    let reply = person.get("/v1/me").await;
    if reply.status != 200 {
        reply.refused(401, "token_revoked");
    }
    reply.status == 200
}

async fn is_turned_away(person: &Person) {
    let mut device = Device::open(person.addr).await;
    device.say(json!({"type": "hello", "token": person.token})).await;
    assert_eq!(device.closed_with().await, revoked());
}

/// Somebody with a token from the server, not from the test.
async fn logged_in(world: &World, name: &str, path: &str) -> Person {
    let body = json!({"user_id": name, "password": "correct horse"});
    let token = world.call("POST", path, None, Some(body)).await.json()["token"].as_str().unwrap().to_owned();
    let mut person = world.person(name);
    person.token = token;
    person
}

#[tokio::test(flavor = "multi_thread")]
async fn who_logs_out_is_out_with_this_token_and_in_with_the_other() {
    let world = World::new().await;
    let (phone, laptop) = (world.person("alice"), world.person("alice"));
    let (mut on_phone, mut on_laptop) = (phone.connect().await, laptop.connect().await);
    log_out(&phone, false).await;
    assert_eq!(on_phone.closed_with().await, revoked());
    assert!(!is_in(&phone).await && is_in(&laptop).await);
    phone.call("POST", "/v1/logout", None).await.refused(401, "token_revoked");
    is_turned_away(&phone).await;
    let chat = laptop.direct("bob").await;
    on_laptop.send(&chat, "m1", "still here").await;
    on_laptop.hear_type("ack").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_logs_out_everywhere_is_out_with_every_token_and_nobody_else_is() {
    let world = World::new().await;
    let (phone, laptop, bob) = (world.person("alice"), world.person("alice"), world.person("bob"));
    let devices = [phone.connect().await, laptop.connect().await, laptop.connect().await];
    let mut tablet = bob.connect().await;
    log_out(&laptop, true).await;
    for mut device in devices {
        assert_eq!(device.closed_with().await, revoked());
    }
    assert!(!is_in(&phone).await && !is_in(&laptop).await && is_in(&bob).await);
    is_turned_away(&phone).await;
    tablet.say(json!({"type": "ping"})).await;
    tablet.hear_type("pong").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_can_log_in_again_in_the_same_moment_and_out_again() {
    let clock = Arc::new(ManualClock::at(NOW));
    let world = Setup { clock, ..Setup::open() }.start().await;
    let mut before = vec![logged_in(&world, "alice", "/v1/signup").await];
    for _ in 0..3 {
        log_out(before.last().unwrap(), true).await;
        let again = logged_in(&world, "alice", "/v1/login").await;
        for person in &before {
            assert!(!is_in(person).await, "no clock has moved, and what was before is void");
        }
        assert!(is_in(&again).await);
        before.push(again);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_was_set_back_neither_keeps_a_token_alive_nor_anybody_out() {
    let clock = Arc::new(ManualClock::at(NOW));
    let world = Setup { clock: clock.clone(), ..Setup::default() }.start().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    let mut tablet = bob.connect().await;
    clock.set(NOW.plus_millis(-3_000_000));
    log_out(&alice, true).await;
    assert!(!is_in(&alice).await, "it was issued later than now");
    assert_eq!(operator(&world, "DELETE", "/v1/users/bob/sessions", None).await.status, 204);
    assert_eq!(tablet.closed_with().await, revoked());
    let minted = operator(&world, "POST", "/v1/tokens", Some(json!({"user_id": "alice"}))).await.json();
    let mut again = alice;
    again.token = minted["token"].as_str().unwrap().into();
    assert!(is_in(&again).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_logs_anybody_out_and_nobody_else_can() {
    let world = World::new().await;
    let [alice, mallory] = world.people(["alice", "mallory"]);
    let mut phone = alice.connect().await;
    let path = "/v1/users/alice/sessions";
    for token in [None, Some(&*mallory.token), Some(&*alice.token), Some("guess")] {
        world.call("DELETE", path, token, None).await.refused(401, "unauthenticated");
    }
    assert!(is_in(&alice).await);
    assert_eq!(operator(&world, "DELETE", path, None).await.status, 204, "an account is not needed");
    assert_eq!(phone.closed_with().await, revoked());
    assert!(!is_in(&alice).await && is_in(&mallory).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_password_logs_out_whoever_came_in_with_the_old_one() {
    let world = World::open().await;
    let alice = logged_in(&world, "alice", "/v1/signup").await;
    let mut phone = alice.connect().await;
    let password = json!({"password": "battery staple"});
    assert_eq!(operator(&world, "PUT", "/v1/users/alice/password", Some(password)).await.status, 200);
    assert_eq!(phone.closed_with().await, revoked());
    assert!(!is_in(&alice).await);
    let login = json!({"user_id": "alice", "password": "battery staple"});
    assert_eq!(world.call("POST", "/v1/login", None, Some(login)).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_behind_a_log_out_on_an_open_socket_is_not_stored() {
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
async fn a_body_that_means_nothing_logs_nobody_out() {
    let world = World::new().await;
    let alice = world.person("alice");
    for body in [json!({"everywhere": "yes"}), json!([])] {
        alice.call("POST", "/v1/logout", Some(body)).await.refused(400, "invalid_request");
    }
    assert!(is_in(&alice).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_by_itself_reads_once_what_is_void_and_not_with_every_request() {
    let store = RiggedStore::default();
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
        assert!(!is_in(&alice).await);
    }
    assert_eq!(store.profiles.load(Ordering::SeqCst), before + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_let_in_while_it_cannot_be_told_whether_they_were_logged_out() {
    let store = RiggedStore::default();
    let world = store.setup().start().await;
    let [alice, bob] = world.people(["alice", "bob"]);
    assert!(is_in(&alice).await);
    store.profiles_fail.store(true, Ordering::SeqCst);
    let reply = bob.get("/v1/conversations").await;
    reply.refused(503, "store_unavailable");
    assert_eq!(reply.header("retry-after"), Some("1"));
    let mut device = Device::open(bob.addr).await;
    device.say(json!({"type": "hello", "token": bob.token})).await;
    assert_eq!(device.closed_with().await.0, 1011, "come back later");
    assert_eq!(alice.get("/v1/conversations").await.status, 200, "what is known holds");
    store.profiles_fail.store(false, Ordering::SeqCst);
    assert!(is_in(&bob).await);
}

/// Two nodes that look at one clock.
async fn two(clock: &Arc<ManualClock>) -> (Ring, World, World) {
    let (ring, setups) = Ring::two();
    let [here, there] = setups.map(|setup| Setup { clock: clock.clone(), ..setup });
    (ring, here.start().await, there.start().await)
}

#[tokio::test(flavor = "multi_thread")]
async fn another_node_closes_and_refuses_at_once() {
    let clock = Arc::new(ManualClock::at(NOW));
    let (_ring, here, there) = two(&clock).await;
    let (phone, laptop) = (here.person("alice"), there.person("alice"));
    let mut on_laptop = laptop.connect().await;
    assert!(is_in(&laptop).await);
    log_out(&phone, true).await;
    assert_eq!(on_laptop.closed_with().await, revoked());
    assert!(!is_in(&laptop).await);
    is_turned_away(&laptop).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_no_news_reach_finds_out_within_ten_seconds() {
    let clock = Arc::new(ManualClock::at(NOW));
    let (ring, here, there) = two(&clock).await;
    let (phone, laptop) = (here.person("alice"), there.person("alice"));
    assert!(is_in(&laptop).await);
    ring.deafen(1);
    log_out(&phone, true).await;
    assert!(!is_in(&phone).await);
    clock.advance_millis(9_999);
    assert!(is_in(&laptop).await, "this is what it holds");
    clock.advance_millis(1);
    assert!(!is_in(&laptop).await);
    is_turned_away(&laptop).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_a_fleet_whose_store_is_away_goes_by_what_it_knows_for_a_minute() {
    let clock = Arc::new(ManualClock::at(NOW));
    let store = RiggedStore::default();
    let (_ring, setup) = Ring::one(store.setup());
    let world = Setup { clock: clock.clone(), ..setup }.start().await;
    let alice = world.person("alice");
    alice.get("/v1/conversations").await;
    store.profiles_fail.store(true, Ordering::SeqCst);
    clock.advance_millis(59_999);
    assert_eq!(alice.get("/v1/conversations").await.status, 200);
    clock.advance_millis(1);
    alice.get("/v1/conversations").await.refused(503, "store_unavailable");
}
