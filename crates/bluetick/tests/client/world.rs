//! A server with users, and helper functions for the client tests.

use std::time::Duration;

use bluetick_client::{
    Client, ClientSettings, Conversation, FixedToken, MemoryStorage, ReconnectSettings, Server, Storage,
};
use bluetick_core::UserId;
use bluetick_testkit::http::{messages, request};
use bluetick_testkit::process::{Launcher, ServerProcess};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::timeout;

/// The admin key of every server under test.
const ADMIN_KEY: &str = "an-admin-key-for-this-test-alone";
/// Time limit of `until`. If it is too short, tests fail on a slow machine.
const PATIENCE: Duration = Duration::from_secs(90);

pub struct World {
    _data_dir: TempDir,
    launcher: Launcher,
    pub server: Option<ServerProcess>,
}

pub fn user(name: &str) -> UserId {
    name.parse().unwrap()
}

impl World {
    pub async fn new() -> World {
        World::with(&[]).await
    }

    pub async fn with(variables: &[(&str, &str)]) -> World {
        let data_dir = tempfile::tempdir().unwrap();
        let mut launcher = Launcher::new(env!("CARGO_BIN_EXE_bluetick"), data_dir.path())
            .with("BLUETICK_ADMIN__KEY", ADMIN_KEY)
            .with("BLUETICK_LIMITS__SENDS_PER_SECOND", "0")
            .with("BLUETICK_LIMITS__REQUESTS_PER_SECOND", "0")
            .with("BLUETICK_LIMITS__ACKS_PER_SECOND", "0")
            .with("BLUETICK_LIMITS__CONNECTIONS_PER_USER", "0")
            .with("BLUETICK_LIMITS__CONNECTS_PER_USER_PER_MINUTE", "0");
        for (name, value) in variables {
            launcher.variables.retain(|(known, _)| known != name);
            launcher = launcher.with(name, value);
        }
        let server = Some(launcher.start().await);
        World { _data_dir: data_dir, launcher, server }
    }

    pub fn address(&self) -> &str {
        &self.server.as_ref().unwrap().address
    }

    pub async fn kill(&mut self) {
        self.server.take().unwrap().kill().await;
    }

    pub async fn restart(&mut self) {
        self.server = Some(self.launcher.start().await);
    }

    pub async fn token(&self, name: &str) -> String {
        let body = json!({"user_id": name, "ttl_s": 3600});
        let answer = request(self.address(), "POST", "/v1/tokens", ADMIN_KEY, Some(&body)).await.unwrap();
        answer.1["token"].as_str().unwrap().to_owned()
    }

    pub async fn ask(&self, token: &str, method: &str, path: &str, body: Value) -> Value {
        let (status, answer) = request(self.address(), method, path, token, Some(&body)).await.unwrap();
        assert!(status < 300, "{answer}");
        answer
    }

    /// The texts that the server has stored in a conversation, in order.
    pub async fn texts(&self, reader: &str, conversation: &Conversation) -> Vec<String> {
        let token = self.token(reader).await;
        let stored = messages(self.address(), &token, &conversation.id().to_string()).await;
        stored.iter().map(|message| message["content"].as_str().unwrap().to_owned()).collect()
    }

    /// A client that connects to `address`.
    pub async fn client_at(&self, address: &str, name: &str, storage: impl Storage) -> Client {
        Client::start(self.settings_at(address, name).await, storage).await.unwrap()
    }

    pub async fn settings_at(&self, address: &str, name: &str) -> ClientSettings {
        let server = Server::new(format!("http://{address}").parse().unwrap()).unwrap();
        let mut settings = ClientSettings::new(server, user(name), FixedToken(self.token(name).await));
        settings.reconnect = ReconnectSettings {
            first_pause: Duration::from_millis(5),
            longest_pause: Duration::from_millis(80),
            lasting: Duration::from_secs(1),
        };
        settings
    }

    /// A client that connects directly to the server and has caught up.
    pub async fn client(&self, name: &str) -> Client {
        let client = self.client_at(self.address(), name, MemoryStorage::default()).await;
        until("caught up", &client, || client.connection().caught_up).await;
        client
    }
}

/// Waits until `holds` returns true. Checks after every change of the client's state.
pub async fn until(what: &str, client: &Client, mut holds: impl FnMut() -> bool) {
    let mut changes = client.changes();
    let waited = timeout(PATIENCE, async {
        while !holds() {
            changes.changed().await.unwrap();
        }
    });
    assert!(waited.await.is_ok(), "not in time: {what}; {:?}", client.connection());
}

/// The texts of the messages in the client's view of a conversation.
pub fn shown(conversation: &Conversation) -> Vec<String> {
    conversation.view().messages.iter().map(|message| message.content.clone()).collect()
}

pub fn numbered(count: usize) -> Vec<String> {
    (1..=count).map(|number| format!("number {number}")).collect()
}
