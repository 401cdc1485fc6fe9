//! One message as a segment holds it: whole, so that a segment can be read without the tables.

use std::borrow::Cow;
use std::sync::Arc;

use bluetick_core::{ContentType, Message, Timestamp, UserId};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::cells::Cell;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    by: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    to: Option<Cow<'a, str>>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    /// The sender's clock.
    sent: i64,
    received: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_at: Option<i64>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    departed: Option<Cow<'a, str>>,
    #[serde(borrow)]
    text: Cow<'a, str>,
    /// The content was in an object that could not be read any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    lost: bool,
}

impl<'a> Record<'a> {
    pub fn of(cell: &'a Cell) -> Record<'a> {
        let message = &cell.message;
        Record {
            id: message.message_id.to_string().into(),
            by: message.sender.as_str().into(),
            to: message.receiver.as_ref().map(|user| user.as_str().into()),
            kind: message.content_type.as_str().into(),
            sent: message.timestamp.millis(),
            received: message.received_at.millis(),
            last_at: cell.last_at.map(Timestamp::millis),
            departed: cell.departed.as_ref().map(|user| UserId::as_str(user).into()),
            text: Cow::Borrowed(&message.content),
            lost: false,
        }
    }

    pub fn lost(self) -> Record<'a> {
        Record { text: "".into(), lost: true, ..self }
    }

    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a record holds strings and numbers only")
    }

    pub fn decode(bytes: &'a [u8]) -> Option<Record<'a>> {
        serde_json::from_slice(bytes).ok()
    }

    /// Whether it is of this very message.
    pub fn is_of(&self, message: &Message) -> bool {
        self.id == message.message_id.to_string()
            && self.by == message.sender.as_str()
            && self.kind == message.content_type.as_str()
            && self.sent == message.timestamp.millis()
            && self.received == message.received_at.millis()
    }

    /// Puts the content back, or says that it is lost.
    pub fn give_to(&self, message: &mut Message) {
        match self.lost {
            true => lose(message),
            false => message.content = self.text.as_ref().into(),
        }
    }

    pub fn is_lost(&self) -> bool {
        self.lost
    }
}

pub(crate) fn lose(message: &mut Message) {
    message.content_type = ContentType::Lost;
    message.content = "".into();
}

/// What a row keeps of its content. Bound to the message, so that the same words twice do not look the same.
pub(crate) fn content_hash(message: &Message, content: &str) -> Arc<str> {
    let mut hasher = Sha256::new();
    for part in [&*message.conversation.to_string(), &message.seq.get().to_string(), content] {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    let digest: [u8; 32] = hasher.finalize().into();
    digest[..16].iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}")).into()
}
