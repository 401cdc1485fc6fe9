//! Identifiers: their valid forms, and the derivation of a direct conversation's id from its two
//! users.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use thiserror::Error;

/// The kind of a conversation, which its id encodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConversationKind {
    /// A conversation of two users who never change. Its id is derived from them.
    Direct,
    Group,
}

/// Returns whether the character has the general category Cf (format), as of Unicode 16.
pub fn is_format(letter: char) -> bool {
    matches!(letter,
        '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}'
        | '\u{8e2}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{2064}' | '\u{2066}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0001}' | '\u{e0020}'..='\u{e007f}')
}

#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum InvalidId {
    #[error("a user_id has 1 to 128 bytes, without spaces, control characters or format characters")]
    User,
    #[error("a message_id has 1 to 128 visible ASCII characters and does not start with \"system:\"")]
    Message,
    #[error("not a conversation_id")]
    Conversation,
}

/// The id of a user, from the operator's token (`sub`) or from sign-up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserId(Arc<str>);

impl UserId {
    /// Upper bound on a user id, in bytes of UTF-8. [`ConversationId::direct`] hashes the length as
    /// one byte and panics above 255.
    pub const MAX_BYTES: usize = 128;

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Parses an id from the store. It accepts format characters, because earlier versions stored
    /// them.
    pub fn from_stored(text: &str) -> Result<UserId, InvalidId> {
        let length_fits = (1..=UserId::MAX_BYTES).contains(&text.len());
        if !length_fits || text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(InvalidId::User);
        }
        Ok(UserId(text.into()))
    }
}

/// Parses an id from outside the server (a token, a request, the command line) and rejects format
/// characters.
impl FromStr for UserId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<UserId, InvalidId> {
        if text.chars().any(is_format) { Err(InvalidId::User) } else { UserId::from_stored(text) }
    }
}

impl fmt::Display for UserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Borrow<str> for UserId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// The id that a client creates for a message before its first send attempt. It is unique per
/// (conversation, sender).
///
/// A UUID in canonical spelling is stored as 16 bytes. Formatting always returns the original text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MessageId {
    Uuid([u8; 16]),
    Text(Arc<str>),
}

/// Prefix of the ids of system notices. Clients cannot use it, so they cannot forge or block a
/// notice.
const SYSTEM_PREFIX: &str = "system:";

impl MessageId {
    /// Upper bound on a message id, in bytes. The embedded store keeps the length in one byte and
    /// panics above 255.
    pub const MAX_BYTES: usize = 128;

    /// Returns the id of the system notice (or void) at `seq`.
    pub fn of_notice(seq: crate::Seq) -> MessageId {
        MessageId::Text(format!("{SYSTEM_PREFIX}{seq}").into())
    }

    /// Converts an id from the store, without validation.
    pub fn from_stored(text: &str) -> MessageId {
        match parse_uuid(text) {
            Some(bytes) => MessageId::Uuid(bytes),
            None => MessageId::Text(text.into()),
        }
    }

    /// Returns the canonical text of a UUID in ASCII, without using a formatter.
    pub fn spelled_uuid(bytes: &[u8; 16]) -> [u8; UUID_TEXT_LENGTH] {
        let mut text = [b'-'; UUID_TEXT_LENGTH];
        for (place, byte) in UUID_PLACES.into_iter().zip(bytes) {
            text[place] = HEX[usize::from(byte >> 4)];
            text[place + 1] = HEX[usize::from(byte & 15)];
        }
        text
    }
}

impl FromStr for MessageId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<MessageId, InvalidId> {
        // Most ids are UUIDs. A canonical UUID is visible ASCII and never starts with the reserved
        // prefix, so it needs no further check.
        if let Some(bytes) = parse_uuid(text) {
            return Ok(MessageId::Uuid(bytes));
        }
        let length_fits = (1..=MessageId::MAX_BYTES).contains(&text.len());
        if !length_fits || !text.bytes().all(|b| b.is_ascii_graphic()) || text.starts_with(SYSTEM_PREFIX) {
            return Err(InvalidId::Message);
        }
        Ok(MessageId::Text(text.into()))
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MessageId::Text(text) => f.write_str(text),
            MessageId::Uuid(bytes) => {
                let text = MessageId::spelled_uuid(bytes);
                f.write_str(std::str::from_utf8(&text).expect("hex digits and hyphens are ASCII"))
            }
        }
    }
}

/// Digits of a canonical UUID, by value. Other digits would change the text of stored ids.
const HEX: &[u8; 16] = b"0123456789abcdef";

/// Length of a canonical UUID, in bytes: 32 digits and 4 hyphens.
const UUID_TEXT_LENGTH: usize = 36;
/// Index of the first of the two hex digits of each UUID byte. Hyphens occupy the other indexes. A
/// wrong index changes the text of stored ids.
const UUID_PLACES: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];

/// Parses a UUID in canonical spelling (lower case, with hyphens). It returns `None` for other
/// spellings, because formatting could not restore them.
fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let text: &[u8; UUID_TEXT_LENGTH] = text.as_bytes().try_into().ok()?;
    if [8, 13, 18, 23].iter().any(|&at| text[at] != b'-') {
        return None;
    }
    let mut bytes = [0; 16];
    let mut seen = 0;
    for (place, byte) in UUID_PLACES.into_iter().zip(&mut bytes) {
        let (high, low) = (HEX_VALUES[usize::from(text[place])], HEX_VALUES[usize::from(text[place + 1])]);
        seen |= high | low;
        *byte = (high << 4) | (low & 15);
    }
    (seen < NO_DIGIT).then_some(bytes)
}

/// Builds a lookup table from an ASCII byte to its digit value, or [`NO_DIGIT`] for other bytes.
const fn values_of(digits: &[u8]) -> [u8; 256] {
    let mut values = [NO_DIGIT; 256];
    let mut value = 0;
    while value < digits.len() {
        values[digits[value] as usize] = value as u8;
        value += 1;
    }
    values
}

/// Marks a byte that is not a digit. Its bit is in no digit value, so OR-ing all values of a text
/// detects an invalid byte with one comparison.
const NO_DIGIT: u8 = 0x80;
static HEX_VALUES: [u8; 256] = values_of(HEX);

/// The id of a conversation: one byte for its kind, then 120 bits. Its text form is `d` or `g` and
/// 24 base-32 characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConversationId([u8; 16]);

/// Digits of a conversation id (Crockford's base 32), by value. A change makes all existing ids
/// unreadable.
const BASE32: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
static BASE32_VALUES: [u8; 256] = values_of(BASE32);
/// Length of a conversation id's text form, in bytes: the kind and 24 base-32 digits.
const CONVERSATION_TEXT_LENGTH: usize = 25;

impl ConversationId {
    /// Returns the id of the direct conversation of two users. It is a pure function of the pair,
    /// in either order.
    pub fn direct(one: &UserId, other: &UserId) -> ConversationId {
        let (low, high) = if one <= other { (one, other) } else { (other, one) };
        let mut hash = Sha256::new();
        hash.update(b"bluetick direct conversation v1\0");
        hash.update([u8::try_from(low.as_str().len()).expect("a user id has at most 128 bytes")]);
        hash.update(low.as_str());
        hash.update(high.as_str());
        let digest = hash.finalize();
        let mut bits = [0; 15];
        bits.copy_from_slice(&digest[..15]);
        ConversationId::from_bits(ConversationKind::Direct, bits)
    }

    /// Returns the id of a group, from 120 random bits.
    pub fn group(random: [u8; 15]) -> ConversationId {
        ConversationId::from_bits(ConversationKind::Group, random)
    }

    fn from_bits(kind: ConversationKind, bits: [u8; 15]) -> ConversationId {
        let mut bytes = [0; 16];
        bytes[0] = match kind {
            ConversationKind::Direct => b'd',
            ConversationKind::Group => b'g',
        };
        bytes[1..].copy_from_slice(&bits);
        ConversationId(bytes)
    }

    pub fn kind(self) -> ConversationKind {
        if self.0[0] == b'd' { ConversationKind::Direct } else { ConversationKind::Group }
    }

    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Converts the stored form. Returns `None` when the first byte is not a known kind.
    pub fn from_bytes(bytes: [u8; 16]) -> Option<ConversationId> {
        matches!(bytes[0], b'd' | b'g').then_some(ConversationId(bytes))
    }

    /// Returns the text form in ASCII, without using a formatter.
    pub fn spelled(&self) -> [u8; CONVERSATION_TEXT_LENGTH] {
        let mut text = [0; CONVERSATION_TEXT_LENGTH];
        text[0] = self.0[0];
        for (five, eight) in self.0[1..].chunks_exact(5).zip(text[1..].chunks_exact_mut(8)) {
            let bits = five.iter().fold(0u64, |bits, &byte| (bits << 8) | u64::from(byte));
            for (place, digit) in eight.iter_mut().enumerate() {
                *digit = BASE32[((bits >> (35 - 5 * place)) & 31) as usize];
            }
        }
        text
    }
}

impl fmt::Display for ConversationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.spelled()).expect("base 32 is ASCII"))
    }
}

impl fmt::Debug for ConversationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ConversationId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<ConversationId, InvalidId> {
        let text: &[u8; CONVERSATION_TEXT_LENGTH] =
            text.as_bytes().try_into().map_err(|_| InvalidId::Conversation)?;
        let mut bytes = [0; 16];
        bytes[0] = text[0];
        let mut seen = 0;
        for (eight, five) in text[1..].chunks_exact(8).zip(bytes[1..].chunks_exact_mut(5)) {
            let mut bits = 0u64;
            for &digit in eight {
                let value = BASE32_VALUES[usize::from(digit)];
                seen |= value;
                bits = (bits << 5) | u64::from(value);
            }
            five.copy_from_slice(&bits.to_be_bytes()[3..]);
        }
        if seen >= NO_DIGIT {
            return Err(InvalidId::Conversation);
        }
        ConversationId::from_bytes(bytes).ok_or(InvalidId::Conversation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> UserId {
        name.parse().unwrap()
    }

    #[test]
    fn both_sides_of_a_direct_conversation_compute_the_same_id() {
        let id = ConversationId::direct(&user("alice"), &user("bob"));
        assert_eq!(id, ConversationId::direct(&user("bob"), &user("alice")));
        assert_ne!(id, ConversationId::direct(&user("alice"), &user("bobby")));
        assert_eq!(id.kind(), ConversationKind::Direct);
    }

    #[test]
    fn direct_ids_differ_when_the_boundary_between_the_names_differs() {
        let one = ConversationId::direct(&user("ab"), &user("c"));
        assert_ne!(one, ConversationId::direct(&user("a"), &user("bc")));
    }

    #[test]
    fn direct_id_of_alice_and_bob_is_stable() {
        let id = ConversationId::direct(&user("alice"), &user("bob"));
        assert_eq!(id.to_string(), "d8bb685q324cja7ng42pc0pck");
    }

    #[test]
    fn conversation_id_parses_from_its_own_text() {
        for random in [[0; 15], [255; 15], *b"fifteen bytes!!"] {
            let id = ConversationId::group(random);
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        for bad in
            ["", "g", "x000000000000000000000000", "g00000000000000000000000u", "g0000000000000000000000000"]
        {
            assert_eq!(bad.parse::<ConversationId>(), Err(InvalidId::Conversation), "{bad}");
        }
    }

    #[test]
    fn message_id_text_round_trips() {
        for text in [
            "0190b2a4-7c1e-7000-8000-0123456789ab",
            "0190B2A4-7C1E-7000-8000-0123456789AB",
            "0190b2a47c1e700080000123456789ab",
            "1",
        ] {
            assert_eq!(text.parse::<MessageId>().unwrap().to_string(), text);
        }
        assert!(matches!("0190b2a4-7c1e-7000-8000-0123456789ab".parse(), Ok(MessageId::Uuid(_))));
        for bad in ["", "with space", "ümlaut", "system:1", &"x".repeat(129)] {
            assert_eq!(bad.parse::<MessageId>(), Err(InvalidId::Message), "{bad}");
        }
    }

    #[test]
    fn malformed_uuids_and_conversation_ids_are_rejected() {
        let (uuid, conversation) = ("0190b2a4-7c1e-7000-8000-0123456789ab", "g0123456789abcdefghjkmnpq");
        for other in ['g', 'A', '-', 'u', '!', '~'] {
            for at in 0..uuid.len() {
                let mut near = uuid.to_string();
                near.replace_range(at..=at, other.encode_utf8(&mut [0; 4]));
                let read: MessageId = near.parse().unwrap();
                assert_eq!(
                    (read.to_string(), matches!(read, MessageId::Text(_))),
                    (near.clone(), near != uuid)
                );
            }
            for at in 1..conversation.len() {
                let mut near = conversation.to_string();
                near.replace_range(at..=at, other.encode_utf8(&mut [0; 4]));
                assert_eq!(near.parse::<ConversationId>().is_ok(), other == 'g', "{near}");
            }
        }
    }

    #[test]
    fn format_characters_in_ids_are_rejected_in_input_and_accepted_from_a_store() {
        for name in ["al\u{200b}ice", "\u{202e}alice", "\u{feff}alice", "al\u{ad}ice"] {
            assert_eq!(name.parse::<UserId>(), Err(InvalidId::User), "{name:?}");
            assert_eq!(UserId::from_stored(name).unwrap().as_str(), name);
        }
        assert_eq!(UserId::from_stored("a b"), Err(InvalidId::User));
    }

    #[test]
    fn user_id_accepts_any_visible_text_and_rejects_spaces_and_controls() {
        for good in ["alice", "auth0|5f7c", "alice@example.org", "日本", &"x".repeat(128)] {
            assert_eq!(good.parse::<UserId>().unwrap().as_str(), good);
        }
        for bad in ["", "a b", "a\n", "\u{7f}", &"x".repeat(129)] {
            assert_eq!(bad.parse::<UserId>(), Err(InvalidId::User), "{bad:?}");
        }
    }
}
