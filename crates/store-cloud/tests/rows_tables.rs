//! Tables are made once, looked at, and a start without them says what is missing.

#![expect(clippy::unwrap_used, reason = "a test stops where its own set-up fails")]

mod rows_common;

use std::process::Command;

use bluetick_store_cloud::rows::dynamo::{Connection, DynamoRows, DynamoSettings, tables};
use bluetick_store_cloud::rows::{Item, Key, Only, Rows, RowsError, Table};
use bluetick_testkit::dynamo::DynamoServer;
use bluetick_testkit::dynamo_proxy::{DynamoProxy, FaultRule, RequestFault};

async fn settings(prefix: &str) -> (&'static DynamoServer, DynamoSettings) {
    let server = DynamoServer::shared().await;
    let table_prefix = prefix.to_owned();
    (server, DynamoSettings { table_prefix, ..rows_common::settings(server.endpoint()) })
}

async fn connection(prefix: &str) -> Connection {
    let (server, settings) = settings(prefix).await;
    rows_common::connect(server, &settings).await
}

fn refused<T>(result: Result<T, RowsError>) -> String {
    match result {
        Err(RowsError::Refused(sentence)) => sentence,
        Err(RowsError::NoAnswer(sentence)) => panic!("trying again does not mend it: {sentence}"),
        Ok(_) => panic!("it was not refused"),
    }
}

#[tokio::test]
async fn tables_are_made_once_and_left_alone_then() {
    let connection = connection("once_").await;
    let done = tables::create(&connection).await.unwrap();
    assert_eq!(done.len(), Table::ALL.len());
    assert!(done.iter().all(|done| done.contains("made")), "{done:?}");
    let rows = DynamoRows::open_on(connection.clone()).await.unwrap();
    rows.put(Table::Users, &Key::new("ann"), &Item::new().text("name", "Ann"), Only::IfAbsent).await.unwrap();

    let again = tables::create(&connection).await.unwrap();
    assert!(again.iter().all(|done| !done.contains("made")), "{again:?}");
    assert!(again[0].contains("once_messages"), "{again:?}");
    assert!(rows.get(Table::Users, &Key::new("ann")).await.unwrap().is_some());
}

#[tokio::test]
async fn deletion_protection_that_is_off_is_told_and_switched_on() {
    let connection = connection("safe_").await;
    tables::create(&connection).await.unwrap();
    let off = r#"{"TableName":"safe_rooms","DeletionProtectionEnabled":false}"#;
    raw(DynamoServer::shared().await, "UpdateTable", off).await;
    let found = tables::check(&connection).await.unwrap();
    assert_eq!(found.unprotected, ["table safe_rooms: deletion protection is off"]);
    // A table that works is enough for a start.
    DynamoRows::open_on(connection.clone()).await.unwrap();
    let done = tables::create(&connection).await.unwrap();
    assert!(done[6].starts_with("table safe_rooms: deletion protection switched on"), "{done:?}");
    let found = tables::check(&connection).await.unwrap();
    assert!(found.unprotected.is_empty() && found.wrong.is_empty(), "{found:?}");
}

#[tokio::test]
async fn two_who_make_the_tables_at_once_both_get_them() {
    let (one, two) = (connection("both_").await, connection("both_").await);
    let (one, two) = tokio::join!(tables::create(&one), tables::create(&two));
    assert_eq!((one.unwrap().len(), two.unwrap().len()), (9, 9));
}

#[tokio::test]
async fn tables_are_made_through_what_goes_wrong() {
    let (server, settings) = settings("wrong_").await;
    let proxy = DynamoProxy::start(server.address(), 6).await;
    let faults = [
        RequestFault::TableThrottled,
        RequestFault::ErrorBefore,
        RequestFault::ErrorAfter,
        RequestFault::CutAfter,
    ];
    proxy.meet(faults.map(|fault| FaultRule::sometimes(10, fault)));
    let settings = DynamoSettings { endpoint: Some(proxy.endpoint()), ..settings };
    let connection = rows_common::connect(server, &settings).await;
    tables::create(&connection).await.unwrap();
    assert!(proxy.faults() > 0, "nothing went wrong");
    assert_eq!(tables::check(&connection).await.unwrap().wrong, Vec::<String>::new());
}

#[tokio::test]
async fn a_start_without_tables_names_them_and_what_makes_them() {
    let connection = connection("none_").await;
    let said = refused(DynamoRows::open_on(connection.clone()).await);
    assert!(said.contains("table none_messages is missing"), "{said}");
    assert!(said.contains("`bluetick tables create`"), "{said}");
    let wrong = tables::check(&connection).await.unwrap().wrong;
    assert_eq!(wrong.len(), Table::ALL.len());
    assert_eq!(wrong[8], "table none_names is missing");
}

#[tokio::test]
async fn tables_with_other_keys_are_named_and_left() {
    let connection = connection("other_").await;
    let server = DynamoServer::shared().await;
    let with_keys = |name: &str, keys: &[(&str, &str, &str)]| {
        let schema: Vec<_> = keys
            .iter()
            .map(|(key, _, role)| format!(r#"{{"AttributeName":"{key}","KeyType":"{role}"}}"#))
            .collect();
        let types: Vec<_> = keys
            .iter()
            .map(|(key, kind, _)| format!(r#"{{"AttributeName":"{key}","AttributeType":"{kind}"}}"#))
            .collect();
        format!(
            r#"{{"TableName":"{name}","BillingMode":"PAY_PER_REQUEST","KeySchema":[{}],"AttributeDefinitions":[{}]}}"#,
            schema.join(","),
            types.join(",")
        )
    };
    let messages = [("conversation_id", "S", "HASH"), ("seq", "S", "RANGE")];
    raw(server, "CreateTable", &with_keys("other_messages", &messages)).await;
    raw(server, "CreateTable", &with_keys("other_users", &[("name", "S", "HASH")])).await;

    let said = refused(tables::create(&connection).await);
    assert!(said.contains("other_messages") || said.contains("other_users"), "{said}");
    let wrong = tables::check(&connection).await.unwrap().wrong.join("\n");
    let messages = "table other_messages has the key conversation_id (S) and seq (S), not conversation_id (S) and seq (N)";
    assert!(wrong.contains(messages), "{wrong}");
    assert!(wrong.contains("table other_users has the key name (S), not user_id (S)"), "{wrong}");
    let said = refused(DynamoRows::open_on(connection).await);
    assert!(said.contains(messages), "{said}");
}

#[tokio::test]
async fn a_table_that_goes_while_it_runs_is_named() {
    let connection = connection("gone_").await;
    tables::create(&connection).await.unwrap();
    let rows = DynamoRows::open_on(connection).await.unwrap();
    let server = DynamoServer::shared().await;
    raw(server, "UpdateTable", r#"{"TableName":"gone_rooms","DeletionProtectionEnabled":false}"#).await;
    raw(server, "DeleteTable", r#"{"TableName":"gone_rooms"}"#).await;
    let put = rows.put(Table::Rooms, &Key::new("tea"), &Item::new(), Only::IfAbsent).await;
    let said = refused(put);
    assert!(
        said.contains("table gone_rooms is missing") && said.contains("`bluetick tables create`"),
        "{said}"
    );
}

#[tokio::test]
async fn keys_come_from_the_environment_or_a_profile() {
    let (server, settings) = settings("bluetick_").await;
    rows_common::rows_through(&settings).await;
    let folder = std::env::temp_dir().join(format!("bluetick-profile-{}", std::process::id()));
    std::fs::write(&folder, "[chat]\naws_access_key_id = PROFILE\naws_secret_access_key = none\n").unwrap();
    let profile = folder.display().to_string();
    let variables = |more: &[(&str, &str)]| {
        let child = open_elsewhere(server, more);
        String::from_utf8_lossy(&child.stdout).into_owned()
    };
    let said = variables(&[("AWS_ACCESS_KEY_ID", "ENVIRONMENT"), ("AWS_SECRET_ACCESS_KEY", "none")]);
    assert!(said.contains("opened"), "{said}");
    let said = variables(&[("AWS_SHARED_CREDENTIALS_FILE", &profile), ("AWS_PROFILE", "chat")]);
    assert!(said.contains("opened"), "{said}");
    let said = variables(&[]);
    assert!(said.contains("no keys for DynamoDB"), "{said}");
    std::fs::remove_file(folder).unwrap();
}

/// Runs the test below in a process of its own, whose environment is all there is.
fn open_elsewhere(server: &DynamoServer, variables: &[(&str, &str)]) -> std::process::Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "opens_as_the_environment_says", "--nocapture"]);
    command.env_clear().env("HOME", "/nowhere").env("AWS_EC2_METADATA_DISABLED", "true");
    command.env("BLUETICK_TEST_ENDPOINT", server.endpoint()).envs(variables.iter().copied());
    command.output().unwrap()
}

#[tokio::test]
#[ignore = "started by another test, in an environment of its own"]
async fn opens_as_the_environment_says() {
    let Ok(endpoint) = std::env::var("BLUETICK_TEST_ENDPOINT") else { return };
    match DynamoRows::open(&rows_common::settings(endpoint)).await {
        Ok(_) => println!("opened"),
        Err(error) => println!("{error}"),
    }
}

/// A request that this project never makes.
async fn raw(server: &DynamoServer, operation: &str, body: &str) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
    let request = format!(
        "POST / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx-amz-target: DynamoDB_20120810.{operation}\r\n\
         content-type: application/x-amz-json-1.0\r\ncontent-length: {}\r\n\
         authorization: AWS4-HMAC-SHA256 Credential=TEST/20260101/us-east-1/dynamodb/aws4_request, \
         SignedHeaders=host, Signature=none\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{operation}: {answer}");
}
