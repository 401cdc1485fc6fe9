//! Sign-up, log-in, tokens, the operator's calls on users, and people search.

use serde_json::json;

use crate::harness::{ADMIN_KEY, Setup, World};

fn alice() -> serde_json::Value {
    json!({"user_id": "alice", "password": "correct horse", "display_name": "Alice"})
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_up_returns_a_valid_token_and_log_in_works() {
    let world = World::open().await;
    let signed_up = world.call("POST", "/v1/signup", None, Some(alice())).await;
    assert_eq!(signed_up.status, 201);
    assert_eq!(signed_up.json()["user_id"], "alice");
    assert!(signed_up.json()["expires_at"].as_i64().unwrap() > 1_700_000_000_000);

    let login = json!({"user_id": "alice", "password": "correct horse"});
    let logged_in = world.call("POST", "/v1/login", None, Some(login)).await;
    assert_eq!(logged_in.status, 200);
    let body = logged_in.json();
    let bob = json!({"user_id": "bob", "password": "correct horse"});
    assert_eq!(world.call("POST", "/v1/signup", None, Some(bob)).await.status, 201);
    let direct = json!({"kind": "direct", "peer": "bob"});
    let opened = world.call("POST", "/v1/conversations", body["token"].as_str(), Some(direct)).await;
    assert_eq!(opened.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_up_refuses_taken_names_weak_passwords_and_invalid_names() {
    let world = World::open().await;
    assert_eq!(world.call("POST", "/v1/signup", None, Some(alice())).await.status, 201);
    world.call("POST", "/v1/signup", None, Some(alice())).await.refused(409, "user_exists");
    let weak = json!({"user_id": "bob", "password": "short"});
    let message = world.call("POST", "/v1/signup", None, Some(weak)).await.refused(400, "invalid_request");
    assert!(message.starts_with("password: ") && !message.contains("short"), "{message}");
    let spaced = json!({"user_id": "bob builder", "password": "correct horse"});
    let message = world.call("POST", "/v1/signup", None, Some(spaced)).await.refused(400, "invalid_request");
    assert!(message.starts_with("user_id: "), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_user_and_wrong_password_get_the_same_error() {
    let world = World::open().await;
    assert_eq!(world.call("POST", "/v1/signup", None, Some(alice())).await.status, 201);
    let wrong = json!({"user_id": "alice", "password": "incorrect horse"});
    let wrong = world.call("POST", "/v1/login", None, Some(wrong)).await;
    let unknown = json!({"user_id": "nobody", "password": "incorrect horse"});
    let unknown = world.call("POST", "/v1/login", None, Some(unknown)).await;
    wrong.refused(401, "invalid_credentials");
    assert_eq!((wrong.status, wrong.body), (unknown.status, unknown.body));
}

#[tokio::test(flavor = "multi_thread")]
async fn log_ins_above_the_rate_are_refused_for_that_user_only() {
    let world = Setup::limits(|limits| limits.logins_per_minute = 3).start().await;
    let guess = |name: &str| json!({"user_id": name, "password": "incorrect horse"});
    world.call("POST", "/v1/login", None, Some(guess("alice"))).await.refused(401, "invalid_credentials");
    let slowed = world.call("POST", "/v1/login", None, Some(guess("alice"))).await;
    slowed.refused(429, "rate_limited");
    assert!(slowed.header("retry-after").unwrap().parse::<u64>().unwrap() > 1);
    world.call("POST", "/v1/login", None, Some(guess("bob"))).await.refused(401, "invalid_credentials");
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_creates_accounts_while_sign_up_is_disabled() {
    let world = Setup { signup: false, ..Setup::default() }.start().await;
    world.call("POST", "/v1/signup", None, Some(alice())).await.refused(403, "signup_disabled");
    let made = world.call("POST", "/v1/users", Some(ADMIN_KEY), Some(alice())).await;
    assert_eq!((made.status, made.json()["display_name"].as_str()), (201, Some("Alice")));
    let login = json!({"user_id": "alice", "password": "correct horse"});
    assert_eq!(world.call("POST", "/v1/login", None, Some(login)).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_reads_users_and_changes_passwords() {
    let world = World::new().await;
    world.call("GET", "/v1/users/alice", Some(ADMIN_KEY), None).await.refused(404, "user_not_found");
    let password = json!({"password": "battery staple"});
    let path = "/v1/users/alice/password";
    world.call("PUT", path, Some(ADMIN_KEY), Some(password.clone())).await.refused(404, "user_not_found");
    assert_eq!(world.call("POST", "/v1/users", Some(ADMIN_KEY), Some(alice())).await.status, 201);
    assert_eq!(world.call("PUT", path, Some(ADMIN_KEY), Some(password)).await.status, 200);

    let shown = world.call("GET", "/v1/users/alice", Some(ADMIN_KEY), None).await;
    assert_eq!((shown.status, shown.json()["has_password"].as_bool()), (200, Some(true)));
    assert!(!shown.text().contains("argon2"));
    let old = json!({"user_id": "alice", "password": "correct horse"});
    world.call("POST", "/v1/login", None, Some(old)).await.refused(401, "invalid_credentials");
    let new = json!({"user_id": "alice", "password": "battery staple"});
    assert_eq!(world.call("POST", "/v1/login", None, Some(new)).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_mints_tokens_for_users_without_an_account() {
    let world = World::new().await;
    let mint = |ttl: i64| json!({"user_id": "from-elsewhere", "ttl_s": ttl});
    let minted = world.call("POST", "/v1/tokens", Some(ADMIN_KEY), Some(mint(60))).await;
    assert_eq!(minted.status, 201);
    let token = minted.json()["token"].as_str().unwrap().to_string();
    let direct = json!({"kind": "direct", "peer": "bob"});
    assert_eq!(world.call("POST", "/v1/conversations", Some(&token), Some(direct)).await.status, 201);
    for ttl in [0, -1, 24 * 3600 + 1] {
        let refused = world.call("POST", "/v1/tokens", Some(ADMIN_KEY), Some(mint(ttl))).await;
        assert!(refused.refused(400, "invalid_request").starts_with("ttl_s: "));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_calls_without_admin_key_are_refused() {
    let world = World::new().await;
    let token = world.person("alice").token;
    for key in [None, Some("not-the-key"), Some(&*token)] {
        world.call("POST", "/v1/users", key, Some(alice())).await.refused(401, "unauthenticated");
        world.call("GET", "/v1/users/alice", key, None).await.refused(401, "unauthenticated");
        let mint = json!({"user_id": "alice", "ttl_s": 60});
        world.call("POST", "/v1/tokens", key, Some(mint)).await.refused(401, "unauthenticated");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn call_without_valid_token_is_refused_and_expiry_is_named() {
    let clock = std::sync::Arc::new(bluetick_core::time::ManualClock::at(
        bluetick_core::Timestamp::from_millis(1_800_000_000_000),
    ));
    let world = Setup { clock: clock.clone(), ..Setup::default() }.start().await;
    let path = "/v1/conversations/d0123456789abcdefghjkmnpq";
    world.get(path).await.refused(401, "unauthenticated");
    world.call("GET", path, Some("nonsense"), None).await.refused(401, "unauthenticated");
    world.call("GET", path, Some(ADMIN_KEY), None).await.refused(401, "unauthenticated");
    let alice = world.person("alice");
    alice.get(path).await.refused(404, "conversation_not_found");
    clock.advance_millis(2 * 3_600_000);
    alice.get(path).await.refused(401, "token_expired");
}

#[tokio::test(flavor = "multi_thread")]
async fn token_responses_are_not_cacheable() {
    let world = World::open().await;
    let body = json!({"user_id": "alice", "password": "correct horse"});
    let signed_up = world.call("POST", "/v1/signup", None, Some(body.clone())).await;
    let logged_in = world.call("POST", "/v1/login", None, Some(body)).await;
    let minted = world.call("POST", "/v1/tokens", Some(ADMIN_KEY), Some(json!({"user_id": "bob"}))).await;
    for answer in [signed_up, logged_in, minted] {
        assert!(answer.json()["token"].is_string(), "{}", answer.text());
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn people_search_finds_by_name_and_display_name_can_change() {
    let world = World::open().await;
    let bob = world.person("bob");
    let signup =
        |id: &str, name: &str| json!({"user_id": id, "password": "long enough", "display_name": name});
    world.call("POST", "/v1/signup", None, Some(signup("u1", "Alice Liddell"))).await;
    let alice = json!({"people": [{"user_id": "u1", "display_name": "Alice Liddell"}]});
    for query in ["search=al", "search=LIDD", "search=alice%20l", "search=u1", "user_id=nobody&user_id=u1"] {
        assert_eq!(bob.get(&format!("/v1/people?{query}")).await.json(), alice, "{query}");
    }
    assert_eq!(bob.get("/v1/people?search=lice").await.json(), json!({"people": []}));
    assert_eq!(bob.get("/v1/people").await.status, 400);
    assert_eq!(world.get("/v1/people?search=al").await.status, 401);

    // A user without an account has no display name until it sets one.
    assert_eq!(bob.get("/v1/me").await.json()["display_name"], json!(null));
    let renamed = bob.call("PATCH", "/v1/me", Some(json!({"display_name": " Robert  "}))).await;
    assert_eq!((renamed.status, renamed.json()["display_name"].clone()), (200, json!("Robert")));
    assert_eq!(bob.call("PATCH", "/v1/me", Some(json!({"display_name": " "}))).await.status, 400);
    let bob_found = json!({"people": [{"user_id": "bob", "display_name": "Robert"}]});
    assert_eq!(bob.get("/v1/people?search=rob").await.json(), bob_found);
}

#[tokio::test(flavor = "multi_thread")]
async fn disabled_search_finds_only_a_complete_user_id() {
    let mut setup = Setup::default();
    setup.settings.people_search = false;
    let world = setup.start().await;
    let bob = world.person("bob");
    bob.call("PATCH", "/v1/me", Some(json!({"display_name": "Robert"}))).await;
    assert_eq!(bob.get("/v1/people?search=rob").await.json(), json!({"people": []}));
    assert_eq!(bob.get("/v1/people?search=bob").await.json()["people"][0]["display_name"], "Robert");
}

#[tokio::test(flavor = "multi_thread")]
async fn server_info_is_available_without_authentication() {
    let offer = World::open().await.get("/v1/server").await.json();
    assert_eq!((&offer["signup"], &offer["login"]), (&json!(true), &json!(true)));
    assert_eq!(offer["content_bytes"], 65_536);
    let world = Setup { signup: false, ..Setup::default() }.start().await;
    assert_eq!(world.get("/v1/server").await.json()["signup"], false);
}
