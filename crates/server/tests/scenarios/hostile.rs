//! Shared code of the tests with hostile clients: two users who exchange messages during an attack,
//! and raw sockets. docs/explanation/security.md lists the expected result of each attack.

use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::harness::{Device, TIMEOUT, World};

/// Two users who are not part of the attack.
pub struct HonestUsers {
    phone: Device,
    laptop: Device,
    chat: String,
    sent: u64,
}

impl HonestUsers {
    pub async fn pair(world: &World) -> HonestUsers {
        let [alice, bob] = world.people(["honest-alice", "honest-bob"]);
        let chat = alice.direct("honest-bob").await;
        let (phone, laptop) = (alice.connect().await, bob.connect().await);
        HonestUsers { phone, laptop, chat, sent: 0 }
    }

    /// Sends one message and checks its ack and its delivery.
    pub async fn exchange_message(&mut self) {
        self.sent += 1;
        let content = format!("message {}", self.sent);
        self.phone.send(&self.chat, &format!("honest-{}", self.sent), &content).await;
        assert_eq!(self.phone.receive_type("ack").await["seq"], self.sent);
        assert_eq!(self.laptop.receive_type("message").await["content"], content.as_str());
    }

    /// Exchanges messages during the attack, and once after it.
    pub async fn chat_during<T>(&mut self, attack: impl Future<Output = T>) -> T {
        let over = Cell::new(false);
        let attack = async {
            let result = attack.await;
            over.set(true);
            result
        };
        let exchange_message = async {
            while !over.get() {
                self.exchange_message().await;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            self.exchange_message().await;
        };
        tokio::join!(attack, exchange_message).0
    }
}

/// A TCP socket that sends arbitrary bytes.
pub struct RawSocket(pub TcpStream);

impl RawSocket {
    pub async fn connect(addr: SocketAddr) -> RawSocket {
        let stream = TcpStream::connect(addr).await.unwrap();
        stream.set_nodelay(true).unwrap();
        RawSocket(stream)
    }

    /// Connects from 127.0.0.`last`.
    pub async fn connect_from(last: u8, addr: SocketAddr) -> std::io::Result<RawSocket> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((Ipv4Addr::new(127, 0, 0, last), 0).into())?;
        socket.connect(addr).await.map(RawSocket)
    }

    /// Opens a WebSocket without a client library.
    pub async fn websocket(addr: SocketAddr) -> RawSocket {
        let mut raw = RawSocket::connect(addr).await;
        raw.write(upgrade_request(addr, "").as_bytes()).await;
        let head = raw.head().await;
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        raw
    }

    /// Opens a WebSocket, sends `hello` and reads up to `caught_up`.
    pub async fn authenticated(addr: SocketAddr, token: &str) -> RawSocket {
        let mut raw = RawSocket::websocket(addr).await;
        let hello = format!(r#"{{"type":"hello","token":"{token}"}}"#);
        raw.write(&frame(TEXT, hello.as_bytes())).await;
        while !raw.frame().await.1.ends_with(br#"{"type":"caught_up"}"#) {}
        raw
    }

    pub async fn write(&mut self, bytes: &[u8]) {
        timeout(TIMEOUT, self.0.write_all(bytes)).await.expect("the server reads").unwrap();
    }

    /// Writes until the server stops reading. Returns whether everything was written.
    pub async fn write_until_closed(&mut self, bytes: &[u8]) -> bool {
        timeout(TIMEOUT, self.0.write_all(bytes)).await.is_ok_and(|written| written.is_ok())
    }

    /// Reads the head of a response.
    pub async fn head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(timeout(TIMEOUT, self.0.read_u8()).await.expect("the server answers").unwrap());
        }
        String::from_utf8(head).unwrap()
    }

    /// Reads the next frame of the server. Returns its first byte and its payload.
    pub async fn frame(&mut self) -> (u8, Vec<u8>) {
        let reading = async {
            let first = self.0.read_u8().await?;
            let length = match self.0.read_u8().await? {
                126 => u64::from(self.0.read_u16().await?),
                127 => self.0.read_u64().await?,
                short => u64::from(short),
            };
            let mut payload = vec![0; usize::try_from(length).unwrap()];
            self.0.read_exact(&mut payload).await?;
            std::io::Result::Ok((first, payload))
        };
        timeout(TIMEOUT, reading).await.expect("the server answers in time").unwrap()
    }

    /// Reads up to the close frame. Returns its code.
    pub async fn close_code(&mut self) -> u16 {
        loop {
            let (first, payload) = self.frame().await;
            if first == FIN | CLOSE {
                return u16::from_be_bytes([payload[0], payload[1]]);
            }
        }
    }

    /// Reads up to the end of the connection, which may be a reset.
    pub async fn rest(&mut self) -> String {
        let mut rest = Vec::new();
        let ended =
            timeout(TIMEOUT, self.0.read_to_end(&mut rest)).await.expect("the server closes the connection");
        if let Err(error) = ended {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
        }
        String::from_utf8_lossy(&rest).into_owned()
    }
}

pub fn upgrade_request(addr: SocketAddr, more: &str) -> String {
    format!(
        "GET /v1/ws HTTP/1.1\r\nHost: {addr}\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n{more}\r\n"
    )
}

pub const FIN: u8 = 0x80;
/// The header bit of a compressed frame (RSV1).
pub const COMPRESSED: u8 = 0x40;
pub const CONTINUED: u8 = 0;
pub const TEXT: u8 = FIN | 1;
pub const CLOSE: u8 = 8;
pub const PING: u8 = FIN | 9;
const MASKED: u8 = 0x80;

/// Encodes a masked frame with a mask of zeros.
pub fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = header(first, payload.len() as u64);
    bytes.extend(payload);
    bytes
}

/// Encodes the header of a masked frame.
pub fn header(first: u8, length: u64) -> Vec<u8> {
    let mut bytes = vec![first];
    match length {
        0..126 => bytes.push(MASKED | length as u8),
        126..65_536 => {
            bytes.push(MASKED | 126);
            bytes.extend((length as u16).to_be_bytes());
        }
        _ => {
            bytes.push(MASKED | 127);
            bytes.extend(length.to_be_bytes());
        }
    }
    bytes.extend([0; 4]);
    bytes
}

/// Each row of the attack table has a test, and each test of the attack files has a row.
#[test]
fn attack_table_and_hostile_tests_name_each_other() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| {
        std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    let table = read("docs/explanation/security.md");
    let mut named = Vec::new();
    for row in table.lines().filter(|row| row.starts_with("| ") && row.contains(".rs`")) {
        let mut file = String::new();
        for word in row.rsplit("| ").next().unwrap().split('`').skip(1).step_by(2) {
            match word.ends_with(".rs") {
                true if word.contains('/') => file = read(word),
                true => file = read(&format!("crates/server/tests/scenarios/{word}")),
                false if word.contains('_') => {
                    assert!(file.contains(&format!("fn {word}(")), "the table does not name {word}");
                    named.push(word);
                }
                false => {}
            }
        }
    }
    assert!(named.len() > 40, "the attack table could not be parsed");
    for file in ["frames", "load", "requests", "slow", "tokens_and_paths"] {
        let tests = read(&format!("crates/server/tests/scenarios/hostile_{file}.rs"));
        for test in tests.split("#[tokio::test").skip(1) {
            let name = test.split("async fn ").nth(1).and_then(|rest| rest.split('(').next()).unwrap();
            assert!(named.contains(&name), "{name} has no row in docs/explanation/security.md");
        }
    }
}
