//! A WebSocket connection of the load generator. It shares the CPU with the server under test, so
//! it does minimal work: it splits the input into frames and reads only the start of each.
//!
//! All connections of a thread share one read buffer. An idle connection holds no memory besides
//! its socket.

use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use bluetick_client::link::ClientFrame;
use tokio::net::{TcpSocket, TcpStream};

use crate::BenchError;
use crate::under_test::client_failed;

/// The type of a server frame, as far as the load generator distinguishes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerFrameKind {
    Message,
    Ack,
    CaughtUp,
    Error,
    Other,
}

impl ServerFrameKind {
    /// Reads the type from the frame's first field.
    fn of(json: &[u8]) -> ServerFrameKind {
        match json.strip_prefix(br#"{"type":""#) {
            Some(rest) if rest.starts_with(b"message\"") => ServerFrameKind::Message,
            Some(rest) if rest.starts_with(b"ack\"") => ServerFrameKind::Ack,
            Some(rest) if rest.starts_with(b"caught_up\"") => ServerFrameKind::CaughtUp,
            Some(rest) if rest.starts_with(b"error\"") => ServerFrameKind::Error,
            _ => ServerFrameKind::Other,
        }
    }
}

pub struct LoadConnection {
    stream: TcpStream,
    /// The received part of an incomplete frame.
    partial: Vec<u8>,
    /// Bytes that the next `LoadConnection::flush` writes.
    outgoing: Vec<u8>,
}

/// Free space in the shared read buffer for one read, in bytes.
const READ_BYTES: usize = 128 * 1024;
// Bits and opcodes of a WebSocket frame header (RFC 6455, section 5.2).
pub const FINAL: u8 = 0x80;
const MASKED: u8 = 0x80;
pub const CONTINUATION: u8 = 0;
pub const TEXT: u8 = 1;
const CLOSE: u8 = 8;
pub const PING: u8 = 9;
const PONG: u8 = 10;
/// The fixed mask of all client frames. The protocol requires a mask. It is not zero, so that the
/// server does the same unmasking work as for other clients.
const MASK: [u8; 4] = [0x5a, 0xc3, 0x96, 0x3c];

thread_local! {
    /// The read buffer that all connections of a thread share.
    static INCOMING: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

fn lost(error: impl std::fmt::Display) -> BenchError {
    client_failed(format!("the connection was lost: {error}"))
}

impl LoadConnection {
    /// Connects, from the source address `from` if given, and upgrades the connection to a
    /// WebSocket.
    pub async fn open(to: SocketAddr, from: Option<SocketAddr>) -> Result<LoadConnection, BenchError> {
        let stream = dial(to, from).await.map_err(client_failed)?;
        stream.set_nodelay(true).map_err(client_failed)?;
        let mut line = LoadConnection { stream, partial: Vec::new(), outgoing: Vec::new() };
        let request = format!(
            "GET /v1/ws HTTP/1.1\r\nHost: {to}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        line.outgoing.extend_from_slice(request.as_bytes());
        line.flush().await?;
        line.upgraded().await?;
        Ok(line)
    }

    /// Reads the HTTP response header. The bytes after it are WebSocket frames.
    async fn upgraded(&mut self) -> Result<(), BenchError> {
        loop {
            self.stream.readable().await.map_err(lost)?;
            let end = self.read(|bytes| {
                let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
                match end {
                    Some(_) if !bytes.starts_with(b"HTTP/1.1 101") => {
                        let status = String::from_utf8_lossy(&bytes[..bytes.len().min(12)]).into_owned();
                        Err(client_failed(format!("the upgrade to a WebSocket was refused: {status}")))
                    }
                    Some(end) => Ok((end + 4, true)),
                    None => Ok((0, false)),
                }
            })?;
            if end == Some(true) {
                return Ok(());
            }
        }
    }

    /// Reads the available bytes and passes them to `take`, which returns how many it used. Keeps
    /// the rest. Returns `None` when no bytes are available.
    fn read<T>(
        &mut self,
        take: impl FnOnce(&[u8]) -> Result<(usize, T), BenchError>,
    ) -> Result<Option<T>, BenchError> {
        INCOMING.with_borrow_mut(|incoming| {
            let kept = self.partial.len();
            if incoming.len() < kept + READ_BYTES {
                incoming.resize(kept + READ_BYTES, 0);
            }
            incoming[..kept].copy_from_slice(&self.partial);
            let count = match self.stream.try_read(&mut incoming[kept..]) {
                Ok(0) => return Err(lost("the server closed it")),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(lost(error)),
            };
            let bytes = &incoming[..kept + count];
            let (used, taken) = take(bytes)?;
            if used == bytes.len() {
                self.partial = Vec::new();
            } else {
                self.partial.clear();
                self.partial.extend_from_slice(&bytes[used..]);
            }
            Ok(Some(taken))
        })
    }

    /// Waits for input and passes every complete frame to `visit`. Answers pings. Dropping the
    /// future loses no frame.
    pub async fn frames(&mut self, mut visit: impl FnMut(ServerFrameKind, &[u8])) -> Result<(), BenchError> {
        loop {
            self.stream.readable().await.map_err(lost)?;
            let pings = self.read(|bytes| take_frames(bytes, &mut visit))?;
            if let Some(pings) = pings {
                for _ in 0..pings {
                    self.put_frame(FINAL | PONG, b"");
                }
                return if pings > 0 { self.flush().await } else { Ok(()) };
            }
        }
    }

    /// Appends a frame to the output buffer.
    pub fn put(&mut self, frame: &ClientFrame<'_>) {
        self.put_text(frame.encode().as_bytes());
    }

    pub fn put_text(&mut self, json: &[u8]) {
        self.put_frame(FINAL | TEXT, json);
    }

    /// Appends a masked frame to the output buffer. `first` is the first header byte: the opcode
    /// and the final bit.
    pub fn put_frame(&mut self, first: u8, payload: &[u8]) {
        let outgoing = &mut self.outgoing;
        outgoing.push(first);
        match payload.len() {
            short @ 0..=125 => outgoing.push(MASKED | short as u8),
            middle @ 126..=65_535 => {
                outgoing.push(MASKED | 126);
                outgoing.extend_from_slice(&(middle as u16).to_be_bytes());
            }
            long => {
                outgoing.push(MASKED | 127);
                outgoing.extend_from_slice(&(long as u64).to_be_bytes());
            }
        }
        outgoing.extend_from_slice(&MASK);
        let start = outgoing.len();
        outgoing.extend_from_slice(payload);
        for four in outgoing[start..].chunks_mut(4) {
            for (byte, mask) in four.iter_mut().zip(MASK) {
                *byte ^= mask;
            }
        }
    }

    /// Appends raw bytes to the output buffer.
    pub fn put_raw(&mut self, bytes: &[u8]) {
        self.outgoing.extend_from_slice(bytes);
    }

    /// Discards all available input. Returns an error if the server has closed the connection.
    pub fn skip(&mut self) -> Result<(), BenchError> {
        while self.read(|bytes| Ok((bytes.len(), ())))?.is_some() {}
        Ok(())
    }

    pub fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// Writes the output buffer to the socket.
    pub async fn flush(&mut self) -> Result<(), BenchError> {
        let mut written = 0;
        while written < self.outgoing.len() {
            match self.stream.try_write(&self.outgoing[written..]) {
                Ok(count) => written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.stream.writable().await.map_err(lost)?;
                }
                Err(error) => return Err(lost(error)),
            }
        }
        self.outgoing.clear();
        Ok(())
    }

    /// Frees the output buffer, which an idle connection does not need.
    pub fn slim(&mut self) {
        self.outgoing = Vec::new();
    }
}

pub async fn dial(to: SocketAddr, from: Option<SocketAddr>) -> io::Result<TcpStream> {
    let Some(from) = from else { return TcpStream::connect(to).await };
    let socket = TcpSocket::new_v4()?;
    // Allow reuse of a port that a connection of an earlier run has left in `TIME_WAIT`.
    socket.set_reuseaddr(true)?;
    // If the port is in use, bind to any free port of the same address.
    socket.bind(from).or_else(|_| socket.bind(SocketAddr::new(from.ip(), 0)))?;
    socket.connect(to).await
}

/// Passes each complete text frame to `visit`. Returns the number of bytes used and the number of
/// pings.
fn take_frames(
    bytes: &[u8],
    visit: &mut impl FnMut(ServerFrameKind, &[u8]),
) -> Result<(usize, usize), BenchError> {
    let (mut used, mut pings) = (0, 0);
    while let Some((head, payload)) = first_frame(&bytes[used..]) {
        match bytes[used] {
            head if head == FINAL | TEXT => visit(ServerFrameKind::of(payload), payload),
            head if head == FINAL | PING => pings += 1,
            head if head == FINAL | PONG => {}
            head if head == FINAL | CLOSE => {
                let code = payload.first_chunk().map_or(0, |code| u16::from_be_bytes(*code));
                return Err(client_failed(format!("the server closed the connection with code {code}")));
            }
            other => return Err(client_failed(format!("unexpected frame that begins with {other:#x}"))),
        }
        used += head + payload.len();
    }
    Ok((used, pings))
}

/// Returns the header length and the payload of the first frame, or `None` if the frame is
/// incomplete. Server frames have no mask.
fn first_frame(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (head, length) = match *bytes.get(1)? {
        126 => (4, u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?) as usize),
        127 => (10, u64::from_be_bytes(*bytes.get(2..)?.first_chunk()?) as usize),
        short => (2, usize::from(short)),
    };
    Some((head, bytes.get(head..head + length)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(json: &str) -> Vec<u8> {
        let mut bytes = vec![FINAL | TEXT];
        match json.len() {
            short @ 0..=125 => bytes.push(short as u8),
            middle @ 126..=65_535 => {
                bytes.push(126);
                bytes.extend_from_slice(&(middle as u16).to_be_bytes());
            }
            long => {
                bytes.push(127);
                bytes.extend_from_slice(&(long as u64).to_be_bytes());
            }
        }
        bytes.extend_from_slice(json.as_bytes());
        bytes
    }

    fn message(content_bytes: usize) -> String {
        format!(r#"{{"type":"message","content":"{}"}}"#, "x".repeat(content_bytes))
    }

    #[test]
    fn frames_of_every_size_are_found_in_any_split_of_bytes() {
        let bytes: Vec<u8> = [5, 100, 300, 70_000].map(|size| frame(&message(size))).concat();
        for cut in (0..400).chain([5_000, bytes.len() - 1, bytes.len()]) {
            let mut found = Vec::new();
            let mut visit = |kind, json: &[u8]| found.push((kind, json.len()));
            let (used, _) = take_frames(&bytes[..cut], &mut visit).unwrap();
            take_frames(&bytes[used..], &mut visit).unwrap();
            let expected = [5, 100, 300, 70_000].map(|size| (ServerFrameKind::Message, message(size).len()));
            assert_eq!(found, expected, "{cut}");
        }
    }

    #[test]
    fn pings_are_counted_and_a_close_is_an_error_with_its_code() {
        let pings = [FINAL | PING, 0, FINAL | PING, 2, b'h', b'i'];
        assert_eq!(take_frames(&pings, &mut |_, _| panic!()).unwrap(), (6, 2));
        let close = [FINAL | CLOSE, 2, 0x0f, 0xa1];
        let error = take_frames(&close, &mut |_, _| panic!()).unwrap_err();
        assert!(error.to_string().contains("4001"), "{error}");
    }

    #[test]
    fn frame_kind_is_read_from_its_type() {
        for (json, kind) in [
            (r#"{"type":"message","seq":1}"#, ServerFrameKind::Message),
            (r#"{"type":"ack","seq":1}"#, ServerFrameKind::Ack),
            (r#"{"type":"caught_up"}"#, ServerFrameKind::CaughtUp),
            (r#"{"type":"error","code":"x"}"#, ServerFrameKind::Error),
            (r#"{"type":"status"}"#, ServerFrameKind::Other),
        ] {
            assert_eq!(ServerFrameKind::of(json.as_bytes()), kind, "{json}");
        }
    }
}
