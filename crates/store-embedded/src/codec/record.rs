//! The encoding of one message, the same in the log, in memory and in a chunk.
//!
//! It omits the conversation and the seq, which its location implies. It also omits the receiver of
//! a direct message, which follows from the members.

use std::sync::Arc;

use bluetick_core::inbox::preview_of;
use bluetick_core::ports::Append;
use bluetick_core::{ContentType, MessageId, Timestamp, UserId};

use super::{DecodeError, Reader, bytes_length, put_bytes, put_signed, signed_length};

/// Tag of a UUID message id. Any other value is the length of a text id, in bytes. Stored, so the
/// value must never change.
const UUID: u8 = 0;
/// Tag of the content type `text`. Stored, so the values of all four tags must never change.
const TEXT: u8 = 0;
/// Tag of the content type `system`.
const SYSTEM: u8 = 1;
/// Tag of any other content type; its name follows.
const OTHER: u8 = 2;
/// Tag of the content type `erased`.
const ERASED: u8 = 3;

/// A decoded record. It borrows from its bytes, so decoding copies no text except the message id
/// and an unusual content type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    pub received_at: Timestamp,
    pub timestamp: Timestamp,
    pub sender: &'a str,
    pub message_id: MessageId,
    pub content_type: ContentType,
    pub content: &'a str,
}

impl<'a> Record<'a> {
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode(
            out,
            self.received_at,
            self.timestamp,
            self.sender,
            &self.message_id,
            &self.content_type,
            self.content,
        );
    }

    pub fn decode(bytes: &'a [u8]) -> Result<Record<'a>, DecodeError> {
        let mut reader = Reader(bytes);
        let received_at = reader.signed()?;
        let timestamp = received_at.wrapping_add(reader.signed()?);
        let sender = reader.str()?;
        let message_id = match reader.u8()? {
            UUID => MessageId::Uuid(reader.array()?),
            length => {
                let text = std::str::from_utf8(reader.take(usize::from(length))?);
                MessageId::Text(text.map_err(|_| DecodeError::Malformed("a message id"))?.into())
            }
        };
        let content_type = match reader.u8()? {
            TEXT => ContentType::Text,
            SYSTEM => ContentType::System,
            OTHER => ContentType::from_stored(reader.str()?),
            ERASED => ContentType::Erased,
            value => return Err(DecodeError::Unknown { what: "content type", value: value.into() }),
        };
        let content = std::str::from_utf8(reader.rest()).map_err(|_| DecodeError::Malformed("content"))?;
        Ok(Record {
            received_at: Timestamp::from_millis(received_at),
            timestamp: Timestamp::from_millis(timestamp),
            sender,
            message_id,
            content_type,
            content,
        })
    }

    pub fn sender_id(&self) -> Result<UserId, DecodeError> {
        UserId::from_stored(self.sender).map_err(|_| DecodeError::Malformed("a sender"))
    }

    pub fn shared_content(&self) -> Arc<str> {
        self.content.into()
    }
}

/// Returns the number of bytes that [`encode_append`] writes.
pub fn length_of(append: &Append) -> usize {
    let (received_at, timestamp) = (append.received_at.millis(), append.timestamp.millis());
    let sender = append.sender.as_str().len();
    let id = match &append.message_id {
        MessageId::Uuid(bytes) => bytes.len(),
        MessageId::Text(text) => text.len(),
    };
    let content_type = match &append.content_type {
        ContentType::Text | ContentType::System | ContentType::Erased => 1,
        other => 1 + bytes_length(other.as_str().len()),
    };
    let times = signed_length(received_at) + signed_length(timestamp.wrapping_sub(received_at));
    times + bytes_length(sender) + 1 + id + content_type + append.content.len()
}

/// Encodes the record of a new message.
pub fn encode_append(out: &mut Vec<u8>, append: &Append) {
    encode(
        out,
        append.received_at,
        append.timestamp,
        append.sender.as_str(),
        &append.message_id,
        &append.content_type,
        &append.content,
    );
}

/// Like [`Record::encode`], for fields that are not in a [`Record`].
pub fn encode(
    out: &mut Vec<u8>,
    received_at: Timestamp,
    timestamp: Timestamp,
    sender: &str,
    message_id: &MessageId,
    content_type: &ContentType,
    content: &str,
) {
    put_signed(out, received_at.millis());
    put_signed(out, timestamp.millis().wrapping_sub(received_at.millis()));
    put_bytes(out, sender.as_bytes());
    match message_id {
        MessageId::Uuid(bytes) => {
            out.push(UUID);
            out.extend_from_slice(bytes);
        }
        MessageId::Text(text) => {
            out.push(u8::try_from(text.len()).expect("a message id has at most 128 bytes"));
            out.extend_from_slice(text.as_bytes());
        }
    }
    match content_type {
        ContentType::Text => out.push(TEXT),
        ContentType::System => out.push(SYSTEM),
        ContentType::Erased => out.push(ERASED),
        ContentType::Lost | ContentType::Void | ContentType::Other(_) => {
            out.push(OTHER);
            put_bytes(out, content_type.as_str().as_bytes());
        }
    }
    out.extend_from_slice(content.as_bytes());
}

/// Returns the record with its content cut to the inbox preview.
pub fn cut(record: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let decoded = Record::decode(record)?;
    let shown = preview_of(&decoded.content_type, decoded.content);
    Ok(record[..record.len() - (decoded.content.len() - shown.len())].to_vec())
}

#[cfg(test)]
mod tests {
    use bluetick_core::ConversationId;
    use proptest::prelude::*;

    use super::super::testing::hex;
    use super::*;

    fn round_trip(record: &Record<'_>) {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        assert_eq!(Record::decode(&bytes).as_ref(), Ok(record));
    }

    #[test]
    fn records_match_bytes_of_version_1() {
        let record = Record {
            received_at: Timestamp::from_millis(1_713_087_600_000),
            timestamp: Timestamp::from_millis(1_713_087_599_990),
            sender: "alice",
            message_id: "0190b2a4-7c1e-7000-8000-0123456789ab".parse().unwrap(),
            content_type: ContentType::Text,
            content: "hey",
        };
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        assert_eq!(
            hex(&bytes),
            "80d6d2bf db631305 616c6963 65000190 b2a47c1e 70008000 01234567 89ab0068 6579"
        );
    }

    #[test]
    fn truncated_record_is_an_error_or_a_shorter_text() {
        let mut bytes = Vec::new();
        Record {
            received_at: Timestamp::from_millis(1),
            timestamp: Timestamp::from_millis(i64::MIN),
            sender: "bob",
            message_id: MessageId::Text("1".into()),
            content_type: ContentType::Other("image/png".into()),
            content: "x",
        }
        .encode(&mut bytes);
        let whole = bytes.len();
        assert!(Record::decode(&bytes).is_ok());
        for length in 0..whole - 1 {
            assert!(Record::decode(&bytes[..length]).is_err(), "{length}");
        }
    }

    proptest! {
        #[test]
        fn record_round_trips(received_at: i64, timestamp: i64, id in "[!-~]{1,128}", content in ".*", kind in "[a-z]{1,64}") {
            round_trip(&Record {
                received_at: Timestamp::from_millis(received_at),
                timestamp: Timestamp::from_millis(timestamp),
                sender: "alice",
                message_id: MessageId::from_stored(&id),
                content_type: ContentType::from_stored(&kind),
                content: &content,
            });
        }

        #[test]
        fn computed_record_length_equals_encoded_length(received_at: i64, timestamp: i64, id in "[!-~]{1,128}", content in ".*", kind in "[a-z]{1,64}") {
            let append = Append {
                conversation: ConversationId::group([1; 15]),
                sender: "alice".parse().unwrap(),
                message_id: MessageId::from_stored(&id),
                content_type: ContentType::from_stored(&kind),
                content: content.into(),
                timestamp: Timestamp::from_millis(timestamp),
                received_at: Timestamp::from_millis(received_at),
                retry_after: None,
                origin: None,
            };
            let mut bytes = Vec::new();
            encode_append(&mut bytes, &append);
            prop_assert_eq!(bytes.len(), length_of(&append));
        }

        #[test]
        fn decoding_arbitrary_bytes_as_record_never_panics(bytes: Vec<u8>) {
            let _ = Record::decode(&bytes);
        }
    }
}
