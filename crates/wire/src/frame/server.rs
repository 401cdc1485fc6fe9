//! What the server says. Each frame is encoded into one buffer of its own, to be shared by all who receive it.

use std::time::Duration;

use bluetick_core::ports::Appended;
use bluetick_core::{
    Boundaries, ConversationId, Epoch, InboxEntry, Message, MessageId, Profile, Seq, Timestamp, UserId,
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::ErrorCode;
use crate::http::{InboxEntryBody, MessageBody, PresenceBody, SentBody};
use crate::json::{Measured, Writer};
use crate::text;

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

/// The backlog is complete; what follows is live. The backlog is messages alone: ticks, settings and membership that
/// changed meanwhile are in the inbox (`GET /v1/conversations`).
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

/// Somebody has got or read more of a conversation. To the other devices of the one who did, and to the other members:
/// in conversations of up to 16 members to all of them at once; in larger ones within a quarter of a second, as long as
/// it is not more than 8 who moved, to those who sent one of the last 100 messages or wait for the tick of an earlier
/// one.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "type": "status", "conversation_id": "d0123456789abcdefghjkmnpq", "user_id": "bob", "last_delivered_seq": 44,
    "last_read_seq": 40,
}))]
pub struct StatusFrame<'a> {
    #[serde(serialize_with = "text::shown")]
    #[schema(value_type = String)]
    pub conversation_id: ConversationId,
    pub user_id: &'a str,
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub last_delivered_seq: Seq,
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub last_read_seq: Seq,
    /// On one's own devices: how many messages are unread now, where that was at hand. Otherwise the inbox tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread: Option<u64>,
}

/// How far all other members of a group have come: in groups of more than 16 members, whenever that has changed, to the
/// people who get a `status` there, and in its place when many moved; in any group when somebody leaves and those who are
/// left have come further.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "type": "receipts", "conversation_id": "g0123456789abcdefghjkmnpq", "last_delivered_seq": 44, "last_read_seq": 12,
}))]
pub struct ReceiptsFrame {
    #[serde(serialize_with = "text::shown")]
    #[schema(value_type = String)]
    pub conversation_id: ConversationId,
    /// Everything up to here is delivered to all others.
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub last_delivered_seq: Seq,
    /// Everything up to here is read by all others.
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub last_read_seq: Seq,
}

/// Somebody is writing. It lasts a few seconds unless it is said again.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"type": "typing", "conversation_id": "d0123456789abcdefghjkmnpq", "user_id": "bob"}))]
pub struct TypingServerFrame<'a> {
    #[serde(serialize_with = "text::shown")]
    #[schema(value_type = String)]
    pub conversation_id: ConversationId,
    pub user_id: &'a str,
}

/// Somebody one talks with has come or gone. Told for one's latest direct conversations; of others, ask.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"type": "presence", "user_id": "bob", "online": true, "last_seen_at": null}))]
pub struct PresenceFrame<'a> {
    #[serde(flatten)]
    pub presence: PresenceBody<'a>,
}

/// A conversation is new to the user, or the user set something about it: its line of the inbox as it is now.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "type": "conversation", "conversation_id": "d0123456789abcdefghjkmnpq", "kind": "direct", "title": null,
    "peer": "bob", "member_count": 2, "last_seq": 0, "last_at": 1767225600000i64, "preview": "", "last_message": null,
    "unread": 0, "first_seq": 1, "my_status": {"last_delivered_seq": 0, "last_read_seq": 0},
    "peer_status": {"last_delivered_seq": 0, "last_read_seq": 0},
    "muted": false, "pinned": false, "archived": false, "read_receipts": true,
    "peer_presence": {"user_id": "bob", "online": false, "last_seen_at": null},
}))]
pub struct ConversationFrame<'a> {
    #[serde(flatten)]
    pub entry: InboxEntryBody<'a>,
}

/// In the backlog: more of this conversation was missed than is sent by itself. Page on with `after_seq`; the next
/// message that is pushed has a seq above `head_seq`. (Acks of one's own sends, and the notice of one's own leaving,
/// may still come for places below.)
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "type": "backlog", "conversation_id": "d0123456789abcdefghjkmnpq", "next_after_seq": 1000, "head_seq": 250000,
}))]
pub struct BacklogFrame {
    #[serde(serialize_with = "text::shown")]
    #[schema(value_type = String)]
    pub conversation_id: ConversationId,
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub next_after_seq: Seq,
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub head_seq: Seq,
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
    /// The conversation a refused `delivered`, `read` or `typing` is about.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "text::shown_if_any")]
    #[schema(value_type = Option<String>)]
    pub conversation_id: Option<ConversationId>,
}

/// You are not in this conversation, or not any more; said of a position in `hello`, and when you leave while its
/// backlog is being sent. What was missing of it is not there to be paged.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"type": "gone", "conversation_id": "g0123456789abcdefghjkmnpq"}))]
pub struct GoneFrame {
    #[serde(serialize_with = "text::shown")]
    #[schema(value_type = String)]
    pub conversation_id: ConversationId,
}

/// The server shuts down and closes the connection with 1012 right after. Come back after this long; the server spreads
/// its clients over time by it.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"type": "come_back", "after_ms": 1730}))]
pub struct ComeBackFrame {
    pub after_ms: u64,
}

/// Fields of most frames rarely take more; ids of the greatest length cost one more allocation.
const USUAL_BYTES: usize = 320;

pub fn encode_message(message: &Message) -> String {
    let mut json = Vec::new();
    write_message(&mut json, message);
    in_utf8(json)
}

/// Appends what [`encode_message`] returns.
pub fn write_message(into: &mut Vec<u8>, message: &Message) {
    const BEGINNING: &str = r#"{"type":"message","#;
    let (body, content) = (MessageBody::from(message), Measured::of(&message.content));
    into.reserve(BEGINNING.len() + body.usual_bytes_around() + content.most_bytes());
    into.extend_from_slice(BEGINNING.as_bytes());
    body.write_fields(into, content);
}

pub fn encode_ack(conversation: ConversationId, message_id: &MessageId, appended: &Appended) -> String {
    let mut json = Vec::new();
    write_ack(&mut json, conversation, message_id, appended);
    in_utf8(json)
}

/// Appends what [`encode_ack`] returns.
pub fn write_ack(
    into: &mut Vec<u8>,
    conversation: ConversationId,
    message_id: &MessageId,
    appended: &Appended,
) {
    const BEGINNING: &str = r#"{"type":"ack","#;
    let body = SentBody::new(conversation, message_id, appended);
    into.reserve(BEGINNING.len() + body.usual_bytes());
    into.extend_from_slice(BEGINNING.as_bytes());
    body.write_fields(into);
}

/// For the others; and for the member's own devices, with `unread` where it is known.
pub fn encode_status(
    conversation_id: ConversationId,
    user: &UserId,
    boundaries: Boundaries,
    unread: Option<u64>,
) -> String {
    let mut json = Vec::new();
    write_status(&mut json, conversation_id, user, boundaries, unread);
    in_utf8(json)
}

/// Appends what [`encode_status`] returns.
pub fn write_status(
    into: &mut Vec<u8>,
    conversation_id: ConversationId,
    user: &UserId,
    boundaries: Boundaries,
    unread: Option<u64>,
) {
    // Names, quotes and the conversation are 125; no number has more than 20 digits.
    into.reserve(125 + user.as_str().len() + 3 * 20);
    let mut json = Writer(into);
    json.raw(r#"{"type":"status","conversation_id":"#);
    json.conversation(&conversation_id);
    json.raw(r#","user_id":"#);
    json.text(user.as_str());
    json.raw(r#","last_delivered_seq":"#);
    json.seq(boundaries.delivered);
    json.raw(r#","last_read_seq":"#);
    json.seq(boundaries.read);
    if let Some(unread) = unread {
        json.raw(r#","unread":"#);
        json.number(unread);
    }
    json.raw("}");
}

pub fn encode_receipts(conversation_id: ConversationId, lowest: Boundaries) -> String {
    let Boundaries { delivered: last_delivered_seq, read: last_read_seq } = lowest;
    let frame = ReceiptsFrame { conversation_id, last_delivered_seq, last_read_seq };
    encode("receipts", &frame, USUAL_BYTES)
}

pub fn encode_typing(conversation_id: ConversationId, user: &UserId) -> String {
    encode("typing", &TypingServerFrame { conversation_id, user_id: user.as_str() }, 128)
}

pub fn encode_presence(user: &UserId, online: bool, profile: &Profile) -> String {
    encode("presence", &PresenceBody::new(user, online, profile), 128)
}

pub fn encode_conversation(entry: &InboxEntry, peer_presence: Option<PresenceBody<'_>>) -> String {
    encode("conversation", &InboxEntryBody::new(entry, peer_presence), 1024)
}

pub fn encode_backlog(conversation_id: ConversationId, next_after_seq: Seq, head_seq: Seq) -> String {
    encode("backlog", &BacklogFrame { conversation_id, next_after_seq, head_seq }, USUAL_BYTES)
}

pub fn encode_welcome(user: &UserId, session_id: &str, epoch: Epoch, now: Timestamp) -> String {
    let frame =
        WelcomeFrame { user_id: user.as_str(), session_id, epoch: epoch.get(), server_time: now.millis() };
    encode("welcome", &frame, 256)
}

/// `message_id` and `conversation_id` say what it is about.
pub fn encode_error(
    code: ErrorCode,
    message: &str,
    message_id: Option<&str>,
    conversation_id: Option<ConversationId>,
) -> String {
    encode("error", &ErrorFrame { code: code.as_str(), message, message_id, conversation_id }, 256)
}

pub fn encode_gone(conversation_id: ConversationId) -> String {
    encode("gone", &GoneFrame { conversation_id }, 128)
}

pub fn encode_come_back(after: Duration) -> String {
    let after_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
    encode("come_back", &ComeBackFrame { after_ms }, 64)
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
    in_utf8(json)
}

fn in_utf8(json: Vec<u8>) -> String {
    String::from_utf8(json).expect("JSON is UTF-8")
}
