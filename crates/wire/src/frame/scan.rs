//! A one-pass decoder for the most frequent frames (`send`, `delivered`, `read`) in their usual
//! form: `type` first, no repeated and no unknown field. Any other frame, valid or not, goes to the
//! general decoder, which can describe the error.

use std::borrow::Cow;

use bluetick_core::ReceiptKind;

use super::client::{ClientFrame, ReceiptFrame, SendFrame};
use crate::json::plain_length;

/// Decodes a frame in its usual form. `None` does not mean that the frame is invalid; the general
/// decoder decides.
pub fn usual_frame(text: &str) -> Option<ClientFrame<'_>> {
    let mut scanner = Scanner { text, at: 0 };
    scanner.expect(b'{')?;
    if scanner.key()? != "type" {
        return None;
    }
    let frame = match scanner.plain_string()? {
        "send" => ClientFrame::Send(scanner.send()?),
        "delivered" => ClientFrame::Receipt(ReceiptKind::Delivered, scanner.mark()?),
        "read" => ClientFrame::Receipt(ReceiptKind::Read, scanner.mark()?),
        _ => return None,
    };
    (scanner.at == text.len()).then_some(frame)
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    fn send(&mut self) -> Option<SendFrame<'a>> {
        let (mut conversation_id, mut message_id, mut content) = (None, None, None);
        let (mut content_type, mut timestamp, mut retry, mut after_seq) = (None, None, None, None);
        while self.another_field()? {
            match self.key()? {
                "conversation_id" => once(&mut conversation_id, self.plain_string()?)?,
                "message_id" => once(&mut message_id, self.plain_string()?)?,
                "content" => once(&mut content, self.string()?)?,
                "content_type" => once(&mut content_type, self.plain_string()?)?,
                "timestamp" => once(&mut timestamp, self.signed()?)?,
                "retry" => once(&mut retry, self.boolean()?)?,
                "after_seq" => once(&mut after_seq, self.number()?)?,
                _ => return None,
            }
        }
        Some(SendFrame {
            conversation_id: Cow::Borrowed(conversation_id?),
            message_id: Cow::Borrowed(message_id?),
            content: content?,
            content_type: content_type.map(Cow::Borrowed),
            timestamp,
            retry,
            after_seq,
        })
    }

    fn mark(&mut self) -> Option<ReceiptFrame<'a>> {
        let (mut conversation_id, mut seq) = (None, None);
        while self.another_field()? {
            match self.key()? {
                "conversation_id" => once(&mut conversation_id, self.plain_string()?)?,
                "seq" => once(&mut seq, self.number()?)?,
                _ => return None,
            }
        }
        Some(ReceiptFrame { conversation_id: Cow::Borrowed(conversation_id?), seq: seq? })
    }

    fn rest(&self) -> &'a [u8] {
        &self.text.as_bytes()[self.at..]
    }

    fn skip_spaces(&mut self) {
        while self.rest().first() == Some(&b' ') {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.rest().first() == Some(&byte)).then(|| self.at += 1)
    }

    /// Skips the comma before the next field, or the closing brace. Returns whether a field
    /// follows.
    fn another_field(&mut self) -> Option<bool> {
        self.skip_spaces();
        let more = match self.rest().first()? {
            b',' => true,
            b'}' => false,
            _ => return None,
        };
        self.at += 1;
        Some(more)
    }

    /// Reads a key and the colon after it.
    fn key(&mut self) -> Option<&'a str> {
        self.skip_spaces();
        let key = self.plain_string()?;
        self.skip_spaces();
        self.expect(b':')?;
        self.skip_spaces();
        Some(key)
    }

    /// Reads a string without escapes, such as an id.
    fn plain_string(&mut self) -> Option<&'a str> {
        self.expect(b'"')?;
        let from = self.at;
        self.at += plain_length(self.rest());
        let string = &self.text[from..self.at];
        self.expect(b'"')?;
        Some(string)
    }

    fn string(&mut self) -> Option<Cow<'a, str>> {
        let from = self.at;
        if let Some(plain) = self.plain_string() {
            return Some(Cow::Borrowed(plain));
        }
        // Finds the end of the string only; serde_json decodes the escapes.
        while let Some((b'\\', escaped)) = self.rest().split_first() {
            // In valid JSON, an ASCII byte follows a backslash, so skipping two bytes stays on a
            // character boundary.
            if !escaped.first()?.is_ascii() {
                return None;
            }
            self.at += 2;
            self.at += plain_length(self.rest());
        }
        self.expect(b'"')?;
        serde_json::from_str(&self.text[from..self.at]).ok().map(Cow::Owned)
    }

    fn boolean(&mut self) -> Option<bool> {
        let value = [("true", true), ("false", false)];
        let (text, value) = value.into_iter().find(|(text, _)| self.rest().starts_with(text.as_bytes()))?;
        self.at += text.len();
        Some(value)
    }

    /// Reads an unsigned integer of at most 18 digits, which always fits in a `u64`.
    fn number(&mut self) -> Option<u64> {
        /// Maximum number of digits. A `u64` holds any number of 18 digits; with more, the sum
        /// could overflow.
        const DIGITS: usize = 18;
        let digits = self.rest().iter().take(DIGITS + 1).take_while(|byte| byte.is_ascii_digit());
        let (length, number) = digits
            .fold((0, 0u64), |(length, number), digit| (length + 1, number * 10 + u64::from(digit - b'0')));
        let led_by_zero = length > 1 && self.rest()[0] == b'0';
        if length == 0 || length > DIGITS || led_by_zero {
            return None;
        }
        self.at += length;
        Some(number)
    }

    fn signed(&mut self) -> Option<i64> {
        i64::try_from(self.number()?).ok()
    }
}

/// Sets a field. Returns `None` for a repeated field; the general decoder reports that error.
fn once<T>(field: &mut Option<T>, value: T) -> Option<()> {
    field.replace(value).is_none().then_some(())
}
