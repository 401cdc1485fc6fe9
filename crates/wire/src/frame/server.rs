//! What the server says. Each frame is encoded into one buffer of its own, to be shared by all who receive it.

use bluetick_core::ports::Appended;
use bluetick_core::{ConversationId, Epoch, Message, MessageId, Timestamp, UserId};
use serde::Serialize;
use utoipa::ToSchema;

use crate::ErrorCode;
use crate::http::{MessageBody, SentBody};
use crate::text::escaped_length;

/// The answer to a hello.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "type": "welcome", "user_id": "alice", "session_id": "s42", "epoch": 1, "server_time": 1767225600000i64,
}))]
pub struct WelcomeFrame<'a> {
    pub user_id: &'a str,
    /// Names this connection in the server's logs.
    pub session_id: &'a str,
    /// A client that knew another epoch drops what it has cached.
    pub epoch: u64,
    /// Milliseconds since the Unix epoch.
    pub server_time: i64,
}

/// The backlog is complete; what follows is live.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"type": "caught_up"}))]
pub struct CaughtUpFrame {}

#[derive(Serialize, ToSchema)]
#[schema(example = json!({"type": "pong"}))]
pub struct PongFrame {}

/// The message is stored. On the connection it was sent on, this stands in the message's place in the order.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "type": "ack", "conversation_id": "d0123456789abcdefghjkmnpq",
    "message_id": "0199c0de-0000-7000-8000-000000000001", "seq": 1, "received_at": 1767225600123i64, "duplicate": false,
}))]
pub struct AckFrame<'a> {
    #[serde(flatten)]
    pub sent: SentBody<'a>,
}

/// A message has been stored by somebody else, or on another connection of one's own.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "type": "message", "conversation_id": "d0123456789abcdefghjkmnpq", "seq": 1,
    "message_id": "0199c0de-0000-7000-8000-000000000001", "sender_id": "alice", "receiver_id": "bob",
    "content": "Lunch?", "content_type": "text", "timestamp": 1767225600000i64, "received_at": 1767225600123i64,
}))]
pub struct MessageFrame<'a> {
    #[serde(flatten)]
    pub message: MessageBody<'a>,
}

/// Something was refused. The connection lives.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "type": "error", "code": "rate_limited", "message": "too many messages",
    "message_id": "0199c0de-0000-7000-8000-000000000001",
}))]
pub struct ErrorFrame<'a> {
    /// For programs: one of the table of error codes.
    pub code: &'a str,
    /// For people.
    pub message: &'a str,
    /// The message it is about, where it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<&'a str>,
}

/// Fields around the content of a message or an ack rarely take more; ids of the greatest length cost one more
/// allocation.
const USUAL_BYTES_AROUND: usize = 320;

pub fn encode_message(message: &Message) -> String {
    let capacity = USUAL_BYTES_AROUND + escaped_length(&message.content);
    encode("message", &MessageBody::from(message), capacity)
}

pub fn encode_ack(conversation: ConversationId, message_id: &MessageId, appended: &Appended) -> String {
    encode("ack", &SentBody::new(conversation, message_id, appended), USUAL_BYTES_AROUND)
}

pub fn encode_welcome(user: &UserId, session_id: &str, epoch: Epoch, now: Timestamp) -> String {
    let frame =
        WelcomeFrame { user_id: user.as_str(), session_id, epoch: epoch.get(), server_time: now.millis() };
    encode("welcome", &frame, 256)
}

pub fn encode_error(code: ErrorCode, message: &str, message_id: Option<&str>) -> String {
    encode("error", &ErrorFrame { code: code.as_str(), message, message_id }, 256)
}

pub const fn encode_caught_up() -> &'static str {
    r#"{"type":"caught_up"}"#
}

pub const fn encode_pong() -> &'static str {
    r#"{"type":"pong"}"#
}

/// The type comes first, so that a frame can be told by its first bytes.
fn encode(kind: &str, body: &impl Serialize, capacity: usize) -> String {
    let mut json = Vec::with_capacity(capacity);
    json.extend_from_slice(b"{\"type\":\"");
    json.extend_from_slice(kind.as_bytes());
    json.push(b'"');
    let body_at = json.len();
    serde_json::to_writer(&mut json, body).expect("frames hold strings and numbers only");
    // The body's own brace gives way to a comma: flattening through serde would allocate for every field.
    json[body_at] = b',';
    String::from_utf8(json).expect("JSON is UTF-8")
}
