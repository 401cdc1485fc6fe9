//! The frames that clients send, and how they are decoded.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use bluetick_core::chat::SendRequest;
use bluetick_core::ports::Origin;
use bluetick_core::{ConversationId, Epoch, MessageId, ReceiptKind, Seq, Timestamp};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use thiserror::Error;
use utoipa::ToSchema;

use super::scan;
use crate::http;
use crate::{BadInput, ErrorCode, decode};

/// A decoded frame from a client.
pub enum ClientFrame<'a> {
    Hello(Hello<'a>),
    Send(SendFrame<'a>),
    Receipt(ReceiptKind, ReceiptFrame<'a>),
    Typing(TypingFrame<'a>),
    Ping,
}

/// Why a frame could not be decoded.
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

    /// Decodes any valid frame, whatever its field order or spacing. Errors name the field.
    pub(crate) fn decode_any(text: &'a str) -> Result<ClientFrame<'a>, FrameError> {
        #[derive(Deserialize)]
        struct Envelope<'a> {
            #[serde(borrow, rename = "type")]
            kind: Cow<'a, str>,
        }
        // Two passes, so that an error can name the field. The first pass skips everything but
        // `type`.
        let json = text.as_bytes();
        match decode::<Envelope<'_>>(json)?.kind.as_ref() {
            "send" => Ok(ClientFrame::Send(decode(json)?)),
            "delivered" => Ok(ClientFrame::Receipt(ReceiptKind::Delivered, decode(json)?)),
            "read" => Ok(ClientFrame::Receipt(ReceiptKind::Read, decode(json)?)),
            "typing" => Ok(ClientFrame::Typing(decode(json)?)),
            "ping" => Ok(ClientFrame::Ping),
            "hello" => Ok(ClientFrame::Hello(decode(json)?)),
            _ => Err(FrameError::UnknownType),
        }
    }
}

/// Returns the `message_id` of a frame that otherwise fails to decode, so that the error frame can
/// name the refused message.
pub fn readable_message_id(text: &str) -> Option<MessageId> {
    #[derive(Deserialize)]
    struct About<'a> {
        #[serde(borrow)]
        message_id: Cow<'a, str>,
    }
    decode::<About<'_>>(text.as_bytes()).ok()?.message_id.parse().ok()
}

/// Authenticates the connection and reports what the device already has.
///
/// The client sends it first, within `limits.hello_seconds` (10 seconds by default). The server
/// answers with `welcome`, the missed messages, and `caught_up`.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({
    "type": "hello", "token": "eyJhbGciOi...", "device_id": "alice-phone",
    "positions": {"d0123456789abcdefghjkmnpq": {"epoch": 1, "seq": 44}},
}))]
pub struct Hello<'a> {
    /// The access token, from log-in, sign-up or `POST /v1/tokens`.
    #[serde(borrow)]
    #[schema(value_type = String)]
    pub token: Cow<'a, str>,
    /// An identifier for the device. Accepted and ignored in this version.
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    pub device_id: Option<Cow<'a, str>>,
    /// What the device has, by `conversation_id`: every message up to the given seq.
    ///
    /// The server sends the messages above each position, whatever other devices of the user have.
    /// A position also counts as `delivered` up to that seq.
    ///
    /// For conversations without a position, the server sends the messages that no device of the
    /// user has acknowledged. If there are none, it sends the newest page of conversations with
    /// activity after the newest position. Without any positions, it sends unacknowledged messages
    /// only.
    ///
    /// The server ignores a position from another epoch or above the head. It answers a position in
    /// a conversation that the user is not in with `gone`.
    #[schema(value_type = Option<HashMap<String, PositionSchema>>)]
    pub positions: Option<HashMap<String, Position>>,
}

impl Hello<'_> {
    /// Returns the positions with a valid conversation id that are in this epoch of the store. A
    /// position without an epoch is accepted.
    pub fn positions_in(&self, epoch: Epoch) -> Vec<bluetick_core::ports::Position> {
        let known = self.positions.iter().flatten().filter_map(|(id, position)| {
            let same_life = position.epoch.is_none_or(|of| of == epoch.get());
            let seq = Seq::new(position.seq).min(Seq::MAX);
            same_life.then_some(bluetick_core::ports::Position { conversation: id.parse().ok()?, seq })
        });
        known.collect()
    }
}

/// What a device has of a conversation: every message up to `seq`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub epoch: Option<u64>,
    pub seq: u64,
}

/// What a device has of a conversation: every message up to `seq`, with the epoch from the
/// `welcome` frame. The seq alone is accepted too.
#[derive(ToSchema)]
#[schema(as = Position)]
#[serde(untagged)]
#[expect(dead_code, reason = "it describes what is read by hand, so that an error can name the field")]
enum PositionSchema {
    Whole { epoch: Option<u64>, seq: u64 },
    Seq(u64),
}

impl<'de> Deserialize<'de> for Position {
    /// Accepts an object, or the seq alone.
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

/// Acknowledges every message of a conversation up to a seq: as received by the device
/// (`delivered`) or as read by the user (`read`).
///
/// Receipts are cumulative and only move forward. `read` implies `delivered`. A late or repeated
/// frame changes nothing.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"type": "read", "conversation_id": "d0123456789abcdefghjkmnpq", "seq": 44}))]
pub struct ReceiptFrame<'a> {
    /// The conversation of the acknowledged messages.
    #[serde(borrow)]
    #[schema(value_type = String)]
    pub(super) conversation_id: Cow<'a, str>,
    /// The highest acknowledged seq. A value above the head counts as the head.
    pub(super) seq: u64,
}

impl ReceiptFrame<'_> {
    /// Returns `None` if the id is malformed. Callers treat it like an unknown conversation.
    pub fn conversation(&self) -> Option<ConversationId> {
        self.conversation_id.parse().ok()
    }

    pub fn seq(&self) -> Seq {
        Seq::new(self.seq).min(Seq::MAX)
    }
}

/// Tells the other members that the user is typing. Repeat it every few seconds while the user
/// types.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"type": "typing", "conversation_id": "d0123456789abcdefghjkmnpq"}))]
pub struct TypingFrame<'a> {
    /// The conversation in which the user types.
    #[serde(borrow)]
    #[schema(value_type = String)]
    conversation_id: Cow<'a, str>,
}

impl TypingFrame<'_> {
    /// Returns `None` if the id is malformed. Callers treat it like an unknown conversation.
    pub fn conversation(&self) -> Option<ConversationId> {
        self.conversation_id.parse().ok()
    }
}

/// Sends a message. The fields have the same meaning as in `POST
/// /v1/conversations/{conversation_id}/messages`.
///
/// The server answers with `ack`, or with `error` and the `message_id`. A resend with the same
/// `message_id` is safe: it returns the seq of the first attempt.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({
    "type": "send", "conversation_id": "d0123456789abcdefghjkmnpq",
    "message_id": "0199c0de-0000-7000-8000-000000000001", "content": "Lunch?",
}))]
pub struct SendFrame<'a> {
    /// The conversation to send to.
    #[serde(borrow)]
    #[schema(value_type = String)]
    pub(super) conversation_id: Cow<'a, str>,
    /// Created by the client before the first attempt; unique per conversation and sender. 1 to 128
    /// visible ASCII characters. A UUIDv7 is a good choice. The prefix `system:` is reserved.
    #[serde(borrow)]
    #[schema(value_type = String, min_length = 1, max_length = 128, pattern = "^(?!system:)[!-~]+$")]
    pub(super) message_id: Cow<'a, str>,
    /// The content of the message. The maximum size is `content_bytes` of `GET /v1/server`.
    #[serde(borrow)]
    #[schema(value_type = String, min_length = 1)]
    pub(super) content: Cow<'a, str>,
    /// The type of the content, chosen by the client. Default: `text`. The server reserves
    /// `system`, `erased`, `lost` and `void`.
    #[serde(borrow)]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 64, pattern = "^(?!(system|erased|lost|void)$)[!-~]+$")]
    pub(super) content_type: Option<Cow<'a, str>>,
    /// The sender's clock, in milliseconds since the Unix epoch. Default: the server's clock. For
    /// display only; it does not affect the order.
    pub(super) timestamp: Option<i64>,
    /// True if this is a resend of an earlier attempt. Default: false.
    pub(super) retry: Option<bool>,
    /// With `retry`: the highest seq that the client knew at the first attempt. The server searches
    /// for the first copy above it, even after the dedupe window. Ignored without `retry`.
    pub(super) after_seq: Option<u64>,
}

impl SendFrame<'_> {
    pub fn message_id(&self) -> Result<MessageId, BadInput> {
        self.message_id.parse().map_err(|invalid| BadInput::field("message_id", invalid))
    }

    /// Returns `None` if the id is malformed. The client gets the same error as for a conversation
    /// that it is not in.
    pub fn conversation(&self) -> Option<ConversationId> {
        self.conversation_id.parse().ok()
    }

    /// Takes the results of [`SendFrame::message_id`] and [`SendFrame::conversation`], so that
    /// neither id is parsed twice.
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

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod as_text;
#[cfg(test)]
mod tests;
