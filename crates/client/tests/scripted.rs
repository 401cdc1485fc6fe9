//! Tests the client against a scripted server: rare answers of a server, and the exact frames of
//! the client.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bluetick_client::storage::{Change, StorageError};
use bluetick_client::{
    ApiError, Client, ClientSettings, Event, FixedToken, MemoryStorage, NoToken, Phase, Server, Storage,
    TokenSource,
};
use bluetick_types::{ConversationId, UserId};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

/// Time limit for each step of the client. If it is too short, tests fail on a slow machine.
const PATIENCE: Duration = Duration::from_secs(20);

fn user(name: &str) -> UserId {
    name.parse().unwrap()
}

fn direct() -> ConversationId {
    ConversationId::direct(&user("alice"), &user("bob"))
}

/// A scripted server.
struct Scripted {
    listener: TcpListener,
}

/// One WebSocket of the client, at the server's end.
struct Peer<S>(WebSocketStream<S>);

impl Scripted {
    async fn start() -> (Scripted, Server) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        (Scripted { listener }, Server::new(url.parse().unwrap()).unwrap())
    }

    /// Returns the next WebSocket. Closes HTTP connections that arrive before it.
    async fn next(&self) -> Peer<TcpStream> {
        let accepting = async {
            loop {
                let (stream, _) = self.listener.accept().await.unwrap();
                if let Ok(socket) = tokio_tungstenite::accept_async(stream).await {
                    return Peer(socket);
                }
            }
        };
        timeout(PATIENCE, accepting).await.expect("the client connects")
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Peer<S> {
    async fn say(&mut self, frame: Value) {
        self.0.send(Message::text(frame.to_string())).await.unwrap();
    }

    /// Returns the next frame other than a ping.
    async fn hear(&mut self) -> Value {
        loop {
            let packet = timeout(PATIENCE, self.0.next()).await.expect("the client sends a frame");
            if let Message::Text(text) = packet.unwrap().unwrap() {
                return serde_json::from_str(&text).unwrap();
            }
        }
    }

    /// Reads the `hello` and sends the `welcome`.
    async fn welcome(&mut self, epoch: u64) -> Value {
        let hello = self.hear().await;
        assert_eq!(hello["type"], "hello");
        self.say(json!({"type": "welcome", "user_id": "alice", "session_id": "s1", "epoch": epoch, "server_time": 0}))
            .await;
        self.say(json!({"type": "caught_up"})).await;
        hello
    }

    async fn close(mut self, code: u16) {
        let close = CloseFrame { code: code.into(), reason: "".into() };
        // The client may close the connection first.
        let _closed = self.0.close(Some(close)).await;
        while let Some(Ok(_)) = self.0.next().await {}
    }
}

async fn client(server: Server, storage: impl Storage) -> Client {
    let settings = ClientSettings::new(server, user("alice"), FixedToken("t1".into()));
    Client::start(settings, storage).await.unwrap()
}

#[tokio::test]
async fn client_reconnects_at_the_time_in_come_back() {
    let (script, server) = Scripted::start().await;
    let client = client(server, MemoryStorage::default()).await;
    let mut peer = script.next().await;
    peer.welcome(1).await;
    peer.say(json!({"type": "come_back", "after_ms": 700})).await;
    let closed_at = Instant::now();
    peer.close(1012).await;
    script.next().await.welcome(1).await;
    let pause = closed_at.elapsed();
    assert!((Duration::from_millis(690)..Duration::from_millis(1_500)).contains(&pause), "{pause:?}");
    client.stop().await;
}

#[tokio::test]
async fn resend_sets_retry_and_the_first_after_seq() {
    let (script, server) = Scripted::start().await;
    let client = client(server, MemoryStorage::default()).await;
    let mut peer = script.next().await;
    peer.welcome(1).await;
    let item = client.conversation(direct()).send("Lunch?").await.unwrap();
    let first = peer.hear().await;
    assert_eq!(first["message_id"], item.message_id.to_string());
    assert_eq!((&first["retry"], &first["after_seq"]), (&Value::Null, &Value::Null));
    drop(peer);
    let mut peer = script.next().await;
    peer.welcome(1).await;
    let again = peer.hear().await;
    assert_eq!(again["message_id"], first["message_id"]);
    assert_eq!((&again["retry"], &again["after_seq"]), (&json!(true), &json!(0)));
    peer.say(json!({
        "type": "ack", "conversation_id": direct().to_string(), "message_id": again["message_id"], "seq": 1,
        "received_at": 5, "duplicate": true,
    }))
    .await;
    let mut changes = client.changes();
    while client.waiting() > 0 {
        timeout(PATIENCE, changes.changed()).await.unwrap().unwrap();
    }
    client.stop().await;
}

/// The server may have stored the message. Resending the same id is safe.
#[tokio::test]
async fn message_is_resent_after_no_answer_from_the_store() {
    let (script, server) = Scripted::start().await;
    let client = client(server, MemoryStorage::default()).await;
    let mut peer = script.next().await;
    peer.welcome(1).await;
    let item = client.conversation(direct()).send("Lunch?").await.unwrap();
    let first = peer.hear().await;
    let id = &first["message_id"];
    peer.say(json!({"type": "error", "code": "store_unavailable", "message": "later", "message_id": id}))
        .await;
    let again = peer.hear().await;
    assert_eq!((&again["message_id"], &again["retry"]), (id, &json!(true)));
    assert!(
        client.conversation(direct()).cancel(&item.message_id).await.is_err(),
        "the server may have stored it"
    );
    client.stop().await;
}

#[tokio::test]
async fn void_is_hidden_and_acknowledged() {
    let (script, server) = Scripted::start().await;
    let client = client(server, MemoryStorage::default()).await;
    let mut peer = script.next().await;
    peer.welcome(1).await;
    for (seq, sender, content_type) in [(1, "bob", "text"), (2, "void", "void")] {
        peer.say(json!({
            "type": "message", "conversation_id": direct().to_string(), "seq": seq, "message_id": format!("m{seq}"),
            "sender_id": sender, "receiver_id": null, "content": "", "content_type": content_type, "timestamp": 1,
            "received_at": 1,
        }))
        .await;
    }
    assert_eq!(peer.hear().await["seq"], 2);
    let view = client.conversation(direct()).view();
    assert_eq!((view.messages.len(), view.window.to_seq.get()), (1, 2));
    client.stop().await;
}

#[tokio::test]
async fn error_without_a_subject_applies_to_messages_in_flight() {
    let (script, server) = Scripted::start().await;
    let client = client(server, MemoryStorage::default()).await;
    let mut peer = script.next().await;
    peer.welcome(1).await;
    client.conversation(direct()).send("Lunch?").await.unwrap();
    let first = peer.hear().await;
    peer.say(json!({"type": "error", "code": "overloaded", "message": "later"})).await;
    let again = peer.hear().await;
    assert_eq!(again["message_id"], first["message_id"], "after a pause it is tried again");
    peer.say(json!({"type": "error", "code": "invalid_frame", "message": "no"})).await;
    let mut changes = client.changes();
    while !matches!(client.conversation(direct()).view().waiting[0].1, bluetick_client::SendState::Failed(_))
    {
        timeout(PATIENCE, changes.changed()).await.unwrap().unwrap();
    }
    client.stop().await;
}

/// A token source that returns another token after a refusal.
struct Renewed;

#[async_trait]
impl TokenSource for Renewed {
    async fn token(&self, refused: Option<&str>) -> Result<String, NoToken> {
        match refused {
            None => Ok("t1".into()),
            Some("t1") => Ok("t2".into()),
            Some(_) => Err(NoToken::Never),
        }
    }
}

#[tokio::test]
async fn refused_token_is_renewed_once_then_the_user_is_logged_out() {
    let (script, server) = Scripted::start().await;
    let client =
        Client::start(ClientSettings::new(server, user("alice"), Renewed), MemoryStorage::default()).await;
    let client = client.unwrap();
    let mut events = client.events();
    let mut peer = script.next().await;
    assert_eq!(peer.hear().await["token"], "t1");
    peer.close(4403).await;
    let mut peer = script.next().await;
    assert_eq!(peer.hear().await["token"], "t2");
    peer.close(4401).await;
    let event = timeout(PATIENCE, events.recv()).await.unwrap().unwrap();
    assert!(matches!(event, Event::LoggedOut), "{event:?}");
    assert_eq!(client.connection().phase, Phase::LoggedOut);
    client.stop().await;
}

/// A token source that returns t1, t2, t3 and so on, and fails every second time.
#[derive(Default)]
struct FlakyTokenSource {
    asked: std::sync::atomic::AtomicUsize,
}

#[async_trait]
impl TokenSource for FlakyTokenSource {
    async fn token(&self, _: Option<&str>) -> Result<String, NoToken> {
        let asked = self.asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if asked.is_multiple_of(2) { Err(NoToken::Later) } else { Ok(format!("t{}", asked / 2 + 1)) }
    }
}

#[tokio::test]
async fn user_with_a_renewable_token_stays_logged_in() {
    let (script, server) = Scripted::start().await;
    let mut settings = ClientSettings::new(server, user("alice"), FlakyTokenSource::default());
    settings.reconnect.first_pause = Duration::from_millis(10);
    let client = Client::start(settings, MemoryStorage::default()).await.unwrap();
    let mut events = client.events();
    let mut peer = script.next().await;
    assert_eq!(peer.hear().await["token"], "t1");
    peer.close(4403).await;
    // The source returns the second token, and the network fails before the server answers.
    let mut peer = script.next().await;
    assert_eq!(peer.hear().await["token"], "t2");
    drop(peer);
    let mut peer = script.next().await;
    assert_eq!(peer.hear().await["token"], "t2");
    peer.close(4403).await;
    let mut peer = script.next().await;
    assert_eq!(peer.welcome(1).await["token"], "t3");
    peer.close(4403).await;
    let mut peer = script.next().await;
    assert_eq!(peer.welcome(1).await["token"], "t4");
    assert!(events.try_recv().is_err(), "no event was published");
    client.stop().await;
}

#[tokio::test]
async fn token_of_another_user_ends_the_client_with_an_error() {
    let (script, server) = Scripted::start().await;
    let settings = ClientSettings::new(server, user("bob"), FixedToken("of alice".into()));
    let client = Client::start(settings, MemoryStorage::default()).await.unwrap();
    let mut events = client.events();
    script.next().await.welcome(1).await;
    let event = timeout(PATIENCE, events.recv()).await.unwrap().unwrap();
    assert!(matches!(&event, Event::OtherUser(other) if *other == user("alice")), "{event:?}");
    assert_eq!(client.connection().phase, Phase::OtherUser);
    assert!(matches!(client.me().await, Err(ApiError::LoggedOut)), "no request uses the other user's token");
    client.stop().await;
}

#[tokio::test]
async fn rate_limited_receipt_is_sent_again_later() {
    let (script, server) = Scripted::start().await;
    let client = client(server, MemoryStorage::default()).await;
    let mut peer = script.next().await;
    peer.welcome(1).await;
    peer.say(json!({
        "type": "message", "conversation_id": direct().to_string(), "seq": 1, "message_id": "m1",
        "sender_id": "bob", "content": "Lunch?", "content_type": "text", "timestamp": 5, "received_at": 5,
    }))
    .await;
    for _ in 0..2 {
        let mark = peer.hear().await;
        assert_eq!((&mark["type"], &mark["seq"]), (&json!("delivered"), &json!(1)));
        let id = &mark["conversation_id"];
        peer.say(json!({"type": "error", "code": "rate_limited", "message": "later", "conversation_id": id}))
            .await;
    }
    assert_eq!(peer.hear().await["type"], "delivered");
    client.stop().await;
}

/// A storage that refuses every write.
struct FullStorage;

impl Storage for FullStorage {
    fn load(&mut self) -> Result<Vec<(String, String)>, StorageError> {
        Ok(Vec::new())
    }

    fn apply(&mut self, _: &[Change]) -> Result<(), StorageError> {
        Err(StorageError::Io { place: "the disk".into(), error: std::io::Error::other("full") })
    }
}

#[tokio::test]
async fn storage_failure_is_reported_once_and_the_chat_continues() {
    let (script, server) = Scripted::start().await;
    let client = client(server, FullStorage).await;
    let mut events = client.events();
    let mut peer = script.next().await;
    peer.welcome(1).await;
    for text in ["one", "two"] {
        client.conversation(direct()).send(text).await.unwrap();
        let frame = loop {
            let frame = peer.hear().await;
            if frame["type"] == "send" {
                break frame;
            }
        };
        assert_eq!(frame["content"], text);
        peer.say(json!({
            "type": "ack", "conversation_id": direct().to_string(), "message_id": frame["message_id"],
            "seq": if text == "one" { 1 } else { 2 }, "received_at": 5, "duplicate": false,
        }))
        .await;
    }
    let event = timeout(PATIENCE, events.recv()).await.unwrap().unwrap();
    assert!(matches!(&event, Event::Trouble(text) if text.contains("full")), "{event:?}");
    client.stop().await;
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn tls_server_with_known_certificate_is_used_and_an_unknown_one_is_refused() {
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::rustls::ServerConfig;
    use tokio_rustls::rustls::crypto::ring;
    use tokio_rustls::rustls::pki_types::PrivateKeyDer;

    let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let serving = async {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            // A client that does not trust the certificate disconnects.
            let Ok(stream) = acceptor.accept(stream).await else { continue };
            let Ok(socket) = tokio_tungstenite::accept_async(stream).await else { continue };
            return Peer(socket).welcome(1).await;
        }
    };
    let stranger = client(Server::new(url.parse().unwrap()).unwrap(), MemoryStorage::default()).await;
    let trusting = Server::trusting(url.parse().unwrap(), certified.cert.pem().as_bytes()).unwrap();
    let friend = client(trusting, MemoryStorage::default()).await;
    let hello = timeout(PATIENCE, serving).await.unwrap();
    assert_eq!(hello["token"], "t1");
    assert_ne!(stranger.connection().phase, Phase::Online);
    stranger.stop().await;
    friend.stop().await;
}
