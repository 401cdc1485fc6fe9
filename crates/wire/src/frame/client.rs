//! What clients say.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use bluetick_core::chat::SendRequest;
use bluetick_core::ports::Origin;
use bluetick_core::{ConversationId, Epoch, MarkKind, MessageId, Seq, Timestamp};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use thiserror::Error;
use utoipa::ToSchema;

use super::scan;
use crate::http;
use crate::{BadInput, ErrorCode, decode};

pub enum ClientFrame<'a> {
    Hello(Hello<'a>),
    Send(SendFrame<'a>),
    Mark(MarkKind, MarkFrame<'a>),
    Typing(TypingFrame<'a>),
    Ping,
}

/// A frame that was not understood.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FrameError {
    #[error(transparent)]
    Invalid(#[from] BadInput),
    #[error("this server knows no frame of that type")]
    UnknownType,
}

impl FrameError {
    pub fn code(&self) -> ErrorCode {
        match self {
            FrameError::Invalid(_) => ErrorCode::InvalidFrame,
            FrameError::UnknownType => ErrorCode::UnknownType,
        }
    }
}

impl<'a> ClientFrame<'a> {
    pub fn decode(text: &'a str) -> Result<ClientFrame<'a>, FrameError> {
        if let Some(frame) = scan::usual_frame(text) {
            return Ok(frame);
        }
        ClientFrame::decode_any(text)
    }

    /// Any frame, however it is written, with an error that names the field.
    pub(crate) fn decode_any(text: &'a str) -> Result<ClientFrame<'a>, FrameError> {
        #[derive(Deserialize)]
        struct Envelope<'a> {
            #[serde(borrow, rename = "type")]
            kind: Cow<'a, str>,
        }
        // Two steps, so that an error can name the field; the first one skips over everything but `type`.
        let json = text.as_bytes();
        match decode::<Envelope<'_>>(json)?.kind.as_ref() {
            "send" => Ok(ClientFrame::Send(decode(json)?)),
            "delivered" => Ok(ClientFrame::Mark(MarkKind::Delivered, decode(json)?)),
            "read" => Ok(ClientFrame::Mark(MarkKind::Read, decode(json)?)),
            "typing" => Ok(ClientFrame::Typing(decode(json)?)),
            "ping" => Ok(ClientFrame::Ping),
            "hello" => Ok(ClientFrame::Hello(decode(json)?)),
            _ => Err(FrameError::UnknownType),
        }
    }
}

/// The message a frame is about, also when nothing else in the frame can be understood: whoever sent it learns which
/// of its messages was refused.
pub fn readable_message_id(text: &str) -> Option<MessageId> {
    #[derive(Deserialize)]
    struct About<'a> {
        #[serde(borrow)]
        message_id: Cow<'a, str>,
    }
    decode::<About<'_>>(text.as_bytes()).ok()?.message_id.parse().ok()
}

/// The first frame of a connection.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({
    "type": "hello", "token": "eyJhbGciOi...", "device_id": "alice-phone",
    "positions": {"d0123456789abcdefghjkmnpq": {"epoch": 1, "seq": 44}},
}))]
pub struct Hello<'a> {
    #[serde(borrow)]
    #[schema(value_type = String)]
    pub token: Cow<'a, str>,
    /// Names the device. Accepted and not used yet.
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    pub device_id: Option<Cow<'a, str>>,
    /// What the device has, by conversation: everything up to a seq. It is sent what lies above, whatever other devices
    /// of the user have; and as if it had said `delivered`, it has said so. Of conversations it does not name it is
    /// sent what no device of the user has acknowledged, or else the newest page of those with activity after the
    /// newest position. Without any position only what is not acknowledged. A position of another epoch is passed over;
    /// one in a conversation the user is not in is answered with `gone`.
    #[schema(value_type = Option<HashMap<String, PositionSchema>>)]
    pub positions: Option<HashMap<String, Position>>,
}

impl Hello<'_> {
    /// Those that may be somebody's conversation, in this life of the store.
    pub fn positions_in(&self, epoch: Epoch) -> Vec<bluetick_core::ports::Position> {
        let known = self.positions.iter().flatten().filter_map(|(id, position)| {
            let same_life = position.epoch.is_none_or(|of| of == epoch.get());
            let seq = Seq::new(position.seq).min(Seq::MAX);
            same_life.then_some(bluetick_core::ports::Position { conversation: id.parse().ok()?, seq })
        });
        known.collect()
    }
}

/// Where a device is in a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub epoch: Option<u64>,
    pub seq: u64,
}

/// Where a device is in a conversation: everything up to a seq, in the epoch of the welcome; or the seq alone.
#[derive(ToSchema)]
#[schema(as = Position)]
#[serde(untagged)]
#[expect(dead_code, reason = "it describes what is read by hand, so that an error can name the field")]
enum PositionSchema {
    Whole { epoch: Option<u64>, seq: u64 },
    Seq(u64),
}

impl<'de> Deserialize<'de> for Position {
    /// An object, or the seq alone.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Position, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Position;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a position")
            }

            fn visit_u64<E: serde::de::Error>(self, seq: u64) -> Result<Position, E> {
                Ok(Position { epoch: None, seq })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Position, A::Error> {
                #[derive(Deserialize)]
                struct Fields {
                    epoch: Option<u64>,
                    seq: u64,
                }
                let Fields { epoch, seq } = Fields::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Position { epoch, seq })
            }
        }

        deserializer.deserialize_any(Either)
    }
}

/// Everything in the conversation up to this seq was delivered to the device (`delivered`), or read by the person
/// (`read`).
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"type": "read", "conversation_id": "d0123456789abcdefghjkmnpq", "seq": 44}))]
pub struct MarkFrame<'a> {
    #[serde(borrow)]
    #[schema(value_type = String)]
    pub(super) conversation_id: Cow<'a, str>,
    pub(super) seq: u64,
}

impl MarkFrame<'_> {
    /// `None` when it cannot be anybody's conversation.
    pub fn conversation(&self) -> Option<ConversationId> {
        self.conversation_id.parse().ok()
    }

    pub fn seq(&self) -> Seq {
        Seq::new(self.seq).min(Seq::MAX)
    }
}

/// The person is writing something. Say it again every few seconds while it lasts.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"type": "typing", "conversation_id": "d0123456789abcdefghjkmnpq"}))]
pub struct TypingFrame<'a> {
    #[serde(borrow)]
    #[schema(value_type = String)]
    conversation_id: Cow<'a, str>,
}

impl TypingFrame<'_> {
    /// `None` when it cannot be anybody's conversation.
    pub fn conversation(&self) -> Option<ConversationId> {
        self.conversation_id.parse().ok()
    }
}

/// A message to store, as over HTTP, with its conversation.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({
    "type": "send", "conversation_id": "d0123456789abcdefghjkmnpq",
    "message_id": "0199c0de-0000-7000-8000-000000000001", "content": "Lunch?",
}))]
pub struct SendFrame<'a> {
    #[serde(borrow)]
    #[schema(value_type = String)]
    pub(super) conversation_id: Cow<'a, str>,
    #[serde(borrow)]
    #[schema(value_type = String, min_length = 1, max_length = 128, pattern = "^(?!system:)[!-~]+$")]
    pub(super) message_id: Cow<'a, str>,
    #[serde(borrow)]
    #[schema(value_type = String, min_length = 1)]
    pub(super) content: Cow<'a, str>,
    /// `text` where it is not given; `system`, `erased`, `lost` and `void` are the server's own.
    #[serde(borrow)]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 64, pattern = "^(?!(system|erased|lost|void)$)[!-~]+$")]
    pub(super) content_type: Option<Cow<'a, str>>,
    /// The sender's clock, in milliseconds since the Unix epoch.
    pub(super) timestamp: Option<i64>,
    /// This is a resend.
    pub(super) retry: Option<bool>,
    /// With `retry`: everything up to this seq was known at the first attempt.
    pub(super) after_seq: Option<u64>,
}

impl SendFrame<'_> {
    pub fn message_id(&self) -> Result<MessageId, BadInput> {
        self.message_id.parse().map_err(|invalid| BadInput::field("message_id", invalid))
    }

    /// `None` when it cannot be anybody's conversation, which a client is told as for one it is not in.
    pub fn conversation(&self) -> Option<ConversationId> {
        self.conversation_id.parse().ok()
    }

    /// With what [`SendFrame::message_id`] and [`SendFrame::conversation`] said, so that nothing is read twice.
    pub fn into_request(
        self,
        conversation: ConversationId,
        message_id: MessageId,
        origin: Origin,
    ) -> Result<SendRequest, BadInput> {
        Ok(SendRequest {
            conversation,
            message_id,
            content_type: http::content_type(self.content_type.as_deref())?,
            content: self.content.into(),
            timestamp: self.timestamp.map(Timestamp::from_millis),
            retry_after: http::retry_after(self.retry, self.after_seq),
            origin: Some(origin),
        })
    }
}

#[cfg(test)]
mod tests;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod told;
