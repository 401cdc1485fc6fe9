//! `bluetick tables` on DynamoDB Local, and a start without tables.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod support;

use bluetick_testkit::dynamo::DynamoServer;
use support::{Outcome, Shell};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A working directory with settings for its own tables. No Redis runs, because the
/// program checks the tables before it connects to Redis.
struct CommandSetup {
    shell: Shell,
    server: &'static DynamoServer,
}

impl CommandSetup {
    async fn new(prefix: &str) -> CommandSetup {
        let server = DynamoServer::shared().await;
        let shell = Shell::new();
        let settings = format!(
            "[store]\nengine = \"dynamodb\"\n[store.dynamodb]\nendpoint = \"{}\"\nregion = \"us-east-1\"\n\
             table_prefix = \"{prefix}\"\ndeadline_ms = 30000\nattempt_timeout_ms = 10000\n",
            server.endpoint()
        );
        shell.file("bluetick.toml", &settings);
        CommandSetup { shell, server }
    }

    async fn run(&self, arguments: &[&str]) -> Outcome {
        let mut command = self.shell.command(arguments);
        command.envs(self.server.credentials());
        Outcome::of(tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap())
    }

    /// Sends a request to the engine directly. Checks only the HTTP status of the answer.
    async fn ask(&self, operation: &str, body: &str) {
        let mut stream = TcpStream::connect(self.server.address()).await.unwrap();
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
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_create_is_idempotent_and_passes_tables_check() {
    let setup = CommandSetup::new("made_").await;
    let printed = setup.run(&["tables", "create"]).await.printed();
    assert_eq!(printed.lines().count(), 9, "{printed}");
    assert!(printed.lines().all(|line| line.contains(": made")), "{printed}");
    assert!(printed.starts_with("table made_messages: made"), "{printed}");
    let again = setup.run(&["tables", "create"]).await.printed();
    assert!(again.lines().count() == 9 && !again.contains("made;"), "{again}");
    let checked = setup.run(&["tables", "check"]).await.printed();
    assert!(checked.ends_with("the tables are correct\n"), "{checked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn server_without_tables_names_them_and_the_create_command() {
    let setup = CommandSetup::new("none_").await;
    let outcome = setup.run(&["serve", "--listen", "127.0.0.1:0"]).await;
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    let sentence = outcome.stderr.lines().last().unwrap();
    assert!(sentence.contains("table none_messages is missing"), "{sentence}");
    assert!(sentence.contains("`bluetick tables create`"), "{sentence}");
    assert_eq!(outcome.stdout, "", "it does not serve");
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_or_unprotected_tables_are_one_line_each_and_a_failure() {
    let setup = CommandSetup::new("odd_").await;
    let missing = setup.run(&["tables", "check"]).await;
    assert_eq!(missing.code, 1);
    assert_eq!(missing.stdout.lines().next(), Some("table odd_messages is missing"));
    assert!(
        missing.stderr.contains("a node does not start with 9 tables wrong or missing"),
        "{}",
        missing.stderr
    );

    setup.run(&["tables", "create"]).await.printed();
    setup.ask("UpdateTable", r#"{"TableName":"odd_rooms","DeletionProtectionEnabled":false}"#).await;
    let unprotected = setup.run(&["tables", "check"]).await;
    assert_eq!(unprotected.code, 1);
    assert!(unprotected.stdout.contains("table odd_rooms: deletion protection is off\n"));
    assert!(
        unprotected.stderr.contains("the tables work, and 1 protection is off"),
        "{}",
        unprotected.stderr
    );

    let mended = setup.run(&["tables", "create"]).await.printed();
    assert!(mended.contains("table odd_rooms: deletion protection switched on"), "{mended}");
    setup.run(&["tables", "check"]).await.printed();
}

#[test]
fn tables_command_on_the_embedded_store_names_the_required_setting() {
    for arguments in [["tables", "create"], ["tables", "check"]] {
        let shell = Shell::new();
        let sentence = shell.run(&arguments).refused();
        assert!(sentence.contains("store.engine") && sentence.contains("\"dynamodb\""), "{sentence}");
        assert!(!shell.path("bluetick-data").exists());
    }
}

#[test]
fn tables_check_reports_an_unreachable_engine_within_the_deadline() {
    let shell = Shell::new();
    shell.file(
        "bluetick.toml",
        "[store]\nengine = \"dynamodb\"\n[store.dynamodb]\nendpoint = \"http://127.0.0.1:1\"\n\
         region = \"us-east-1\"\ndeadline_ms = 5000\nattempt_timeout_ms = 4000\n",
    );
    let mut command = shell.command(&["tables", "check"]);
    command.env("AWS_ACCESS_KEY_ID", "A").env("AWS_SECRET_ACCESS_KEY", "S");
    let outcome = Outcome::of(command.output().unwrap());
    assert_eq!((outcome.code, outcome.stdout.as_str()), (1, ""), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("there is no connection"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("(store.dynamodb.endpoint http://127.0.0.1:1)"), "{}", outcome.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn hot_lists_conversations_too_busy_for_one_partition() {
    let setup = CommandSetup::new("hot_").await;
    setup.run(&["tables", "create"]).await.printed();
    let none = setup.run(&["hot"]).await.printed();
    assert_eq!(none, "no conversation has ever been too busy for one partition\n");
    let id = "g0w3ge1r70w3ge1r70w3ge1r7";
    let put = |item: &str| format!("{{\"TableName\":\"hot_hot_registry\",\"Item\":{item}}}");
    let busy = format!(
        "{{\"conversation_id\":{{\"S\":\"{id}\"}},\"version\":{{\"N\":\"3\"}},\"horizon\":{{\"N\":\"4096\"}},\
         \"epochs\":{{\"S\":\"1025:2:64,2049:5:64\"}}}}"
    );
    setup.ask("PutItem", &put(&busy)).await;
    let listed = setup.run(&["hot"]).await.printed();
    let line = listed.lines().nth(1).unwrap();
    assert!(line.starts_with(id) && line.ends_with("2 from 1,025, 5 from 2,049"), "{listed}");
}
