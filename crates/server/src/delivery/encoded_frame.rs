//! An encoded frame: the WebSocket header and the text. Server frames are not masked, so all
//! receivers share the same bytes, which are encoded once.

use std::cell::RefCell;
use std::sync::Arc;

/// An encoded WebSocket frame. Clones share the bytes.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct EncodedFrame(Arc<[u8]>);

/// First byte of an unfragmented text frame: FIN bit and opcode 1 (RFC 6455, section 5.2). Clients
/// close the connection on any other value.
const TEXT: u8 = 0x81;
/// Length in bytes from which the header has a 2-byte length field, or an 8-byte one above
/// [`u16::MAX`] (RFC 6455, section 5.2).
const EXTENDED_LENGTH: usize = 126;
/// Size in bytes of the longest header: two bytes and an 8-byte length field. [`put_header`] writes
/// into this space; a lower value would overwrite the text.
const MAX_HEADER_BYTES: usize = 10;
/// Capacity in bytes that a thread keeps in its encoding buffer. Larger frames are rare, and their
/// memory is freed. A larger value holds more memory per thread.
const KEPT_BUFFER_BYTES: usize = 64 * 1024;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl EncodedFrame {
    /// Encodes a frame with the text that `write` appends. Panics if `write` encodes another frame.
    pub fn with(write: impl FnOnce(&mut Vec<u8>)) -> EncodedFrame {
        BUFFER.with_borrow_mut(|buffer| {
            buffer.extend([0; MAX_HEADER_BYTES]);
            write(buffer);
            let start = put_header(buffer);
            let frame = EncodedFrame(Arc::from(&buffer[start..]));
            buffer.clear();
            buffer.shrink_to(KEPT_BUFFER_BYTES);
            frame
        })
    }

    /// A frame that the protocol library has encoded, such as a pong or a close frame.
    pub fn of_control(bytes: &[u8]) -> EncodedFrame {
        EncodedFrame(Arc::from(bytes))
    }

    pub fn is_text(&self) -> bool {
        self.0.first() == Some(&TEXT)
    }

    /// The header and the payload.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Writes the header directly before the text. Returns the index where it begins.
fn put_header(buffer: &mut [u8]) -> usize {
    let length = buffer.len() - MAX_HEADER_BYTES;
    let (start, short) = match length {
        0..EXTENDED_LENGTH => (8, u8::try_from(length).expect("the match arm bounds the length by 126")),
        EXTENDED_LENGTH..=0xffff => (6, 126),
        _ => (0, 127),
    };
    buffer[start] = TEXT;
    buffer[start + 1] = short;
    let length_bytes = MAX_HEADER_BYTES - start - 2;
    let length = (length as u64).to_be_bytes();
    buffer[start + 2..MAX_HEADER_BYTES].copy_from_slice(&length[8 - length_bytes..]);
    start
}

impl From<String> for EncodedFrame {
    fn from(text: String) -> EncodedFrame {
        EncodedFrame::from(text.as_str())
    }
}

impl From<&str> for EncodedFrame {
    fn from(text: &str) -> EncodedFrame {
        EncodedFrame::with(|buffer| buffer.extend_from_slice(text.as_bytes()))
    }
}

/// Prints the length only, because message content must not reach the logs.
impl std::fmt::Debug for EncodedFrame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "EncodedFrame({} bytes)", self.0.len())
    }
}

#[cfg(test)]
impl EncodedFrame {
    pub fn text(&self) -> &str {
        let header = match self.0[1] {
            126 => 4,
            127 => 10,
            _ => 2,
        };
        std::str::from_utf8(&self.0[header..]).expect("tests encode text frames only")
    }
}

#[cfg(test)]
mod tests {
    use tungstenite::Message;
    use tungstenite::protocol::{Role, WebSocketContext};

    use super::*;

    /// Decodes our frame with an independent implementation.
    fn read(frame: &EncodedFrame) -> String {
        let mut stream = std::io::Cursor::new(frame.bytes().to_vec());
        let mut client = WebSocketContext::new(Role::Client, None);
        match client.read(&mut stream) {
            Ok(Message::Text(text)) => text.to_string(),
            other => panic!("that is no text: {other:?}"),
        }
    }

    #[test]
    fn frame_of_any_length_decodes_to_its_text() {
        for length in [0, 1, 125, 126, 127, 1_000, 65_535, 65_536, 1 << 20] {
            let text = "x".repeat(length);
            let frame = EncodedFrame::from(text.as_str());
            assert_eq!((read(&frame) == text, frame.text() == text), (true, true), "{length}");
        }
    }

    #[test]
    fn cloned_frames_share_their_bytes() {
        let frame = EncodedFrame::from("hello");
        assert!(std::ptr::eq(frame.bytes(), frame.clone().bytes()));
    }
}
