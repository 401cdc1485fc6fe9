//! A hand-written JSON encoder for the most frequent outputs. It writes the same bytes as serde,
//! faster. The structs describe the format; tests compare the two.

use bluetick_core::{ConversationId, MessageId, Seq, Timestamp};

/// Appends JSON to a buffer, which may already hold other data, such as a frame header.
pub struct Writer<'a>(pub &'a mut Vec<u8>);

impl Writer<'_> {
    /// Appends JSON verbatim.
    pub fn raw(&mut self, json: &str) {
        self.0.extend_from_slice(json.as_bytes());
    }

    /// Appends a string with its quotes.
    pub fn text(&mut self, text: &str) {
        self.measured(Measured::of(text));
    }

    pub fn text_or_null(&mut self, text: Option<&str>) {
        match text {
            Some(text) => self.text(text),
            None => self.raw("null"),
        }
    }

    /// Appends a string that was measured before.
    pub fn measured(&mut self, Measured { text, plain }: Measured<'_>) {
        let (plain, rest) = text.as_bytes().split_at(plain);
        self.0.push(b'"');
        self.0.extend_from_slice(plain);
        if !rest.is_empty() {
            self.escaped(rest);
        }
        self.0.push(b'"');
    }

    /// Appends `text` with escapes. Its first byte must need an escape.
    #[cold]
    fn escaped(&mut self, mut text: &[u8]) {
        while let Some((&special, rest)) = text.split_first() {
            let short = match special {
                b'"' => b'"',
                b'\\' => b'\\',
                b'\n' => b'n',
                b'\r' => b'r',
                b'\t' => b't',
                0x08 => b'b',
                0x0c => b'f',
                control => {
                    let digits = [HEX[usize::from(control >> 4)], HEX[usize::from(control & 15)]];
                    self.0.extend_from_slice(&[b'\\', b'u', b'0', b'0', digits[0], digits[1]]);
                    0
                }
            };
            if short != 0 {
                self.0.extend_from_slice(&[b'\\', short]);
            }
            let (plain, after) = rest.split_at(plain_length(rest));
            self.0.extend_from_slice(plain);
            text = after;
        }
    }

    /// Appends the id as a string. Its characters never need escapes.
    pub fn conversation(&mut self, id: &ConversationId) {
        self.0.push(b'"');
        self.0.extend_from_slice(&id.spelled());
        self.0.push(b'"');
    }

    pub fn message_id(&mut self, id: &MessageId) {
        match id {
            MessageId::Uuid(bytes) => {
                self.0.push(b'"');
                self.0.extend_from_slice(&MessageId::spelled_uuid(bytes));
                self.0.push(b'"');
            }
            MessageId::Text(text) => self.text(text),
        }
    }

    pub fn number(&mut self, number: u64) {
        self.0.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }

    pub fn seq(&mut self, seq: Seq) {
        self.number(seq.get());
    }

    pub fn seq_or_null(&mut self, seq: Option<Seq>) {
        match seq {
            Some(seq) => self.seq(seq),
            None => self.raw("null"),
        }
    }

    pub fn millis(&mut self, at: Timestamp) {
        self.0.extend_from_slice(itoa::Buffer::new().format(at.millis()).as_bytes());
    }

    pub fn boolean(&mut self, value: bool) {
        self.raw(if value { "true" } else { "false" });
    }
}

/// Digits of a `\u00XX` escape, by value. serde_json writes the same lower-case digits.
const HEX: &[u8; 16] = b"0123456789abcdef";

/// A string, and the length of its prefix that needs no escapes.
#[derive(Clone, Copy)]
pub struct Measured<'a> {
    text: &'a str,
    plain: usize,
}

impl<'a> Measured<'a> {
    pub fn of(text: &'a str) -> Measured<'a> {
        Measured { text, plain: plain_length(text.as_bytes()) }
    }

    /// Returns an upper bound on the encoded length in bytes, without the quotes.
    pub fn most_bytes(&self) -> usize {
        self.plain + escaped_length(&self.text[self.plain..])
    }
}

/// Returns an upper bound on the encoded length of a string in bytes, without the quotes: six bytes
/// for a control character, two for a quote or a backslash.
pub fn escaped_length(content: &str) -> usize {
    content
        .bytes()
        .map(|byte| if byte < b' ' { 6 } else { 1 + usize::from(matches!(byte, b'"' | b'\\')) })
        .sum()
}

/// Maximum number of bytes that one byte of a string becomes in JSON. If it is too low, size
/// estimates are too low and pages exceed their limit.
pub const MOST_BYTES_OF_ONE: usize = 6;

/// Returns the number of bytes before the first one that needs an escape in a JSON string: a quote,
/// a backslash or a control character.
pub fn plain_length(text: &[u8]) -> usize {
    let mut at = 0;
    // No branch inside a block, so that the compiler vectorises it.
    for block in text.as_chunks::<16>().0 {
        if block.iter().fold(false, |any, &byte| any | is_special(byte)) {
            break;
        }
        at += 16;
    }
    for word in text[at..].as_chunks().0 {
        if let Some(found) = first_special(*word) {
            return at + found;
        }
        at += 8;
    }
    match text.last_chunk() {
        // The last word overlaps bytes that are already known to be plain.
        Some(word) => first_special(*word).map_or(text.len(), |found| text.len() - 8 + found),
        None => at + text[at..].iter().take_while(|byte| !is_special(**byte)).count(),
    }
}

fn is_special(byte: u8) -> bool {
    (byte < b' ') | (byte == b'"') | (byte == b'\\')
}

/// Returns the index of the first special byte in a word.
fn first_special(word: [u8; 8]) -> Option<usize> {
    /// A word with 1 in each byte. Multiplying it by a byte repeats that byte.
    const EACH: u64 = 0x0101_0101_0101_0101;
    let word = u64::from_le_bytes(word);
    // A subtraction that underflows sets the highest bit of the byte. Its borrow may corrupt the
    // bytes after it. That is harmless, because only the first match counts.
    let below = |word: u64, least: u8| word.wrapping_sub(EACH * u64::from(least)) & !word;
    let equal = |to: u8| below(word ^ (EACH * u64::from(to)), 1);
    let specials = (below(word, b' ') | equal(b'"') | equal(b'\\')) & (EACH * 0x80);
    (specials != 0).then(|| (specials.trailing_zeros() / 8) as usize)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(text: &str) -> String {
        let mut json = Vec::new();
        Writer(&mut json).text(text);
        String::from_utf8(json).unwrap()
    }

    #[test]
    fn every_character_is_escaped_as_serde_json_does() {
        for code in (0..0x100).chain([0x2028, 0xd7ff, 0xffff, 0x10_ffff]) {
            let character = char::from_u32(code).unwrap();
            for before in 0..40 {
                let text = format!("{}{character}{}", "x".repeat(before), "y".repeat(40 - before));
                assert_eq!(written(&text), serde_json::to_string(&text).unwrap());
            }
        }
    }

    proptest! {
        #[test]
        fn search_finds_the_first_byte_to_escape(text in prop::collection::vec(any::<u8>(), 0..70)) {
            let found = text.iter().position(|&byte| is_special(byte)).unwrap_or(text.len());
            prop_assert_eq!(plain_length(&text), found);
        }

        #[test]
        fn text_equals_serde_json_and_fits_the_reserved_length(
            text in "(?s)(.|[\\x00-\\x7f]|[\"\\\\\n]|[a-z]{1,20}){0,30}",
        ) {
            let json = written(&text);
            prop_assert_eq!(&json, &serde_json::to_string(&text).unwrap());
            prop_assert!(json.len() <= Measured::of(&text).most_bytes() + 2);
        }

        #[test]
        fn numbers_equal_serde_json(number: u64, signed: i64) {
            let mut json = Vec::new();
            let mut writer = Writer(&mut json);
            writer.number(number);
            writer.raw(" ");
            writer.millis(Timestamp::from_millis(signed));
            prop_assert_eq!(String::from_utf8(json).unwrap(), format!("{number} {signed}"));
        }
    }
}
