//! The API documents: they are current, and the server serves them.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::harness::World;

/// The calls of the contract, as far as this server speaks it.
const CONTRACT: &[(&str, &str)] = &[
    ("post", "/v1/signup"),
    ("post", "/v1/login"),
    ("post", "/v1/logout"),
    ("post", "/v1/tokens"),
    ("post", "/v1/users"),
    ("get", "/v1/users/{user_id}"),
    ("put", "/v1/users/{user_id}/password"),
    ("delete", "/v1/users/{user_id}/sessions"),
    ("get", "/v1/me"),
    ("patch", "/v1/me"),
    ("get", "/v1/people"),
    ("get", "/v1/server"),
    ("get", "/v1/conversations"),
    ("post", "/v1/conversations"),
    ("get", "/v1/conversations/{conversation_id}"),
    ("post", "/v1/conversations/{conversation_id}/members"),
    ("delete", "/v1/conversations/{conversation_id}/members/{user_id}"),
    ("post", "/v1/conversations/{conversation_id}/messages"),
    ("get", "/v1/conversations/{conversation_id}/messages"),
    ("post", "/v1/conversations/{conversation_id}/delivered"),
    ("post", "/v1/conversations/{conversation_id}/read"),
    ("get", "/v1/conversations/{conversation_id}/status"),
    ("patch", "/v1/conversations/{conversation_id}/settings"),
    ("get", "/v1/conversations/{conversation_id}/presence"),
    ("get", "/v1/archive"),
    ("get", "/v1/archive/jobs/{job_id}"),
    ("post", "/v1/archive/run"),
    ("post", "/v1/archive/verify"),
    ("post", "/v1/archive/restore"),
    ("post", "/v1/backups"),
    ("post", "/v1/erasures"),
    ("get", "/v1/ws"),
    ("get", "/healthz"),
    ("get", "/readyz"),
    ("get", "/metrics"),
    ("get", "/openapi.json"),
    ("get", "/asyncapi.json"),
    ("get", "/docs"),
    ("get", "/"),
    ("get", "/sw.js"),
    ("get", "/manifest.webmanifest"),
    ("get", "/assets/{file}"),
];

fn operations(document: &Value) -> Vec<(String, String)> {
    let paths = document["paths"].as_object().unwrap().iter();
    let mut all: Vec<_> = paths
        .flat_map(|(path, item)| {
            item.as_object().unwrap().keys().map(move |method| (method.clone(), path.clone()))
        })
        .collect();
    all.sort();
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn documented_routes_equal_the_contract_and_are_served() {
    let world = World::new().await;
    let served = world.get("/openapi.json").await;
    assert_eq!(served.header("content-type"), Some("application/json"));
    let document = served.json();
    assert_eq!(document["openapi"], "3.1.0");
    let mut contract: Vec<_> =
        CONTRACT.iter().map(|(method, path)| (method.to_string(), path.to_string())).collect();
    contract.sort();
    assert_eq!(operations(&document), contract);
    let page = String::from_utf8(world.get("/").await.body).unwrap();
    let (_, file) = page.split_once("/assets/").unwrap();
    let (file, _) = file.split_once('"').unwrap();
    for (method, path) in contract {
        let path = path.replace("{file}", file);
        let path = ["{user_id}", "{conversation_id}", "{job_id}"]
            .iter()
            .fold(path, |path, part| path.replace(part, "x"));
        let reply = world.call(&method.to_uppercase(), &path, None, None).await;
        let code = serde_json::from_slice::<Value>(&reply.body).unwrap_or_default()["error"]["code"].clone();
        assert!(code != "not_found" && code != "method_not_allowed", "{method} {path}: {code}");
    }
}

/// Calls every path with every method. The server must refuse the methods that the document omits.
#[tokio::test(flavor = "multi_thread")]
async fn undocumented_methods_return_405() {
    let world = World::new().await;
    let documented = operations(&bluetick_server::openapi_document());
    let paths: std::collections::BTreeSet<&String> = documented.iter().map(|(_, path)| path).collect();
    for path in paths {
        for method in ["get", "post", "put", "patch", "delete", "options"] {
            let named = documented.contains(&(method.to_string(), path.clone()));
            let asked =
                path.replace("{file}", "app.js").replace("{user_id}", "x").replace("{conversation_id}", "x");
            let status = world.call(&method.to_uppercase(), &asked, None, None).await.status;
            assert_eq!(status == 405, !named, "{method} {path}: {status}");
        }
    }
}

#[test]
fn operation_ids_are_unique() {
    let document = bluetick_server::openapi_document();
    let paths = document["paths"].as_object().unwrap().values();
    let names: Vec<&str> = paths
        .flat_map(|item| item.as_object().unwrap().values())
        .map(|operation| operation["operationId"].as_str().unwrap())
        .collect();
    let distinct: std::collections::HashSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), names.len(), "{names:?}");
}

#[test]
fn schema_examples_validate() {
    let document = bluetick_server::openapi_document();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let mut checked = 0;
    for (name, schema) in schemas {
        let Some(example) = schema.get("example") else { continue };
        let mut root = schema.clone();
        root["components"] = document["components"].clone();
        let validator = jsonschema::validator_for(&root).unwrap();
        let errors: Vec<String> = validator.iter_errors(example).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{name}: {errors:?}");
        checked += 1;
    }
    assert!(checked >= 12, "only {checked} schemas have an example");
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_validate_against_the_document() {
    let world = World::new().await;
    let [alice, _] = world.people(["alice", "bob"]);
    let chat = alice.direct("bob").await;
    let sent = alice.send(&chat, "m1", "hi").await.json();
    let page = alice.history(&chat, "").await.json();
    let shown = alice.get(&format!("/v1/conversations/{chat}")).await.json();
    let refused = alice.get("/v1/nothing").await.json();
    let group = alice.group(&["bob"]).await;
    let inbox = alice.get("/v1/conversations").await.json();
    let marked = alice.post(&format!("/v1/conversations/{chat}/read"), json!({"seq": 1})).await.json();
    let settings = format!("/v1/conversations/{group}/settings");
    let set = alice.call("PATCH", &settings, Some(json!({"muted": true}))).await.json();
    let get = async |rest: &str| alice.get(&format!("/v1/conversations/{chat}/{rest}")).await.json();
    let (statuses, receipts) = (get("status").await, get("status?seq=1").await);
    let presence = get("presence").await;
    let me = alice.get("/v1/me").await.json();
    let document = bluetick_server::openapi_document();
    let answers = [
        ("SentBody", sent),
        ("PageBody", page),
        ("ConversationBody", shown.clone()),
        ("ConversationDetailBody", shown),
        ("ErrorBody", refused),
        ("InboxPageBody", inbox),
        ("OwnStatusBody", marked),
        ("InboxEntryBody", set),
        ("StatusBody", statuses.clone()),
        ("StatusesBody", statuses),
        ("StatusBody", receipts.clone()),
        ("ReceiptsBody", receipts),
        ("PresencesBody", presence),
        ("ProfileBody", me),
    ];
    for (name, answer) in answers {
        let mut root = document["components"]["schemas"][name].clone();
        root["components"] = document["components"].clone();
        assert!(jsonschema::is_valid(&root, &answer), "{name}: {answer}");
    }
}

#[test]
fn committed_openapi_document_is_current() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let generated = bluetick_server::openapi_document();
    if std::env::var_os("BLUETICK_BLESS").is_some() {
        std::fs::write(&path, format!("{generated:#}\n")).unwrap();
    }
    // As values, since the order of keys depends on what else is built.
    let committed: Value =
        serde_json::from_slice(&std::fs::read(&path).unwrap_or_default()).unwrap_or_default();
    assert!(
        committed == generated,
        "docs/openapi.json is stale: BLUETICK_BLESS=1 cargo test -p bluetick-server documents"
    );
}

/// The server accepts exactly the message ids that the document permits.
#[tokio::test(flavor = "multi_thread")]
async fn document_and_server_accept_the_same_message_ids() {
    let world = World::new().await;
    let alice = world.person("alice");
    let chat = alice.direct("bob").await;
    let document = bluetick_server::openapi_document();
    let mut schema = document["components"]["schemas"]["SendRequestBody"].clone();
    schema["components"] = document["components"].clone();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let (long, longest) = ("m".repeat(129), "m".repeat(128));
    for (number, (id, content_type)) in [
        (&*longest, "text"),
        (&*long, "text"),
        ("", "text"),
        ("two words", "text"),
        ("system:1", "text"),
        ("a-system:1", "text"),
        ("caf\u{e9}", "text"),
        ("m1", "system"),
        ("m2", "void"),
        ("m3", "voids"),
        ("m4", ""),
        ("m5", "image/png"),
        ("m6", "erased"),
        ("m7", "lost"),
        ("m8", "lost-and-found"),
    ]
    .into_iter()
    .enumerate()
    {
        let body = json!({"message_id": id, "content": number.to_string(), "content_type": content_type});
        let valid = validator.is_valid(&body);
        let status = alice.post(&format!("/v1/conversations/{chat}/messages"), body.clone()).await.status;
        assert_eq!(status, if valid { 201 } else { 400 }, "{body}");
    }
}
