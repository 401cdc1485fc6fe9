//! An encoded frame: the WebSocket header and the text. Server frames are not masked, so all
//! receivers share the same bytes, which are encoded once.

use std::cell::RefCell;
use std::sync::Arc;

/// An encoded WebSocket frame. Clones share the bytes.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Frame(Arc<[u8]>);

/// First byte of an unfragmented text frame: FIN bit and opcode 1.
const TEXT: u8 = 0x81;
/// Length in bytes from which the header has a 2-byte length field, or an 8-byte one above
/// [`u16::MAX`] (RFC 6455, section 5.2).
const SHORT: usize = 126;
/// Size in bytes of the longest header: two bytes and an 8-byte length field.
const LONGEST_HEADER: usize = 10;
/// Capacity in bytes that a thread keeps in its encoding buffer. Larger frames are rare, and their
/// memory is freed.
const KEPT_BYTES: usize = 64 * 1024;

thread_local! {
    static SHEET: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Frame {
    /// Encodes a frame with the text that `write` appends. Panics if `write` encodes another frame.
    pub fn with(write: impl FnOnce(&mut Vec<u8>)) -> Frame {
        SHEET.with_borrow_mut(|sheet| {
            sheet.extend([0; LONGEST_HEADER]);
            write(sheet);
            let start = put_header(sheet);
            let frame = Frame(Arc::from(&sheet[start..]));
            sheet.clear();
            sheet.shrink_to(KEPT_BYTES);
            frame
        })
    }

    /// A frame that the protocol library has encoded, such as a pong or a close frame.
    pub fn of_control(bytes: &[u8]) -> Frame {
        Frame(Arc::from(bytes))
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
fn put_header(sheet: &mut [u8]) -> usize {
    let length = sheet.len() - LONGEST_HEADER;
    let (start, short) = match length {
        0..SHORT => (8, u8::try_from(length).expect("it is below 126")),
        SHORT..=0xffff => (6, 126),
        _ => (0, 127),
    };
    sheet[start] = TEXT;
    sheet[start + 1] = short;
    let behind = LONGEST_HEADER - start - 2;
    let length = (length as u64).to_be_bytes();
    sheet[start + 2..LONGEST_HEADER].copy_from_slice(&length[8 - behind..]);
    start
}

impl From<String> for Frame {
    fn from(text: String) -> Frame {
        Frame::from(text.as_str())
    }
}

impl From<&str> for Frame {
    fn from(text: &str) -> Frame {
        Frame::with(|sheet| sheet.extend_from_slice(text.as_bytes()))
    }
}

/// Prints the length only, because message content must not reach the logs.
impl std::fmt::Debug for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Frame({} bytes)", self.0.len())
    }
}

#[cfg(test)]
impl Frame {
    pub fn text(&self) -> &str {
        let header = match self.0[1] {
            126 => 4,
            127 => 10,
            _ => 2,
        };
        std::str::from_utf8(&self.0[header..]).expect("frames are made of text")
    }
}

#[cfg(test)]
mod tests {
    use tungstenite::Message;
    use tungstenite::protocol::{Role, WebSocketContext};

    use super::*;

    /// Decodes our frame with an independent implementation.
    fn read(frame: &Frame) -> String {
        let mut stream = std::io::Cursor::new(frame.bytes().to_vec());
        let mut client = WebSocketContext::new(Role::Client, None);
        match client.read(&mut stream) {
            Ok(Message::Text(text)) => text.to_string(),
            other => panic!("that is no text: {other:?}"),
        }
    }

    #[test]
    fn a_client_reads_what_was_written_whatever_its_length() {
        for length in [0, 1, 125, 126, 127, 1_000, 65_535, 65_536, 1 << 20] {
            let text = "x".repeat(length);
            let frame = Frame::from(text.as_str());
            assert_eq!((read(&frame) == text, frame.text() == text), (true, true), "{length}");
        }
    }

    #[test]
    fn clones_share_the_bytes() {
        let frame = Frame::from("hello");
        assert!(std::ptr::eq(frame.bytes(), frame.clone().bytes()));
    }
}
