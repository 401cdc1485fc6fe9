//! A client connection. It sends frames that were encoded in advance and only counts the received
//! frames. It allocates nothing and does little while the server's costs are counted.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Read timeout. It must exceed every wait, also under callgrind; only a failure reaches it.
const PATIENCE: Duration = Duration::from_secs(120);

/// Size of the read buffer: the largest expected frame or answer, in bytes.
const BUFFER_BYTES: usize = 256 * 1024;

pub struct Device {
    stream: TcpStream,
    buffer: Box<[u8]>,
    /// `start..end` is the range of received bytes that are not processed yet.
    start: usize,
    end: usize,
}

impl Device {
    fn connect(address: SocketAddr) -> Device {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("the timeout is not zero");
        stream.set_nodelay(true).expect("the socket supports this option");
        Device { stream, buffer: vec![0; BUFFER_BYTES].into(), start: 0, end: 0 }
    }

    /// Opens a WebSocket, sends `hello` and waits until the device has caught up.
    pub fn greet(address: SocketAddr, token: &str) -> Device {
        let mut device = Device::connect(address);
        let upgrade = format!(
            "GET /v1/ws HTTP/1.1\r\nhost: {address}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        device.say(upgrade.as_bytes());
        let head = device.hear_head();
        assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(head));
        let hello = serde_json::json!({"type": "hello", "token": token});
        device.say(&frame(&hello.to_string()));
        device.hear(&[("caught_up", 1)]);
        device
    }

    /// Opens a kept-alive HTTP connection.
    pub fn caller(address: SocketAddr) -> Device {
        Device::connect(address)
    }

    /// Sends encoded bytes in one write.
    pub fn say(&mut self, encoded: &[u8]) {
        self.stream.write_all(encoded).expect("the server accepts the bytes");
    }

    /// Waits for the given number of frames of each type, in any order. Ignores other frames, but
    /// panics on an error frame.
    pub fn hear(&mut self, expected: &[(&str, usize)]) {
        let mut missing: usize = expected.iter().map(|(_, count)| count).sum();
        let mut heard = [0; 2];
        while missing > 0 {
            let text = self.next_frame();
            let kind = kind_of(text);
            assert_ne!(kind, b"error", "{}", String::from_utf8_lossy(text));
            if let Some(index) = expected.iter().position(|(name, _)| name.as_bytes() == kind) {
                heard[index] += 1;
                assert!(heard[index] <= expected[index].1, "one {} more than expected", expected[index].0);
                missing -= 1;
            }
        }
    }

    /// Sends an HTTP request and returns the body of the answer.
    pub fn ask(&mut self, request: &[u8]) -> &[u8] {
        self.say(request);
        let head = self.hear_head();
        assert!(head.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(head));
        let length = content_length(head);
        self.take(length)
    }

    fn hear_head(&mut self) -> &[u8] {
        let mut looked_at = 0;
        loop {
            let received = &self.buffer[self.start..self.end];
            if let Some(found) = received[looked_at..].windows(4).position(|four| four == b"\r\n\r\n") {
                return self.take(looked_at + found + 4);
            }
            looked_at = received.len().saturating_sub(3);
            self.receive();
        }
    }

    fn next_frame(&mut self) -> &[u8] {
        let short = self.peek(2);
        let (first, short_length) = (short[0], short[1]);
        assert_eq!(first, 0x81, "a whole text frame");
        let (head, length) = match short_length {
            126 => {
                let head = self.peek(4);
                (4, usize::from(u16::from_be_bytes([head[2], head[3]])))
            }
            127 => panic!("no frame here is that large"),
            length => (2, usize::from(length)),
        };
        &self.take(head + length)[head..]
    }

    fn take(&mut self, bytes: usize) -> &[u8] {
        self.peek(bytes);
        self.start += bytes;
        &self.buffer[self.start - bytes..self.start]
    }

    fn peek(&mut self, bytes: usize) -> &[u8] {
        while self.end - self.start < bytes {
            self.receive();
        }
        &self.buffer[self.start..self.start + bytes]
    }

    fn receive(&mut self) {
        if self.start > BUFFER_BYTES / 2 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        let received = self.stream.read(&mut self.buffer[self.end..]).expect("the server answers");
        assert!(received > 0, "the server closed the connection, or the frame exceeds the buffer");
        self.end += received;
    }
}

/// Encodes a client text frame. The protocol requires a mask, and unmasking is part of the counted
/// costs. The value of the mask does not matter.
pub(crate) fn frame(text: &str) -> Vec<u8> {
    /// The mask of every frame.
    const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
    let mut frame = vec![0x81];
    match u16::try_from(text.len()).expect("no frame here is that large") {
        short @ 0..126 => frame.push(0x80 | short as u8),
        long => {
            frame.push(0x80 | 126);
            frame.extend(long.to_be_bytes());
        }
    }
    frame.extend(MASK);
    frame.extend(text.bytes().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// Returns the type of a server frame, which is its first field.
fn kind_of(text: &[u8]) -> &[u8] {
    let kind = text.strip_prefix(br#"{"type":""#).unwrap_or_default();
    kind.split(|byte| *byte == b'"').next().unwrap_or_default()
}

fn content_length(head: &[u8]) -> usize {
    let head = std::str::from_utf8(head).expect("headers are text");
    let line = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    line.and_then(|length| length.parse().ok()).expect("the response has a content-length")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_has_length_mask_and_masked_text() {
        assert_eq!(frame("Hello"), [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58]);
        let long = frame(&"x".repeat(200));
        assert_eq!((&long[..4], long.len()), (&[0x81, 0xfe, 0, 200][..], 208));
    }

    #[test]
    fn frame_type_is_read_from_its_first_bytes() {
        assert_eq!(kind_of(br#"{"type":"ack","seq":1}"#), b"ack");
        assert_eq!(kind_of(b"{}"), b"");
    }
}
