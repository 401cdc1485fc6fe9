//! Test harness: starts a server, and provides users who call it and connect devices.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bluetick_auth::{AdminKey, AdminSettings, AuthSettings, PasswordRules, Passwords, Tokens};
use bluetick_core::names::ReservedNames;
use bluetick_core::ports::{Archive, Fleet, NoFleet, Store, SystemRandom};
use bluetick_core::time::{Clock, SystemClock};
use bluetick_server::audit::Trail;
use bluetick_server::{
    ArchiveSchedule, ChatServer, Hub, LimitSettings, Metrics, NoArchive, ServerParts, ServerSettings,
};
use bluetick_store_memory::MemoryStore;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{self, Message};

/// Bounds every wait of these tests. A correct server answers sooner, also on a busy machine. Under
/// a flood of log-ins it hashes passwords at idle priority, so an answer can take half a minute
/// there.
pub const TIMEOUT: Duration = Duration::from_secs(120);

pub const ADMIN_KEY: &str = "an-admin-key-for-tests";

pub struct World {
    server: Option<ChatServer>,
    pub addr: SocketAddr,
    pub store: Arc<dyn Store>,
    tokens: Arc<Tokens>,
    clock: Arc<dyn Clock>,
    _data_dir: tempfile::TempDir,
}

pub struct Setup {
    pub settings: ServerSettings,
    pub limits: LimitSettings,
    /// Sign-up is closed by default: while it is open, conversations accept only known users.
    pub signup: bool,
    pub reserved_names: ReservedNames,
    pub auth: AuthSettings,
    pub clock: Arc<dyn Clock>,
    pub store: Box<dyn FnOnce(Arc<Hub>) -> Arc<dyn Store>>,
    pub archive: Arc<dyn Archive>,
    pub archive_schedule: ArchiveSchedule,
    pub fleet: Arc<dyn Fleet>,
    pub audit: Arc<Trail>,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            settings: ServerSettings { listen: "127.0.0.1:0".into(), ..ServerSettings::default() },
            limits: limits_for_one_address(),
            signup: false,
            reserved_names: ReservedNames::default(),
            auth: AuthSettings::default(),
            clock: Arc::new(SystemClock),
            store: Box::new(|hub| Arc::new(MemoryStore::with_listener(hub))),
            archive: Arc::new(NoArchive),
            archive_schedule: ArchiveSchedule::default(),
            fleet: Arc::new(NoFleet),
            audit: Arc::new(Trail::off()),
        }
    }
}

/// All clients of a test connect from one address, so address limits are off by default.
fn limits_for_one_address() -> LimitSettings {
    LimitSettings {
        connections_per_address: 0,
        connects_per_address_per_second: 0,
        logins_per_address_per_minute: 0,
        ..LimitSettings::default()
    }
}

impl Setup {
    pub fn limits(change: impl FnOnce(&mut LimitSettings)) -> Setup {
        let mut setup = Setup::default();
        change(&mut setup.limits);
        setup
    }

    /// Opens sign-up.
    pub fn open() -> Setup {
        Setup { signup: true, ..Setup::default() }
    }

    pub async fn start(self) -> World {
        let (unstarted, parts) = self.parts();
        let server = ChatServer::start(parts).await.unwrap();
        World { addr: server.local_addr(), server: Some(server), ..unstarted }
    }

    /// A server that only [`ChatServer::connect_in_memory`] reaches.
    pub fn start_without_listener(self) -> World {
        let (unstarted, parts) = self.parts();
        World { server: Some(ChatServer::start_without_listener(parts)), ..unstarted }
    }

    fn parts(self) -> (World, ServerParts) {
        let data_dir = tempfile::tempdir().unwrap();
        let metrics = Metrics::new();
        let hub = Hub::new(Arc::clone(&metrics));
        let store = (self.store)(Arc::clone(&hub));
        let auth = self.auth;
        let admin = AdminSettings { key: Some(ADMIN_KEY.into()) };
        let tokens = Arc::new(Tokens::open(&auth, data_dir.path(), &SystemRandom).unwrap());
        let parts = ServerParts {
            settings: self.settings,
            limits: self.limits,
            signup: self.signup,
            reserved_names: self.reserved_names,
            token_ttl: Duration::from_secs(3600),
            max_token_ttl: Duration::from_secs(24 * 3600),
            store: Arc::clone(&store),
            archive: self.archive,
            archive_schedule: self.archive_schedule,
            fleet: self.fleet,
            hub,
            metrics,
            tokens: Arc::clone(&tokens),
            passwords: Arc::new(Passwords::new(Arc::new(SystemRandom), PasswordRules::default())),
            audit: self.audit,
            admin_key: Arc::new(AdminKey::open(&admin, data_dir.path(), &SystemRandom).unwrap()),
            clock: Arc::clone(&self.clock),
            random: Arc::new(SystemRandom),
        };
        let addr = SocketAddr::from(([0, 0, 0, 0], 0));
        (World { server: None, addr, store, tokens, clock: self.clock, _data_dir: data_dir }, parts)
    }
}

impl World {
    pub async fn new() -> World {
        Setup::default().start().await
    }

    /// With sign-up open.
    pub async fn open() -> World {
        Setup::open().start().await
    }

    pub fn person(&self, name: &str) -> Person {
        self.person_for(name, Duration::from_secs(3600))
    }

    /// A user whose token expires after `ttl`.
    pub fn person_for(&self, name: &str, ttl: Duration) -> Person {
        let mint = {
            let (tokens, clock) = (Arc::clone(&self.tokens), Arc::clone(&self.clock));
            move |name: &str, ttl| tokens.mint(&name.parse().unwrap(), ttl, clock.now()).unwrap().token
        };
        Person { name: name.into(), token: mint(name, ttl), addr: self.addr, mint: Arc::new(mint) }
    }

    pub fn people<const N: usize>(&self, names: [&str; N]) -> [Person; N] {
        names.map(|name| self.person(name))
    }

    pub fn server(&self) -> &ChatServer {
        self.server.as_ref().unwrap()
    }

    pub fn take_server(&mut self) -> ChatServer {
        self.server.take().unwrap()
    }

    pub async fn call(&self, method: &str, path: &str, token: Option<&str>, body: Option<Value>) -> Reply {
        call(self.addr, method, path, token, body.map(|body| body.to_string()).as_deref()).await
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.call("GET", path, None, None).await
    }
}

type MintToken = dyn Fn(&str, Duration) -> String + Send + Sync;

#[derive(Clone)]
pub struct Person {
    pub name: String,
    pub token: String,
    pub addr: SocketAddr,
    mint: Arc<MintToken>,
}

impl Person {
    pub async fn call(&self, method: &str, path: &str, body: Option<Value>) -> Reply {
        call(self.addr, method, path, Some(&self.token), body.map(|body| body.to_string()).as_deref()).await
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.call("GET", path, None).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Reply {
        self.call("POST", path, Some(body)).await
    }

    pub async fn direct(&self, peer: &str) -> String {
        let reply = self.post("/v1/conversations", json!({"kind": "direct", "peer": peer})).await;
        reply.json()["conversation_id"].as_str().unwrap().to_string()
    }

    /// A direct conversation that both inboxes list: its first message is stored at seq 1.
    pub async fn direct_with_message(&self, peer: &str) -> String {
        let id = self.direct(peer).await;
        assert_eq!(self.send(&id, "first", "hello").await.json()["seq"], 1);
        id
    }

    pub async fn group(&self, members: &[&str]) -> String {
        let body = json!({"kind": "group", "title": "Lunch", "members": members});
        let reply = self.post("/v1/conversations", body).await;
        assert_eq!(reply.status, 201, "{}", reply.text());
        reply.json()["conversation_id"].as_str().unwrap().to_string()
    }

    /// Sends over HTTP.
    pub async fn send(&self, conversation: &str, message_id: &str, content: &str) -> Reply {
        let body = json!({"message_id": message_id, "content": content});
        self.post(&format!("/v1/conversations/{conversation}/messages"), body).await
    }

    pub async fn history(&self, conversation: &str, query: &str) -> Reply {
        self.get(&format!("/v1/conversations/{conversation}/messages{query}")).await
    }

    pub async fn add(&self, conversation: &str, members: &[&str]) -> Reply {
        self.post(&format!("/v1/conversations/{conversation}/members"), json!({"members": members})).await
    }

    pub async fn remove(&self, conversation: &str, user: &str) -> Reply {
        self.call("DELETE", &format!("/v1/conversations/{conversation}/members/{user}"), None).await
    }

    /// Connects after everything committed before has been delivered, so that none of it arrives
    /// late.
    pub async fn connect(&self) -> Device {
        self.wait_for_delivery().await;
        self.connect_now().await
    }

    /// Returns when everything committed before is in the outboxes of the connected devices. An
    /// extra user sends a message, and its ack passes the same fan-out.
    pub async fn wait_for_delivery(&self) {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("settler{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let settler = Person { token: (self.mint)(&name, Duration::from_secs(60)), name, ..self.clone() };
        let direct = settler.post("/v1/conversations", json!({"kind": "direct", "peer": "nobody"})).await;
        // While sign-up is open, conversations accept only known users. A group begins with a
        // notice, which a test that holds pages back would not deliver.
        let chat = match direct.status {
            404 => settler.group(&[]).await,
            _ => direct.json()["conversation_id"].as_str().unwrap().to_string(),
        };
        let mut device = settler.connect_now().await;
        device.send(&chat, "m", "settled").await;
        device.receive_type("ack").await;
    }

    /// Connects, sends `hello` and reads up to `caught_up`.
    pub async fn connect_now(&self) -> Device {
        self.connect_at(json!({})).await
    }

    /// Connects with the positions of the device and reads up to `caught_up`.
    pub async fn connect_at(&self, positions: Value) -> Device {
        let mut device = self.send_hello(positions).await;
        loop {
            let frame = device.receive_any().await;
            if frame == json!({"type": "caught_up"}) {
                return device;
            }
            device.backlog.push(frame);
        }
    }

    /// Sends `hello` and reads the welcome.
    pub async fn send_hello(&self, positions: Value) -> Device {
        self.send_hello_on(Device::open(self.addr).await, positions).await
    }

    /// Like `send_hello`, on an open socket over any stream.
    pub async fn send_hello_on<S: ByteStream>(&self, mut device: Device<S>, positions: Value) -> Device<S> {
        device.send_json(json!({"type": "hello", "token": self.token, "positions": positions})).await;
        let welcome = device.receive_any().await;
        assert_eq!(
            (welcome["type"].as_str(), welcome["user_id"].as_str()),
            (Some("welcome"), Some(&*self.name))
        );
        device
    }
}

/// One WebSocket.
pub struct Device<S = TcpStream> {
    pub socket: WebSocketStream<S>,
    /// The frames between `welcome` and `caught_up`.
    pub backlog: Vec<Value>,
}

/// Frame types that accompany messages. `receive` and `receive_type` skip them.
const BACKGROUND_TYPES: [&str; 5] = ["status", "receipts", "typing", "presence", "conversation"];

/// A stream that a WebSocket can use.
pub trait ByteStream: AsyncRead + AsyncWrite + Unpin {}
impl<S: AsyncRead + AsyncWrite + Unpin> ByteStream for S {}

impl Device {
    pub async fn open(addr: SocketAddr) -> Device {
        Device::try_open(addr, None).await.unwrap()
    }

    pub async fn try_open(addr: SocketAddr, origin: Option<&str>) -> Result<Device, u16> {
        let stream = TcpStream::connect(addr).await.unwrap();
        let mut request = format!("ws://{addr}/v1/ws").into_client_request().unwrap();
        if let Some(origin) = origin {
            request.headers_mut().insert("origin", origin.parse().unwrap());
        }
        match tokio_tungstenite::client_async(request, stream).await {
            Ok((socket, _)) => Ok(Device { socket, backlog: Vec::new() }),
            Err(tungstenite::Error::Http(response)) => Err(response.status().as_u16()),
            Err(error) => panic!("the handshake failed: {error}"),
        }
    }
}

impl<S: ByteStream> Device<S> {
    /// Opens a WebSocket over a connected stream.
    pub async fn open_on(stream: S) -> Device<S> {
        let (socket, _) = tokio_tungstenite::client_async("ws://localhost/v1/ws", stream).await.unwrap();
        Device { socket, backlog: Vec::new() }
    }

    pub async fn send_json(&mut self, frame: Value) {
        self.send_raw(Message::text(frame.to_string())).await;
    }

    pub async fn send_raw(&mut self, message: Message) {
        timeout(TIMEOUT, self.socket.send(message)).await.expect("the server reads").unwrap();
    }

    pub async fn send(&mut self, conversation: &str, message_id: &str, content: &str) {
        self.send_json(send_frame(conversation, message_id, content)).await;
    }

    pub async fn send_receipt(&mut self, kind: &str, conversation: &str, seq: u64) {
        self.send_json(json!({"type": kind, "conversation_id": conversation, "seq": seq})).await;
    }

    /// Returns the next frame of any type.
    pub async fn receive_any(&mut self) -> Value {
        loop {
            match self.receive_raw().await {
                Some(Ok(Message::Text(text))) => return serde_json::from_str(&text).unwrap(),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                other => panic!("a frame was expected, not {other:?}"),
            }
        }
    }

    /// Returns the next frame that is not in `BACKGROUND_TYPES`.
    pub async fn receive(&mut self) -> Value {
        loop {
            let frame = self.receive_any().await;
            if !BACKGROUND_TYPES.iter().any(|kind| frame["type"] == *kind) {
                return frame;
            }
        }
    }

    pub async fn receive_raw(&mut self) -> Option<Result<Message, tungstenite::Error>> {
        timeout(TIMEOUT, self.socket.next()).await.expect("the server answers in time")
    }

    /// Returns the next frame of this type. Fails if another frame outside `BACKGROUND_TYPES` is
    /// first.
    pub async fn receive_type(&mut self, kind: &str) -> Value {
        loop {
            let frame = self.receive_any().await;
            if frame["type"] == kind {
                return frame;
            }
            assert!(BACKGROUND_TYPES.iter().any(|other| frame["type"] == *other), "not a {kind}: {frame}");
        }
    }

    pub async fn receive_error(&mut self, code: &str) -> Value {
        let frame = self.receive_type("error").await;
        assert_eq!(frame["code"], code, "{frame}");
        frame
    }

    /// Fails if a frame is in delivery: it would arrive before the answer to a ping.
    pub async fn receives_nothing(&mut self) {
        self.send_json(json!({"type": "ping"})).await;
        assert_eq!(self.receive().await, json!({"type": "pong"}));
    }

    /// Returns the frames up to the answer to a ping.
    pub async fn received_so_far(&mut self) -> Vec<Value> {
        self.send_json(json!({"type": "ping"})).await;
        let mut frames = Vec::new();
        loop {
            match self.receive_any().await {
                pong if pong == json!({"type": "pong"}) => return frames,
                frame => frames.push(frame),
            }
        }
    }

    /// Reads up to the end and returns the close code and its reason.
    pub async fn closed_with(&mut self) -> (u16, String) {
        loop {
            match self.receive_raw().await {
                Some(Ok(Message::Close(Some(frame)))) => {
                    // The client's own close frame goes out with the next read.
                    let _ = self.receive_raw().await;
                    return (frame.code.into(), frame.reason.to_string());
                }
                Some(Ok(_)) => {}
                other => panic!("a close frame was expected, not {other:?}"),
            }
        }
    }
}

pub fn send_frame(conversation: &str, message_id: &str, content: &str) -> Value {
    json!({"type": "send", "conversation_id": conversation, "message_id": message_id, "content": content})
}

#[derive(Clone, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{} {}", self.status, self.text()))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Fails unless the response is this error. Returns its message.
    #[track_caller]
    pub fn refused(&self, status: u16, code: &str) -> String {
        let body = self.json();
        assert_eq!((self.status, body["error"]["code"].as_str()), (status, Some(code)), "{body}");
        assert_eq!(body.as_object().unwrap().len(), 1);
        body["error"]["message"].as_str().unwrap().to_string()
    }

    pub fn seqs(&self) -> Vec<u64> {
        let body = self.json();
        body["messages"].as_array().unwrap().iter().map(|message| message["seq"].as_u64().unwrap()).collect()
    }
}

/// Makes one call on a new connection.
pub async fn call(
    addr: SocketAddr,
    method: &str,
    path: &str,
    token: Option<&str>,
    body: Option<&str>,
) -> Reply {
    let body = body.unwrap_or_default();
    let mut request = format!("{method} {path} HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n");
    if let Some(token) = token {
        request += &format!("Authorization: Bearer {token}\r\n");
    }
    request += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
    raw_call(addr, request.as_bytes()).await
}

pub async fn raw_call(addr: SocketAddr, request: &[u8]) -> Reply {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    timeout(TIMEOUT, stream.read_to_end(&mut answer)).await.expect("the server answers in time").unwrap();
    parse(&answer)
}

fn parse(answer: &[u8]) -> Reply {
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a whole answer");
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_string()))
        .collect();
    Reply { status, headers, body: answer[end + 4..].to_vec() }
}
