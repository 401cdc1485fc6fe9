//! Impersonation: sign-up with the name of another user, or with a lookalike.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bluetick_core::names::ReservedNames;
use bluetick_core::ports::Store;
use bluetick_core::{ProfileUpdate, UserId};
use bluetick_store_memory::MemoryStore;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::faulty_store::FaultyStore;
use crate::harness::{ADMIN_KEY, Reply, Setup, TIMEOUT, World};

fn account(name: &str) -> Value {
    json!({"user_id": name, "password": "correct horse"})
}

async fn sign_up(world: &World, name: &str) -> Reply {
    world.call("POST", "/v1/signup", None, Some(account(name))).await
}

async fn mint(world: &World, name: &str) -> Reply {
    world.call("POST", "/v1/tokens", Some(ADMIN_KEY), Some(json!({"user_id": name}))).await
}

/// Starts a server with sign-up open or closed, on a store that another server may have used.
async fn on(store: &Arc<MemoryStore>, signup: bool) -> World {
    let store = Arc::clone(store);
    let store = Box::new(|_| store as Arc<dyn Store>);
    Setup { signup, store, ..Setup::default() }.start().await
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_up_with_the_name_of_a_minted_token_is_refused() {
    let world = World::open().await;
    assert_eq!(mint(&world, "alice").await.status, 201);
    for name in ["alice", "Alice", "\u{430}lice"] {
        sign_up(&world, name).await.refused(409, "user_exists");
    }
    // Minting works again for the same user, and for a user with an account.
    assert_eq!(mint(&world, "alice").await.status, 201);
    assert_eq!(sign_up(&world, "bob").await.status, 201);
    assert_eq!(mint(&world, "bob").await.status, 201);
    let login = world.call("POST", "/v1/login", None, Some(account("bob"))).await;
    assert_eq!(login.status, 200, "the account is unchanged");
}

#[tokio::test(flavor = "multi_thread")]
async fn name_minted_while_sign_up_was_closed_stays_reserved() {
    let store = Arc::new(MemoryStore::new());
    assert_eq!(mint(&on(&store, false).await, "alice").await.status, 201);
    sign_up(&on(&store, true).await, "alice").await.refused(409, "user_exists");
}

#[tokio::test(flavor = "multi_thread")]
async fn token_is_not_minted_when_its_name_cannot_be_reserved() {
    let world = World::open().await;
    world.store.close().await;
    let refused = mint(&world, "alice").await;
    assert_eq!((refused.status, &refused.json()["token"]), (503, &Value::Null), "{}", refused.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_up_with_the_name_of_a_member_or_a_profile_is_refused() {
    let store = Arc::new(MemoryStore::new());
    let closed = on(&store, false).await;
    // Users of the operator's own product, who have no account here.
    let [alice, carol] = closed.people(["alice", "carol"]);
    let chat = alice.direct("mike").await;
    assert_eq!(alice.send(&chat, "m1", "hello").await.status, 201);
    assert_eq!(carol.call("PATCH", "/v1/me", Some(json!({"show_presence": false}))).await.status, 200);
    let open = on(&store, true).await;
    for name in ["alice", "mike", "carol", "Alice", "rnike", "MIKE", "c\u{430}rol"] {
        sign_up(&open, name).await.refused(409, "user_exists");
    }
    assert_eq!(sign_up(&open, "dave").await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_up_with_the_name_of_a_former_member_is_refused() {
    let store = Arc::new(MemoryStore::new());
    let closed = on(&store, false).await;
    // Users of the operator's own product, who have no account here.
    let [boss, erin, fay] = closed.people(["boss", "Erin", "fay"]);
    let group = boss.group(&["Erin", "fay"]).await;
    let path = |name: &str| format!("/v1/conversations/{group}/members/{name}");
    assert_eq!(boss.call("DELETE", &path("Erin"), None).await.status, 204);
    assert_eq!(fay.call("DELETE", &path("fay"), None).await.status, 204);
    // A caller cannot reserve the name of a user who is no member.
    assert_eq!(boss.call("DELETE", &path("gil"), None).await.status, 404);
    drop(erin);
    let open = on(&store, true).await;
    for name in ["Erin", "erin", "eRiN", "fay"] {
        sign_up(&open, name).await.refused(409, "user_exists");
    }
    assert_eq!(sign_up(&open, "gil").await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn conversation_created_while_sign_up_is_open_reserves_the_names_of_its_members() {
    let store = Arc::new(MemoryStore::new());
    let open = on(&store, true).await;
    // Mixed case: without a reservation, sign-up compares only some spellings.
    let [caller, known] = open.people(["oWnUsEr", "kNoWn"]);
    assert_eq!(known.call("PATCH", "/v1/me", Some(json!({"show_presence": false}))).await.status, 200);
    caller.direct("kNoWn").await;
    for name in ["ownuser", "OWNuser", "knOWN"] {
        sign_up(&open, name).await.refused(409, "user_exists");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lookalike_name_is_refused_at_sign_up() {
    let world = World::open().await;
    assert_eq!(sign_up(&world, "Alice").await.json()["user_id"], "Alice", "the id keeps its spelling");
    for name in ["alice", "ALICE", "\u{430}lice", "a1ice", "aIice", "ali\u{307}ce"] {
        sign_up(&world, name).await.refused(409, "user_exists");
    }
    for name in
        ["al\u{200b}ice", "\u{202e}ecila", "\u{feff}bob", "b\u{ad}ob", "al\u{34f}ice", "alice\u{e000}"]
    {
        let message = sign_up(&world, name).await.refused(400, "invalid_request");
        assert!(message.starts_with("user_id: "), "{message}");
    }
    let message = sign_up(&world, "\u{ff42}ob").await.refused(400, "invalid_request");
    assert_eq!(message, "user_id: write it in its normal form (NFKC): bob");
    // Log-in needs exactly the spelling used at sign-up.
    let login = world.call("POST", "/v1/login", None, Some(account("alice"))).await;
    login.refused(401, "invalid_credentials");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_sign_ups_with_lookalike_names_have_one_winner() {
    let world = World::open().await;
    let (one, other) = tokio::join!(sign_up(&world, "alice"), sign_up(&world, "Alice"));
    let mut statuses = [one.status, other.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409]);
}

/// A user of the operator's own product appears between the first check of the name and the
/// password hash.
#[tokio::test(flavor = "multi_thread")]
async fn sign_up_is_refused_when_the_name_comes_into_use_during_the_password_hash() {
    let store = FaultyStore::default();
    let world = Setup { signup: true, ..store.setup() }.start().await;
    store.hold_repeated_user_reads(true);
    let meanwhile = async {
        while store.repeated_user_reads.load(Ordering::SeqCst) == 0 {
            sleep(Duration::from_millis(5)).await;
        }
        let id: UserId = "alice".parse().unwrap();
        let update = ProfileUpdate { hides_presence: Some(true), ..ProfileUpdate::of(id) };
        world.store.update_profile(update).await.unwrap();
        store.hold_repeated_user_reads(false);
    };
    let (answer, ()) = timeout(TIMEOUT, async { tokio::join!(sign_up(&world, "alice"), meanwhile) })
        .await
        .expect("sign-up reads the user again before it hashes the password");
    answer.refused(409, "user_exists");
}

#[tokio::test(flavor = "multi_thread")]
async fn reserved_names_are_refused_at_sign_up_and_accepted_from_the_operator() {
    let reserved_names = ReservedNames::with(["Staff"]);
    let world = Setup { reserved_names, ..Setup::open() }.start().await;
    for name in ["system", "void", "Admin", "bluetick", "support", "r00t", "\u{430}dmin", "staff"] {
        sign_up(&world, name).await.refused(409, "name_reserved");
    }
    sign_up(&world, "admi\u{307}n").await.refused(409, "name_reserved");
    let made = world.call("POST", "/v1/users", Some(ADMIN_KEY), Some(account("support"))).await;
    assert_eq!(made.status, 201);
    let alike = world.call("POST", "/v1/users", Some(ADMIN_KEY), Some(account("Support"))).await;
    alike.refused(409, "user_exists");
    for path in ["/v1/users", "/v1/tokens"] {
        let hidden = world.call("POST", path, Some(ADMIN_KEY), Some(account("sup\u{200b}port"))).await;
        assert!(hidden.refused(400, "invalid_request").starts_with("user_id: "));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn conversation_with_unknown_user_is_refused_while_sign_up_is_open() {
    let world = World::open().await;
    sign_up(&world, "bob").await;
    assert_eq!(mint(&world, "carol").await.status, 201);
    let alice = world.person("alice");
    let direct = |peer: &str| json!({"kind": "direct", "peer": peer});
    let group = |members: &[&str]| json!({"kind": "group", "title": "Tea", "members": members});
    for body in [direct("victim"), group(&["bob", "victim"])] {
        let message = alice.post("/v1/conversations", body).await.refused(404, "unknown_user");
        assert_eq!(message, "there is no user victim");
    }
    let tea = alice.group(&["bob", "alice"]).await;
    alice.add(&tea, &["carol", "victim"]).await.refused(404, "unknown_user");
    assert_eq!(alice.add(&tea, &["carol"]).await.status, 200);
    // Alice has no account, but is now a member of a conversation.
    sign_up(&world, "alice").await.refused(409, "user_exists");
    let bob = world.person("bob");
    assert_eq!(bob.post("/v1/conversations", direct("alice")).await.status, 201);
    // The refused conversation did not reserve the name.
    assert_eq!(sign_up(&world, "victim").await.status, 201);
    assert_eq!(alice.post("/v1/conversations", direct("victim")).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn conversation_with_unknown_user_is_accepted_while_sign_up_is_closed() {
    let world = World::new().await;
    let alice = world.person("alice");
    alice.direct("somebody-of-our-product").await;
    let hidden = json!({"kind": "direct", "peer": "b\u{200b}ob"});
    let message = alice.post("/v1/conversations", hidden).await.refused(400, "invalid_request");
    assert!(message.starts_with("peer: "), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn common_passwords_and_the_user_id_are_refused_wherever_a_password_is_set() {
    let world = World::open().await;
    for (name, password) in
        [("alice", "Password1"), ("alice", "12345678"), ("alice-liddell", "Alice-Liddell")]
    {
        let body = json!({"user_id": name, "password": password});
        for (path, key) in [("/v1/signup", None), ("/v1/users", Some(ADMIN_KEY))] {
            let refused = world.call("POST", path, key, Some(body.clone())).await;
            let message = refused.refused(400, "invalid_request");
            assert!(message.starts_with("password: ") && !message.contains(password), "{message}");
        }
    }
    sign_up(&world, "alice").await;
    let body = Some(json!({"password": "iloveyou"}));
    let refused = world.call("PUT", "/v1/users/alice/password", Some(ADMIN_KEY), body).await;
    assert!(refused.refused(400, "invalid_request").starts_with("password: "));
}

#[tokio::test(flavor = "multi_thread")]
async fn display_names_and_titles_lose_bidi_controls() {
    let world = World::open().await;
    let body = json!({"user_id": "bob", "password": "correct horse", "display_name": "Bob\u{202e}eci"});
    world.call("POST", "/v1/signup", None, Some(body)).await;
    let alice = world.person("alice");
    assert_eq!(alice.get("/v1/people?user_id=bob").await.json()["people"][0]["display_name"], "Bobeci");
    let renamed = alice.call("PATCH", "/v1/me", Some(json!({"display_name": "\u{2066}Al\u{2069}"}))).await;
    assert_eq!(renamed.json()["display_name"], "Al");
    let only = alice.call("PATCH", "/v1/me", Some(json!({"display_name": "\u{202e}"}))).await;
    only.refused(400, "invalid_request");
    let group = json!({"kind": "group", "title": "\u{202e}Tea", "members": ["bob"]});
    assert_eq!(alice.post("/v1/conversations", group).await.json()["title"], "Tea");
}
