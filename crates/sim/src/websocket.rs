//! A minimal WebSocket client over any stream.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::timeout;

// Opcodes of WebSocket frames (RFC 6455, section 5.2).
const TEXT: u8 = 0x1;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xA;
/// Time limit for the handshake and for each write, in simulated time. If it is too short,
/// connections that a fault delays count as failed.
const PATIENCE: Duration = Duration::from_secs(10);

pub struct WebSocket {
    line: DuplexStream,
    read: Vec<u8>,
    closed_with: Option<u16>,
}

impl WebSocket {
    pub async fn open(line: DuplexStream) -> Option<WebSocket> {
        let mut socket = WebSocket { line, read: Vec::new(), closed_with: None };
        timeout(PATIENCE, socket.shake_hands()).await.ok()??;
        Some(socket)
    }

    async fn shake_hands(&mut self) -> Option<()> {
        let request = "GET /v1/ws HTTP/1.1\r\nhost: sim\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                       sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        self.line.write_all(request.as_bytes()).await.ok()?;
        loop {
            if let Some(end) = self.read.windows(4).position(|four| four == b"\r\n\r\n") {
                let is_open = self.read.starts_with(b"HTTP/1.1 101");
                self.read.drain(..end + 4);
                return is_open.then_some(());
            }
            self.read_more().await?;
        }
    }

    async fn read_more(&mut self) -> Option<()> {
        let mut bytes = [0; 4096];
        match self.line.read(&mut bytes).await {
            Ok(length @ 1..) => {
                self.read.extend(&bytes[..length]);
                Some(())
            }
            _ => None,
        }
    }

    /// Sends a text frame. Returns whether the connection accepted it.
    pub async fn say(&mut self, text: &str) -> bool {
        self.write(TEXT, text.as_bytes()).await
    }

    async fn write(&mut self, opcode: u8, payload: &[u8]) -> bool {
        let mut frame = vec![0x80 | opcode];
        match u16::try_from(payload.len()).expect("frames of the simulation are shorter than 64 KiB") {
            short @ 0..126 => frame.push(0x80 | u8::try_from(short).expect("it is below 126")),
            long => {
                frame.push(0x80 | 126);
                frame.extend(long.to_be_bytes());
            }
        }
        // Clients must mask their frames; a mask of zeros leaves the payload unchanged.
        frame.extend([0; 4]);
        frame.extend(payload);
        matches!(timeout(PATIENCE, self.line.write_all(&frame)).await, Ok(Ok(())))
    }

    /// Returns the next text frame, or `None` when the connection has ended. Answers pings.
    /// Dropping the future loses no received bytes.
    pub async fn hear(&mut self) -> Option<String> {
        loop {
            while let Some((opcode, payload)) = self.take_frame() {
                match opcode {
                    TEXT => return String::from_utf8(payload).ok(),
                    PING if !self.write(PONG, &payload).await => return None,
                    CLOSE => {
                        let code = payload.first_chunk().map(|code| u16::from_be_bytes(*code));
                        self.closed_with = code;
                        return None;
                    }
                    _ => {}
                }
            }
            self.read_more().await?;
        }
    }

    /// Returns the close code of the server. `None` if it sent no close frame or no code.
    pub fn close_code(&self) -> Option<u16> {
        self.closed_with
    }

    fn take_frame(&mut self) -> Option<(u8, Vec<u8>)> {
        let (first, short) = (*self.read.first()?, *self.read.get(1)?);
        let (head, length) = match short & 0x7f {
            126 => (4, usize::from(u16::from_be_bytes([*self.read.get(2)?, *self.read.get(3)?]))),
            127 => {
                let long: [u8; 8] = self.read.get(2..10)?.try_into().ok()?;
                (10, usize::try_from(u64::from_be_bytes(long)).ok()?)
            }
            short => (2, usize::from(short)),
        };
        let payload = self.read.get(head..head + length)?.to_vec();
        self.read.drain(..head + length);
        Some((first & 0x0f, payload))
    }
}
