//! Sending messages and reading history.

use std::borrow::Cow;

use bluetick_core::chat::SendRequest;
use bluetick_core::ports::{Appended, Origin};
use bluetick_core::{
    ContentType, ConversationId, Message, MessageId, Page, PageFrom, PageLimit, Seq, Timestamp,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::query;
use crate::json::{MOST_BYTES_OF_ONE, Measured, Writer, escaped_length};
use crate::{BadInput, text};

/// A message to send.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"message_id": "0199c0de-0000-7000-8000-000000000001", "content": "Lunch?", "timestamp": 1767225600000i64}))]
pub struct SendRequestBody<'a> {
    /// Created by the client before the first attempt; unique per conversation and sender. 1 to 128
    /// visible ASCII characters. A UUIDv7 is a good choice. The prefix `system:` is reserved.
    #[serde(borrow)]
    #[schema(value_type = String, min_length = 1, max_length = 128, pattern = "^(?!system:)[!-~]+$")]
    pub message_id: Cow<'a, str>,
    /// The content of the message. The maximum size is `content_bytes` of `GET /v1/server`.
    #[serde(borrow)]
    #[schema(value_type = String, min_length = 1)]
    pub content: Cow<'a, str>,
    /// The type of the content, chosen by the client: 1 to 64 visible ASCII characters. Default:
    /// `text`. The server reserves `system`, `erased`, `lost` and `void`.
    #[serde(borrow)]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 64, pattern = "^(?!(system|erased|lost|void)$)[!-~]+$")]
    pub content_type: Option<Cow<'a, str>>,
    /// The sender's clock, in milliseconds since the Unix epoch. Default: the server's clock. For
    /// display only; it does not affect the order.
    pub timestamp: Option<i64>,
    /// True if this is a resend of an earlier attempt. Default: false.
    pub retry: Option<bool>,
    /// With `retry`: the highest seq that the client knew at the first attempt. The server searches
    /// for the first copy above it, even after the dedupe window. Ignored without `retry`. A value
    /// above 9007199254740991 counts as that number.
    pub after_seq: Option<u64>,
}

impl SendRequestBody<'_> {
    pub fn message_id(&self) -> Result<MessageId, BadInput> {
        self.message_id.parse().map_err(|invalid| BadInput::field("message_id", invalid))
    }

    pub fn into_request(
        self,
        conversation: ConversationId,
        origin: Option<Origin>,
    ) -> Result<SendRequest, BadInput> {
        let content_type = content_type(self.content_type.as_deref())?;
        Ok(SendRequest {
            conversation,
            message_id: self.message_id()?,
            content_type,
            content: self.content.into(),
            timestamp: self.timestamp.map(Timestamp::from_millis),
            retry_after: retry_after(self.retry, self.after_seq),
            origin,
        })
    }
}

pub(crate) fn content_type(name: Option<&str>) -> Result<ContentType, BadInput> {
    match name {
        None => Ok(ContentType::Text),
        Some(name) => name.parse().map_err(|invalid| BadInput::field("content_type", invalid)),
    }
}

/// Returns the `after_seq` of a resend. Without one, the server searches for the first copy in the
/// dedupe window only.
pub(crate) fn retry_after(retry: Option<bool>, after_seq: Option<u64>) -> Option<Seq> {
    let after = after_seq.filter(|_| retry == Some(true))?;
    Some(Seq::new(after).min(Seq::MAX))
}

/// A stored message and its seq.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "conversation_id": "d0123456789abcdefghjkmnpq", "message_id": "0199c0de-0000-7000-8000-000000000001",
    "seq": 1, "received_at": 1767225600123i64, "duplicate": false,
}))]
pub struct SentBody<'a> {
    /// The conversation of the message.
    #[serde(serialize_with = "text::shown")]
    #[schema(value_type = String)]
    pub conversation_id: ConversationId,
    /// The id from the request.
    #[serde(serialize_with = "text::shown")]
    #[schema(value_type = String)]
    pub message_id: &'a MessageId,
    /// The seq of the message in the conversation.
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub seq: Seq,
    /// When the server received the first copy, in milliseconds since the Unix epoch.
    #[serde(serialize_with = "text::millis")]
    #[schema(value_type = i64)]
    pub received_at: Timestamp,
    /// True if an earlier attempt already stored the message. `seq` and `received_at` are those of
    /// that attempt.
    pub duplicate: bool,
}

impl<'a> SentBody<'a> {
    pub fn new(
        conversation_id: ConversationId,
        message_id: &'a MessageId,
        appended: &Appended,
    ) -> SentBody<'a> {
        let Appended { seq, received_at, duplicate } = *appended;
        SentBody { conversation_id, message_id, seq, received_at, duplicate }
    }

    pub fn to_json(&self) -> Vec<u8> {
        let mut json = Vec::with_capacity(1 + self.usual_bytes());
        json.push(b'{');
        self.write_fields(&mut json);
        json
    }

    /// Returns a buffer size that fits [`SentBody::write_fields`], unless the id needs escapes.
    pub(crate) fn usual_bytes(&self) -> usize {
        // Keys, punctuation and the conversation id take 102 bytes. A number has at most 20 digits.
        102 + spelled_length(self.message_id) + 2 * 20
    }

    /// Writes all fields and the closing brace. The caller writes the opening brace and any other
    /// fields first.
    pub(crate) fn write_fields(&self, json: &mut Vec<u8>) {
        let mut json = Writer(json);
        json.raw(r#""conversation_id":"#);
        json.conversation(&self.conversation_id);
        json.raw(r#","message_id":"#);
        json.message_id(self.message_id);
        json.raw(r#","seq":"#);
        json.seq(self.seq);
        json.raw(r#","received_at":"#);
        json.millis(self.received_at);
        json.raw(r#","duplicate":"#);
        json.boolean(self.duplicate);
        json.raw("}");
    }
}

fn spelled_length(id: &MessageId) -> usize {
    match id {
        MessageId::Uuid(_) => 36,
        MessageId::Text(text) => text.len(),
    }
}

/// A message of a conversation.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "conversation_id": "d0123456789abcdefghjkmnpq", "seq": 1, "message_id": "0199c0de-0000-7000-8000-000000000001",
    "sender_id": "alice", "receiver_id": "bob", "content": "Lunch?", "content_type": "text",
    "timestamp": 1767225600000i64, "received_at": 1767225600123i64,
}))]
pub struct MessageBody<'a> {
    /// The conversation of the message.
    #[serde(serialize_with = "text::shown")]
    #[schema(value_type = String)]
    pub conversation_id: ConversationId,
    /// The position in the conversation: 1, 2, 3 and so on, without gaps. It is the only order of
    /// messages.
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub seq: Seq,
    /// The id that the sender chose.
    #[serde(serialize_with = "text::shown")]
    #[schema(value_type = String)]
    pub message_id: &'a MessageId,
    /// The sender; `void` for a void.
    pub sender_id: &'a str,
    /// The other user of a direct conversation; null in groups.
    #[schema(required)]
    pub receiver_id: Option<&'a str>,
    /// The content of the message. For a `system` notice, JSON that describes the event. Empty for
    /// `erased`, `lost` and `void`.
    pub content: &'a str,
    /// `text`, another type that the sender chose, or one of these types of the server:
    ///
    /// - `system`: a notice, such as a membership change.
    /// - `erased`: the content was permanently deleted.
    /// - `lost`: the content is in a part of the archive that cannot be read.
    /// - `void`: a seq that was allocated and never used. Clients count it and acknowledge it with
    ///   the messages around it, but never show it.
    pub content_type: &'a str,
    /// The sender's clock, in milliseconds since the Unix epoch. For display only; it does not
    /// affect the order.
    #[serde(serialize_with = "text::millis")]
    #[schema(value_type = i64)]
    pub timestamp: Timestamp,
    /// The server's clock, in milliseconds since the Unix epoch.
    #[serde(serialize_with = "text::millis")]
    #[schema(value_type = i64)]
    pub received_at: Timestamp,
}

impl<'a> From<&'a Message> for MessageBody<'a> {
    fn from(message: &'a Message) -> MessageBody<'a> {
        MessageBody {
            conversation_id: message.conversation,
            seq: message.seq,
            message_id: &message.message_id,
            sender_id: message.sender.as_str(),
            receiver_id: message.receiver.as_ref().map(|user| user.as_str()),
            content: &message.content,
            content_type: message.content_type.as_str(),
            timestamp: message.timestamp,
            received_at: message.received_at,
        }
    }
}

impl MessageBody<'_> {
    /// Returns a buffer size that fits all fields except the content, unless an id needs escapes.
    pub(crate) fn usual_bytes_around(&self) -> usize {
        let receiver = self.receiver_id.map_or(0, str::len);
        let names = self.sender_id.len() + receiver + self.content_type.len();
        // Keys, punctuation and the conversation id take 160 bytes. A number has at most 20 digits.
        160 + spelled_length(self.message_id) + names + 3 * 20
    }

    /// Writes all fields and the closing brace. The caller writes the opening brace and any other
    /// fields first. `content` is the measured content of this message.
    pub(crate) fn write_fields(&self, json: &mut Vec<u8>, content: Measured<'_>) {
        let mut json = Writer(json);
        json.raw(r#""conversation_id":"#);
        json.conversation(&self.conversation_id);
        json.raw(r#","seq":"#);
        json.seq(self.seq);
        json.raw(r#","message_id":"#);
        json.message_id(self.message_id);
        json.raw(r#","sender_id":"#);
        json.text(self.sender_id);
        json.raw(r#","receiver_id":"#);
        json.text_or_null(self.receiver_id);
        json.raw(r#","content":"#);
        json.measured(content);
        json.raw(r#","content_type":"#);
        json.text(self.content_type);
        json.raw(r#","timestamp":"#);
        json.millis(self.timestamp);
        json.raw(r#","received_at":"#);
        json.millis(self.received_at);
        json.raw("}");
    }
}

/// One page of history: messages with consecutive seqs, and cursors to the adjacent pages.
///
/// A page may have fewer than `limit` messages if they are large. Continue until the cursor is
/// null.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"messages": [], "next_before_seq": null, "next_after_seq": null, "head_seq": 0}))]
pub struct PageBody<'a> {
    /// Newest first; with `after_seq`, oldest first.
    pub messages: Vec<MessageBody<'a>>,
    /// The `before_seq` of the next older page; null if there is none.
    #[serde(serialize_with = "text::seq_if_any")]
    #[schema(value_type = Option<u64>, required)]
    pub next_before_seq: Option<Seq>,
    /// The `after_seq` of the next newer page; null if there is none.
    #[serde(serialize_with = "text::seq_if_any")]
    #[schema(value_type = Option<u64>, required)]
    pub next_after_seq: Option<Seq>,
    /// The newest seq of the conversation; 0 if there is none.
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub head_seq: Seq,
}

impl<'a> PageBody<'a> {
    /// Approximate maximum size of the contents of a page, in bytes. It bounds the memory that a
    /// slow reader can hold. A page always has at least one message, even a larger one.
    pub const MAX_BYTES: usize = 1024 * 1024;

    /// Builds the body of a page that was requested with `from`. Drops messages beyond
    /// [`PageBody::MAX_BYTES`].
    pub fn new(page: &'a Page, from: PageFrom) -> PageBody<'a> {
        let fitting = fitting(&page.messages);
        let (kept, cut) = page.messages.split_at(fitting);
        // The cursor continues after the last message that is kept, in the direction of the page.
        let goes_on = kept.last().filter(|_| !cut.is_empty()).map(|message| message.seq);
        let (cut_below, cut_above) = match from {
            PageFrom::Newest | PageFrom::Before(_) => (goes_on, None),
            PageFrom::After(_) => (None, goes_on),
        };
        PageBody {
            messages: kept.iter().map(MessageBody::from).collect(),
            next_before_seq: cut_below.or(page.next_before),
            next_after_seq: cut_above.or(page.next_after),
            head_seq: page.head,
        }
    }

    pub fn to_json(&self) -> Vec<u8> {
        // Allows 1/16 for escapes. Content with more escapes makes the buffer grow.
        let bytes_of =
            |message: &MessageBody<'_>| message.usual_bytes_around() + message.content.len() * 17 / 16 + 2;
        let mut json = Vec::with_capacity(150 + self.messages.iter().map(bytes_of).sum::<usize>());
        json.extend_from_slice(br#"{"messages":["#);
        for (index, message) in self.messages.iter().enumerate() {
            json.extend_from_slice(if index == 0 { b"{".as_slice() } else { b",{" });
            message.write_fields(&mut json, Measured::of(message.content));
        }
        let mut rest = Writer(&mut json);
        rest.raw(r#"],"next_before_seq":"#);
        rest.seq_or_null(self.next_before_seq);
        rest.raw(r#","next_after_seq":"#);
        rest.seq_or_null(self.next_after_seq);
        rest.raw(r#","head_seq":"#);
        rest.seq(self.head_seq);
        rest.raw("}");
        json
    }
}

/// Returns how many of the messages fit on one page, from the first on.
fn fitting(messages: &[Message]) -> usize {
    let as_they_are: usize = messages.iter().map(|message| message.content.len()).sum();
    // Most pages are far below the limit even if every byte is escaped, so skip the exact count.
    if as_they_are <= PageBody::MAX_BYTES / MOST_BYTES_OF_ONE {
        return messages.len();
    }
    let mut bytes = 0;
    let fits = |message: &&Message| {
        bytes += escaped_length(&message.content);
        bytes <= PageBody::MAX_BYTES
    };
    messages.iter().take_while(fits).count().max(1).min(messages.len())
}

/// The query parameters of a history call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageParameters {
    pub from: PageFrom,
    pub limit: PageLimit,
}

impl PageParameters {
    pub fn parse(query: &str) -> Result<PageParameters, BadInput> {
        let [before, after, limit] = query::values(query, ["before_seq", "after_seq", "limit"])?;
        let from = match (before.as_deref(), after.as_deref()) {
            (None, None) => PageFrom::Newest,
            (Some(before), None) => PageFrom::Before(parse_seq("before_seq", before, 1)?),
            (None, Some(after)) => PageFrom::After(parse_seq("after_seq", after, 0)?),
            (Some(_), Some(_)) => return Err(BadInput::new("before_seq and after_seq exclude each other")),
        };
        Ok(PageParameters { from, limit: parse_limit(limit.as_deref())? })
    }
}

pub(super) fn parse_limit(limit: Option<&str>) -> Result<PageLimit, BadInput> {
    let Some(limit) = limit else { return Ok(PageLimit::DEFAULT) };
    let invalid = || BadInput::new(bluetick_core::paging::InvalidLimit.to_string());
    let limit: i64 = limit.parse().map_err(|_| invalid())?;
    PageLimit::try_from(limit).map_err(|_| invalid())
}

pub(super) fn parse_seq(name: &str, value: &str, least: u64) -> Result<Seq, BadInput> {
    let most = Seq::MAX.get();
    match value.parse::<u64>() {
        Ok(seq) if (least..=most).contains(&seq) && value.as_bytes()[0] != b'+' => Ok(Seq::new(seq)),
        _ => Err(BadInput::field(name, format_args!("must be a whole number from {least} to {most}"))),
    }
}
