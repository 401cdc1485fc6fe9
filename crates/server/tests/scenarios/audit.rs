//! The audit trail of the operator's acts.

use std::fs;
use std::sync::Arc;

use bluetick_server::audit::{AuditSettings, Trail};
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::harness::{ADMIN_KEY, Reply, Setup, World, raw_call};

struct AuditedServer {
    world: World,
    directory: tempfile::TempDir,
}

impl AuditedServer {
    async fn new() -> AuditedServer {
        let directory = tempfile::tempdir().unwrap();
        let audit = Arc::new(Trail::new(&AuditSettings::default(), directory.path()));
        AuditedServer { world: Setup { audit, ..Setup::default() }.start().await, directory }
    }

    async fn operator(&self, method: &str, path: &str, body: Option<Value>) -> Reply {
        self.world.call(method, path, Some(ADMIN_KEY), body).await
    }

    fn text(&self) -> String {
        fs::read_to_string(self.directory.path().join("audit.log")).unwrap_or_default()
    }

    fn lines(&self) -> Vec<Value> {
        self.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Returns act, outcome and subject of each entry.
    fn acts(&self) -> Vec<(String, String, Value)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let lines = self.lines();
        lines
            .iter()
            .map(|line| (text(&line["act"]), text(&line["outcome"]), line["subject"].clone()))
            .collect()
    }

    /// Makes every further write fail.
    fn break_trail(&self) {
        let file = self.directory.path().join("audit.log");
        let _gone = fs::remove_file(&file);
        fs::create_dir(file).unwrap();
    }
}

fn said(act: &str, outcome: &str, subject: Value) -> (String, String, Value) {
    (act.into(), outcome.into(), subject)
}

#[tokio::test(flavor = "multi_thread")]
async fn minted_token_gets_an_audit_entry_without_secrets() {
    let audited = AuditedServer::new().await;
    let reply = audited.operator("POST", "/v1/tokens", Some(json!({"user_id": "alice"}))).await;
    assert_eq!(reply.status, 201);
    assert_eq!(audited.acts(), [said("token.mint", "done", json!({"user_id": "alice"}))]);
    let line = &audited.lines()[0];
    assert_eq!(line["who"]["by"], "admin_key");
    assert!(line["who"]["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{line}");
    assert_eq!(line["who"]["key"].as_str().unwrap().len(), 8);
    assert!(!audited.text().contains(reply.json()["token"].as_str().unwrap()));
    assert!(!audited.text().contains(ADMIN_KEY));
}

#[tokio::test(flavor = "multi_thread")]
async fn user_acts_get_audit_entries_without_passwords() {
    let audited = AuditedServer::new().await;
    let user = json!({"user_id": "alice", "password": "correct horse"});
    assert_eq!(audited.operator("POST", "/v1/users", Some(user.clone())).await.status, 201);
    audited.operator("POST", "/v1/users", Some(user)).await.refused(409, "user_exists");
    let password = json!({"password": "battery staple"});
    let changed = audited.operator("PUT", "/v1/users/alice/password", Some(password)).await;
    assert_eq!(changed.status, 200);
    assert_eq!(audited.operator("DELETE", "/v1/users/bob/sessions", None).await.status, 204);
    let [alice, bob] = ["alice", "bob"].map(|name| json!({"user_id": name}));
    let expected = [
        said("user.create", "begun", alice.clone()),
        said("user.create", "done", alice.clone()),
        said("user.create", "begun", alice.clone()),
        said("user.create", "refused", alice.clone()),
        said("user.password", "begun", alice.clone()),
        said("user.password", "done", alice),
        said("user.revoke", "begun", bob.clone()),
        said("user.revoke", "done", bob),
    ];
    assert_eq!(audited.acts(), expected);
    let lines = audited.lines();
    assert_eq!(lines[3]["reason"], "user_exists");
    for pair in lines.chunks(2) {
        assert_eq!(pair[0]["request_id"], pair[1]["request_id"]);
    }
    assert!(!audited.text().contains("horse") && !audited.text().contains("staple"));
}

#[tokio::test(flavor = "multi_thread")]
async fn archive_jobs_and_erasures_get_audit_entries_when_refused() {
    let audited = AuditedServer::new().await;
    let chat = audited.world.person("alice").direct("bob").await;
    let conversation = json!({"conversation_id": chat});
    for (path, body, act, subject) in [
        ("run", None, "archive.run", Value::Null),
        ("verify", None, "archive.verify", Value::Null),
        ("restore", Some(conversation.clone()), "archive.restore", conversation.clone()),
    ] {
        let before = audited.lines().len();
        audited.operator("POST", &format!("/v1/archive/{path}"), body).await.refused(409, "archive_off");
        let expected = [said(act, "begun", subject.clone()), said(act, "refused", subject)];
        assert_eq!(audited.acts()[before..], expected);
    }
    let before = audited.lines().len();
    let body = json!({"user_id": "alice", "conversation_id": chat});
    audited.operator("POST", "/v1/erasures", Some(body.clone())).await;
    let acts = audited.acts();
    assert_eq!(acts[before], said("erase", "begun", body.clone()));
    assert_eq!(
        (acts.len(), &acts[before + 1].0, &acts[before + 1].2),
        (before + 2, &"erase".to_owned(), &body)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn act_is_refused_when_its_audit_entry_cannot_be_written() {
    let audited = AuditedServer::new().await;
    let alice = audited.world.person("alice");
    audited.break_trail();
    let user = json!({"user_id": "bob", "password": "correct horse"});
    let reply = audited.operator("POST", "/v1/users", Some(user)).await;
    assert!(reply.refused(503, "audit_unavailable").contains("audit.log"));
    audited.operator("GET", "/v1/users/bob", None).await.refused(404, "user_not_found");
    let mint = audited.operator("POST", "/v1/tokens", Some(json!({"user_id": "bob"}))).await;
    mint.refused(503, "audit_unavailable");
    assert!(mint.json().get("token").is_none());
    audited.operator("DELETE", "/v1/users/alice/sessions", None).await.refused(503, "audit_unavailable");
    assert_eq!(alice.get("/v1/me").await.status, 200);
    assert_eq!(alice.call("POST", "/v1/logout", None).await.status, 204, "users are not affected");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_admin_keys_get_a_bounded_number_of_audit_entries() {
    let mut audited = AuditedServer::new().await;
    let guess = || audited.world.call("DELETE", "/v1/users/alice/sessions", Some("open-sesame"), None);
    for _ in 0..10 {
        assert_eq!(guess().await.status, 401);
    }
    // Each 429 is delayed, so these run concurrently.
    for answer in join_all((0..15).map(|_| guess())).await {
        // On a slow machine the bucket refills during the test.
        assert!([401, 429].contains(&answer.status), "{}", answer.text());
    }
    let lines = audited.lines();
    // A new minute may begin during the test.
    assert!((10..=20).contains(&lines.len()), "{}", lines.len());
    assert_eq!((&lines[0]["act"], &lines[0]["outcome"]), (&json!("admin_key.refused"), &json!("refused")));
    assert_eq!(lines[0]["who"]["by"], "stranger");
    assert_eq!(lines[0]["detail"]["call"], "DELETE /v1/users/alice/sessions");
    assert!(!audited.text().contains("sesame"));
    audited
        .world
        .call("DELETE", "/v1/users/alice/sessions", None, None)
        .await
        .refused(401, "unauthenticated");
    assert_eq!(audited.lines().len(), lines.len(), "a request without a key does not count as an attempt");
    // No further key arrives; the drain reports the omitted keys.
    audited.world.take_server().drain().await;
    let lines = audited.lines().into_iter().filter(|line| line["act"] == "admin_key.refused");
    let told = lines.map(|line| {
        u64::from(line["detail"]["call"].is_string())
            + line["detail"]["others_left_out"].as_u64().unwrap_or_default()
    });
    assert_eq!(told.sum::<u64>(), 25);
}

#[tokio::test(flavor = "multi_thread")]
async fn valid_request_id_is_kept_and_an_invalid_one_is_replaced() {
    let audited = AuditedServer::new().await;
    let call = |headers: &str| {
        format!(
            "DELETE /v1/users/alice/sessions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {ADMIN_KEY}\r\n\
             {headers}connection: close\r\n\r\n"
        )
    };
    let long = "x".repeat(65);
    for headers in [
        "x-request-id: 4f2a\r\nx-forwarded-for: 203.0.113.7\r\n".to_owned(),
        "x-request-id: two words\r\n".to_owned(),
        format!("x-request-id: {long}\r\n"),
    ] {
        assert_eq!(raw_call(audited.world.addr, call(&headers).as_bytes()).await.status, 204);
    }
    let lines = audited.lines();
    assert_eq!(
        (&lines[0]["request_id"], &lines[0]["who"]["forwarded_for"]),
        (&json!("4f2a"), &json!("203.0.113.7"))
    );
    assert!(
        lines[2..]
            .iter()
            .all(|line| line["request_id"] != "two words" && line["request_id"] != long.as_str())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn drain_gets_an_audit_entry_and_user_acts_do_not() {
    let mut audited = AuditedServer::new().await;
    let alice = audited.world.person("alice");
    alice.direct("bob").await;
    assert_eq!(alice.call("POST", "/v1/logout", Some(json!({"everywhere": true}))).await.status, 204);
    assert_eq!(audited.acts(), []);
    audited.world.take_server().drain().await;
    assert_eq!(audited.acts(), [said("server.drain", "begun", Value::Null)]);
}
