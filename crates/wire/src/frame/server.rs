//! The frames that the server sends. Each frame is encoded once, into a buffer that all its
//! receivers share.

use std::time::Duration;

use bluetick_core::ports::Appended;
use bluetick_core::{
    ConversationId, Epoch, InboxEntry, Message, MessageId, Profile, ReadState, Seq, Timestamp, UserId,
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::ErrorCode;
use crate::http::{InboxEntryBody, MessageBody, PresenceBody, SentBody};
use crate::json::{Measured, Writer};
use crate::text;

/// Confirms the `hello`. It is the first frame from the server.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "type": "welcome", "user_id": "alice", "session_id": "s42", "epoch": 1, "server_time": 1767225600000i64,
}))]
pub struct WelcomeFrame<'a> {
    /// The user that the token belongs to.
    pub user_id: &'a str,
    /// Identifies this connection in the server's logs.
    pub session_id: &'a str,
    /// The epoch of the store. It changes when the store is restored to an earlier state. A client
    /// that knew another epoch drops its cache.
    pub epoch: u64,
    /// The server's clock, in milliseconds since the Unix epoch.
    pub server_time: i64,
}

/// Ends the catch-up. All later frames are live.
///
/// The catch-up contains messages only. Read states, settings and memberships that changed
/// meanwhile are in the inbox (`GET /v1/conversations`).
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"type": "caught_up"}))]
pub struct CaughtUpFrame {}

/// The answer to `ping`.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"type": "pong"}))]
pub struct PongFrame {}

/// Acknowledges a `send`: the message is durable.
///
/// The connection that sent the message gets this frame instead of `message`, at the same position
/// in the order.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "type": "ack", "conversation_id": "d0123456789abcdefghjkmnpq",
    "message_id": "0199c0de-0000-7000-8000-000000000001", "seq": 1, "received_at": 1767225600123i64, "duplicate": false,
}))]
pub struct AckFrame<'a> {
    #[serde(flatten)]
    pub sent: SentBody<'a>,
}

/// A message that another user sent, or that the same user sent from another connection.
///
/// The client confirms it with `delivered`, and ignores a seq that it has already.
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

/// The read state of a member has advanced.
///
/// The server sends it to the member's other devices and to the other members. In conversations of
/// up to 16 members, all members get it immediately.
///
/// In larger ones, the server collects receipts for 250 ms. If at most 8 members advanced, it sends
/// a `status` for each of them, otherwise one `receipts` frame. Only members who sent one of the
/// last 100 messages, or who wait for the tick of an earlier one, get these frames.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "type": "status", "conversation_id": "d0123456789abcdefghjkmnpq", "user_id": "bob", "last_delivered_seq": 44,
    "last_read_seq": 40,
}))]
pub struct StatusFrame<'a> {
    /// The conversation of the read state.
    #[serde(serialize_with = "text::shown")]
    #[schema(value_type = String)]
    pub conversation_id: ConversationId,
    /// The member whose read state advanced.
    pub user_id: &'a str,
    /// Every message up to this seq is delivered to the member.
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub last_delivered_seq: Seq,
    /// The member has read every message up to this seq. Never above `last_delivered_seq`.
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub last_read_seq: Seq,
    /// The member's new unread count. Sent to the member's own devices only, and absent if the
    /// server does not have it at hand; the inbox has it then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread: Option<u64>,
}

/// The lowest read state of all other members of a group, for the ticks of the receiver's own
/// messages.
///
/// In groups of more than 16 members, the server sends it when this state advances, to the members
/// who also get `status` there. It replaces `status` when more than 8 members advanced at once. In
/// groups of any size, the server sends it when a member leaves and the state of the remaining
/// members is higher.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "type": "receipts", "conversation_id": "g0123456789abcdefghjkmnpq", "last_delivered_seq": 44, "last_read_seq": 12,
}))]
pub struct ReceiptsFrame {
    /// The group.
    #[serde(serialize_with = "text::shown")]
    #[schema(value_type = String)]
    pub conversation_id: ConversationId,
    /// Every message up to this seq is delivered to all other members.
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub last_delivered_seq: Seq,
    /// All other members have read every message up to this seq.
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub last_read_seq: Seq,
}

/// A member is typing. Show it for a few seconds, unless another frame extends it.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"type": "typing", "conversation_id": "d0123456789abcdefghjkmnpq", "user_id": "bob"}))]
pub struct TypingServerFrame<'a> {
    /// The conversation in which the member types.
    #[serde(serialize_with = "text::shown")]
    #[schema(value_type = String)]
    pub conversation_id: ConversationId,
    /// The member who types.
    pub user_id: &'a str,
}

/// A user has come online or gone offline.
///
/// The server sends it for the peers of the most recent direct conversations. For other users, call
/// `GET /v1/conversations/{conversation_id}/presence`.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"type": "presence", "user_id": "bob", "online": true, "last_seen_at": null}))]
pub struct PresenceFrame<'a> {
    #[serde(flatten)]
    pub presence: PresenceBody<'a>,
}

/// The current inbox entry of a conversation that is new to the user, or whose settings the user
/// changed.
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

/// Part of the catch-up: the device misses more messages of this conversation than the server sends
/// unasked.
///
/// Get the rest with `GET /v1/conversations/{conversation_id}/messages?after_seq=`. The next pushed
/// message has a seq above `head_seq`. Acks of own sends, and the notice that the user left, may
/// still have lower seqs.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "type": "backlog", "conversation_id": "d0123456789abcdefghjkmnpq", "next_after_seq": 1000, "head_seq": 250000,
}))]
pub struct BacklogFrame {
    /// The conversation with more missed messages.
    #[serde(serialize_with = "text::shown")]
    #[schema(value_type = String)]
    pub conversation_id: ConversationId,
    /// The `after_seq` of the first page to get.
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub next_after_seq: Seq,
    /// The newest seq of the conversation. Get pages up to it.
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub head_seq: Seq,
}

/// The server refused a frame. The connection stays open.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "type": "error", "code": "rate_limited", "message": "too many messages",
    "message_id": "0199c0de-0000-7000-8000-000000000001",
}))]
pub struct ErrorFrame<'a> {
    /// The error code, for programs. One of `x-error-codes`.
    pub code: &'a str,
    /// A description of the error, for people. Its text may change.
    pub message: &'a str,
    /// The `message_id` of the refused `send`, if it could be read. Absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<&'a str>,
    /// The conversation of the refused `delivered`, `read` or `typing`. Absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "text::shown_if_any")]
    #[schema(value_type = Option<String>)]
    pub conversation_id: Option<ConversationId>,
}

/// The user is not a member of this conversation, or no longer is.
///
/// The server sends it for a position in `hello`, and when the user leaves during the catch-up. Its
/// missed messages are not available.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"type": "gone", "conversation_id": "g0123456789abcdefghjkmnpq"}))]
pub struct GoneFrame {
    /// The conversation that the user is not in.
    #[serde(serialize_with = "text::shown")]
    #[schema(value_type = String)]
    pub conversation_id: ConversationId,
}

/// The server is shutting down and closes the connection with code 1012 next.
///
/// Reconnect after `after_ms`. The server spreads the reconnects of its clients with different
/// delays.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"type": "come_back", "after_ms": 1730}))]
pub struct ComeBackFrame {
    /// The delay before the client reconnects, in milliseconds.
    pub after_ms: u64,
}

/// Initial capacity of the buffer of most frames, in bytes. A longer frame costs one more
/// allocation.
const USUAL_BYTES: usize = 320;

pub fn encode_message(message: &Message) -> String {
    let mut json = Vec::new();
    write_message(&mut json, message);
    in_utf8(json)
}

/// Like [`encode_message`], but appends to a buffer.
pub fn write_message(into: &mut Vec<u8>, message: &Message) {
    /// First bytes of the frame, up to the fields of [`MessageBody`].
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

/// Like [`encode_ack`], but appends to a buffer.
pub fn write_ack(
    into: &mut Vec<u8>,
    conversation: ConversationId,
    message_id: &MessageId,
    appended: &Appended,
) {
    /// First bytes of the frame, up to the fields of [`SentBody`].
    const BEGINNING: &str = r#"{"type":"ack","#;
    let body = SentBody::new(conversation, message_id, appended);
    into.reserve(BEGINNING.len() + body.usual_bytes());
    into.extend_from_slice(BEGINNING.as_bytes());
    body.write_fields(into);
}

/// Encodes a `status` frame. `unread` is for the member's own devices only.
pub fn encode_status(
    conversation_id: ConversationId,
    user: &UserId,
    read_state: ReadState,
    unread: Option<u64>,
) -> String {
    let mut json = Vec::new();
    write_status(&mut json, conversation_id, user, read_state, unread);
    in_utf8(json)
}

/// Like [`encode_status`], but appends to a buffer.
pub fn write_status(
    into: &mut Vec<u8>,
    conversation_id: ConversationId,
    user: &UserId,
    read_state: ReadState,
    unread: Option<u64>,
) {
    // Keys, punctuation and the conversation id take 125 bytes. A number has at most 20 digits.
    into.reserve(125 + user.as_str().len() + 3 * 20);
    let mut json = Writer(into);
    json.raw(r#"{"type":"status","conversation_id":"#);
    json.conversation(&conversation_id);
    json.raw(r#","user_id":"#);
    json.text(user.as_str());
    json.raw(r#","last_delivered_seq":"#);
    json.seq(read_state.delivered);
    json.raw(r#","last_read_seq":"#);
    json.seq(read_state.read);
    if let Some(unread) = unread {
        json.raw(r#","unread":"#);
        json.number(unread);
    }
    json.raw("}");
}

pub fn encode_receipts(conversation_id: ConversationId, lowest: ReadState) -> String {
    let ReadState { delivered: last_delivered_seq, read: last_read_seq } = lowest;
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

/// Encodes an `error` frame. `message_id` and `conversation_id` name the refused request.
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

/// Writes `type` first, so that the first bytes identify the frame.
fn encode(kind: &str, body: &impl Serialize, capacity: usize) -> String {
    let mut json = Vec::with_capacity(capacity);
    json.extend_from_slice(b"{\"type\":\"");
    json.extend_from_slice(kind.as_bytes());
    json.push(b'"');
    let body_at = json.len();
    serde_json::to_writer(&mut json, body).expect("frames hold strings and numbers only");
    // Replaces the opening brace of the body by a comma. `serde(flatten)` would allocate for every
    // field.
    json[body_at] = b',';
    in_utf8(json)
}

fn in_utf8(json: Vec<u8>) -> String {
    String::from_utf8(json).expect("JSON is UTF-8")
}
