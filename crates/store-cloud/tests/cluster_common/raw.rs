//! The protocol of the cluster, written a second time, for tests that break it.

use std::net::SocketAddr;

use bluetick_store_cloud::NodeId;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::hmac;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub const CALL: u8 = 1;
pub const NOTIFY: u8 = 2;
pub const PING: u8 = 4;

/// Puts the length in front of a message of the handshake.
pub fn framed(message: &[u8]) -> Vec<u8> {
    let length = u16::try_from(message.len()).unwrap().to_be_bytes();
    [&length, message].concat()
}

/// The nonce, the boot id and the id of a node.
pub fn introduction(node: &str) -> Vec<u8> {
    [&[1; 32][..], &[2; 16], &framed(node.as_bytes())].concat()
}

pub fn hello(from: &str, to: &str) -> Vec<u8> {
    [b"bluetick cluster 1", &introduction(from)[..], &framed(to.as_bytes())].concat()
}

pub fn tag(key: &[u8; 32], label: &str, hello: &[u8], challenge: &[u8]) -> Vec<u8> {
    let message =
        [b"bluetick cluster 1 ", label.as_bytes(), b"\0", &framed(hello), &framed(challenge)].concat();
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), &message).as_ref().to_vec()
}

pub async fn receive(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut message = vec![0; stream.read_u16().await?.into()];
    stream.read_exact(&mut message).await?;
    Ok(message)
}

/// Returns whether the other side ends the connection. Ignores what it sends before.
pub async fn is_ended(stream: &mut TcpStream) -> bool {
    let end = async {
        let mut buffer = vec![0; 64 * 1024];
        while !matches!(stream.read(&mut buffer).await, Ok(0) | Err(_)) {}
    };
    tokio::time::timeout(super::PATIENCE, end).await.is_ok()
}

/// An authenticated client.
pub struct RawClient {
    pub stream: TcpStream,
    key: LessSafeKey,
    next: u64,
}

impl RawClient {
    pub async fn connect(address: SocketAddr, from: &str, to: &NodeId, key: &[u8; 32]) -> RawClient {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let hello = hello(from, to.as_str());
        stream.write_all(&framed(&hello)).await.unwrap();
        let challenge = receive(&mut stream).await.unwrap();
        let proof = tag(key, "client proof", &hello, &challenge);
        stream.write_all(&framed(&proof)).await.unwrap();
        assert_eq!(receive(&mut stream).await.unwrap(), tag(key, "server proof", &hello, &challenge));
        let key = tag(key, "client frames", &hello, &challenge);
        let key = LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, &key).unwrap());
        RawClient { stream, key, next: 0 }
    }

    pub fn seal(&mut self, kind: u8, id: u64, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 25).unwrap().to_be_bytes();
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&self.next.to_be_bytes());
        self.next += 1;
        let mut content = [&[kind][..], &id.to_be_bytes(), body].concat();
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.key.seal_in_place_append_tag(nonce, Aad::from(length), &mut content).unwrap();
        [&length[..], &content].concat()
    }

    pub async fn send(&mut self, kind: u8, id: u64, body: &[u8]) -> std::io::Result<()> {
        let frame = self.seal(kind, id, body);
        self.stream.write_all(&frame).await
    }
}
