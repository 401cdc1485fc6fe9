//! Frames on an authenticated connection: their layout, encryption and bounds.
//!
//! A frame is its length (4 bytes, big-endian) and its sealed content: kind (1 byte), request id (8
//! bytes), body. ChaCha20-Poly1305 seals each direction under its own key, with the number of the
//! frame as the nonce and the length as associated data. So a frame that is changed, repeated,
//! reordered, removed or reflected does not open, and the connection ends.

use std::convert::Infallible;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::cluster::queue::Queued;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    // From the node that opened the connection.
    Call = 1,
    Notify = 2,
    /// Notifications were discarded before this frame.
    Missed = 3,
    Ping = 4,
    // From the node that accepted the connection.
    Answer = 5,
    Refused = 6,
    Pong = 7,
}

impl FrameKind {
    const ALL: [FrameKind; 7] = [
        FrameKind::Call,
        FrameKind::Notify,
        FrameKind::Missed,
        FrameKind::Ping,
        FrameKind::Answer,
        FrameKind::Refused,
        FrameKind::Pong,
    ];
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BusFrame {
    pub kind: FrameKind,
    /// Connects an answer to its call. 0 for other frames.
    pub id: u64,
    pub body: Bytes,
}

impl BusFrame {
    pub fn empty(kind: FrameKind) -> BusFrame {
        BusFrame { kind, id: 0, body: Bytes::new() }
    }
}

impl Queued for BusFrame {
    fn body(&self) -> &Bytes {
        &self.body
    }
}

/// Why a connection ended.
#[derive(Debug, Error)]
pub(super) enum ConnectionError {
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error("the other node was silent for too long")]
    Silent,
    #[error("the other node does not read")]
    NotReading,
    #[error("the handshake failed: {0}")]
    Handshake(&'static str),
    #[error("a frame is invalid: {0}")]
    Frame(&'static str),
}

/// The bytes of kind and request id.
const HEADER: usize = 9;
const TAG: usize = 16;

/// The bytes that a frame adds to its body, apart from the length.
pub(super) const OVERHEAD: usize = HEADER + TAG;

/// Upper bound on the bytes of the frames that are written together, unless one frame is larger.
pub(super) const BATCH_BYTES: usize = 64 * 1024;

/// One direction of a connection: its key and the number of the next frame.
pub(super) struct FrameCipher {
    key: LessSafeKey,
    next: u64,
}

impl FrameCipher {
    /// The key must be of this connection and direction only.
    pub fn new(key: &[u8; 32]) -> FrameCipher {
        let key = UnboundKey::new(&CHACHA20_POLY1305, key).expect("the key has 32 bytes");
        FrameCipher { key: LessSafeKey::new(key), next: 0 }
    }

    fn nonce(&mut self) -> Nonce {
        let mut bytes = [0; NONCE_LEN];
        bytes[4..].copy_from_slice(&self.next.to_be_bytes());
        self.next = self.next.checked_add(1).expect("no connection carries 2^64 frames");
        Nonce::assume_unique_for_key(bytes)
    }

    /// Appends a sealed frame. The caller has checked the size of the body.
    pub fn seal(&mut self, frame: &BusFrame, out: &mut Vec<u8>) {
        let length = u32::try_from(frame.body.len() + OVERHEAD).expect("bodies are bounded").to_be_bytes();
        out.extend(length);
        let start = out.len();
        out.push(frame.kind as u8);
        out.extend(frame.id.to_be_bytes());
        out.extend_from_slice(&frame.body);
        let nonce = self.nonce();
        let tag = self.key.seal_in_place_separate_tag(nonce, Aad::from(length), &mut out[start..]);
        out.extend_from_slice(tag.expect("bodies are bounded").as_ref());
    }

    fn open(&mut self, length: [u8; 4], mut sealed: BytesMut) -> Result<BusFrame, ConnectionError> {
        let nonce = self.nonce();
        let opened = self.key.open_in_place(nonce, Aad::from(length), &mut sealed);
        let length = opened.map_err(|_| ConnectionError::Frame("authentication failed"))?.len();
        sealed.truncate(length);
        let kind = sealed.get_u8();
        let kind = FrameKind::ALL.into_iter().find(|known| *known as u8 == kind);
        let kind = kind.ok_or(ConnectionError::Frame("unknown kind"))?;
        Ok(BusFrame { kind, id: sealed.get_u64(), body: sealed.freeze() })
    }

    /// Reads one frame. Not safe to cancel: drop the connection as well.
    pub async fn read(
        &mut self,
        io: &mut (impl AsyncRead + Unpin),
        max_body: usize,
    ) -> Result<BusFrame, ConnectionError> {
        let mut prefix = [0; 4];
        io.read_exact(&mut prefix).await?;
        let length = u32::from_be_bytes(prefix) as usize;
        if !(OVERHEAD..=OVERHEAD + max_body).contains(&length) {
            return Err(ConnectionError::Frame("length"));
        }
        let mut sealed = BytesMut::zeroed(length);
        io.read_exact(&mut sealed).await?;
        self.open(prefix, sealed)
    }
}

/// The queue that a connection writes from.
pub(super) trait FrameSource {
    /// Waits for frames. An empty batch ends the connection.
    fn next_batch(&self) -> impl Future<Output = Vec<BusFrame>> + Send;
}

/// Writes frames until the source ends. Fails if the other node does not read for `patience`.
pub(super) async fn write_frames(
    io: &mut (impl AsyncWrite + Unpin),
    cipher: &mut FrameCipher,
    source: &impl FrameSource,
    patience: Duration,
) -> Result<(), ConnectionError> {
    let mut buffer = Vec::new();
    loop {
        let batch = source.next_batch().await;
        let is_last = batch.is_empty();
        batch.iter().for_each(|frame| cipher.seal(frame, &mut buffer));
        drop(batch);
        let write = async {
            io.write_all(&buffer).await?;
            if is_last { io.shutdown().await } else { io.flush().await }
        };
        timeout(patience, write).await.map_err(|_| ConnectionError::NotReading)??;
        if is_last {
            return Ok(());
        }
        buffer.clear();
        buffer.shrink_to(2 * BATCH_BYTES);
    }
}

/// Writes and reads until either fails. After the last frame is written, goes on reading for at
/// most `linger`, until the other node closes: a socket that is closed with unread bytes resets the
/// connection, and the other node would lose frames.
pub(super) async fn write_and_read(
    write: impl Future<Output = Result<(), ConnectionError>>,
    read: impl Future<Output = Result<Infallible, ConnectionError>>,
    linger: Duration,
) -> Result<(), ConnectionError> {
    tokio::pin!(read);
    tokio::select! {
        written = write => written?,
        Err(error) = &mut read => return Err(error),
    }
    // The connection ends by its close, or by the timeout.
    let _ended = timeout(linger, read).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(body: &'static str) -> BusFrame {
        BusFrame { kind: FrameKind::Call, id: 7, body: Bytes::from_static(body.as_bytes()) }
    }

    fn sealed(bodies: &[&'static str]) -> Vec<Vec<u8>> {
        let mut cipher = FrameCipher::new(&[1; 32]);
        let seal = |body: &&'static str| {
            let mut bytes = Vec::new();
            cipher.seal(&frame(body), &mut bytes);
            bytes
        };
        bodies.iter().map(seal).collect()
    }

    async fn read(key: u8, bytes: &[u8]) -> Vec<Result<BusFrame, ConnectionError>> {
        let (mut io, mut cipher) = (bytes, FrameCipher::new(&[key; 32]));
        let mut frames = Vec::new();
        while !io.is_empty() {
            frames.push(cipher.read(&mut io, 64).await);
            if frames.last().is_some_and(Result::is_err) {
                break;
            }
        }
        frames
    }

    #[tokio::test]
    async fn frames_open_in_their_order_and_under_their_key_only() {
        let frames = sealed(&["one", "", "three"]);
        let opened: Result<Vec<_>, _> = read(1, &frames.concat()).await.into_iter().collect();
        assert_eq!(opened.unwrap(), [frame("one"), frame(""), frame("three")]);
        assert!(read(2, &frames[0]).await[0].is_err(), "another key");
        assert!(read(1, &frames[1]).await[0].is_err(), "a removed frame");
        let repeated = read(1, &[&frames[0][..], &frames[0]].concat()).await;
        assert!(repeated[0].is_ok() && repeated[1].is_err(), "a repeated frame");
    }

    #[tokio::test]
    async fn frame_with_any_flipped_bit_or_missing_byte_does_not_open() {
        let frame = &sealed(&["some body"])[0];
        for bit in 0..frame.len() * 8 {
            let mut changed = frame.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(read(1, &changed).await[0].is_err(), "bit {bit}");
        }
        for length in 1..frame.len() {
            assert!(read(1, &frame[..length]).await[0].is_err(), "{length} bytes");
        }
    }

    #[tokio::test]
    async fn frame_above_the_bound_is_refused_before_its_body_is_read() {
        let length = u32::try_from(OVERHEAD + 65).unwrap().to_be_bytes();
        let result = FrameCipher::new(&[1; 32]).read(&mut &length[..], 64).await;
        assert!(matches!(result, Err(ConnectionError::Frame("length"))), "{result:?}");
    }
}
