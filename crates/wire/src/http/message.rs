//! Sending and reading back.

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

/// A message to store. Sending it again with the same message_id is safe.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"message_id": "0199c0de-0000-7000-8000-000000000001", "content": "Lunch?", "timestamp": 1767225600000i64}))]
pub struct SendRequestBody<'a> {
    /// Made by the client before the first attempt; unique within the conversation and the sender. A UUIDv7 suits.
    /// Visible ASCII; names that start with `system:` are the server's own.
    #[serde(borrow)]
    #[schema(value_type = String, min_length = 1, max_length = 128, pattern = "^(?!system:)[!-~]+$")]
    pub message_id: Cow<'a, str>,
    #[serde(borrow)]
    #[schema(value_type = String, min_length = 1)]
    pub content: Cow<'a, str>,
    /// What the content is, in the client's own words; `text` where it is not given. Visible ASCII; `system`,
    /// `erased`, `lost` and `void` are the server's own.
    #[serde(borrow)]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 64, pattern = "^(?!(system|erased|lost|void)$)[!-~]+$")]
    pub content_type: Option<Cow<'a, str>>,
    /// The sender's clock, in milliseconds since the Unix epoch; the server's own where it is not given.
    pub timestamp: Option<i64>,
    /// This is a resend.
    pub retry: Option<bool>,
    /// With `retry`: everything up to this seq was known at the first attempt, so the message is looked for above it.
    /// Above 9007199254740991 counts as that.
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

/// A resend that does not say what it knew is looked for in the dedupe window like any other.
pub(crate) fn retry_after(retry: Option<bool>, after_seq: Option<u64>) -> Option<Seq> {
    let after = after_seq.filter(|_| retry == Some(true))?;
    Some(Seq::new(after).min(Seq::MAX))
}

/// Where the message is.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "conversation_id": "d0123456789abcdefghjkmnpq", "message_id": "0199c0de-0000-7000-8000-000000000001",
    "seq": 1, "received_at": 1767225600123i64, "duplicate": false,
}))]
pub struct SentBody<'a> {
    #[serde(serialize_with = "text::shown")]
    #[schema(value_type = String)]
    pub conversation_id: ConversationId,
    #[serde(serialize_with = "text::shown")]
    #[schema(value_type = String)]
    pub message_id: &'a MessageId,
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub seq: Seq,
    /// The server's clock, in milliseconds since the Unix epoch.
    #[serde(serialize_with = "text::millis")]
    #[schema(value_type = i64)]
    pub received_at: Timestamp,
    /// It was stored by an earlier attempt; this is its place.
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

    /// Enough for [`SentBody::write_fields`], unless the id is one of those few that need escaping.
    pub(crate) fn usual_bytes(&self) -> usize {
        // Names, quotes and the conversation are 102; no number has more than 20 digits.
        102 + spelled_length(self.message_id) + 2 * 20
    }

    /// All fields and the brace that closes them, so that something can stand before.
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

/// A stored message.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "conversation_id": "d0123456789abcdefghjkmnpq", "seq": 1, "message_id": "0199c0de-0000-7000-8000-000000000001",
    "sender_id": "alice", "receiver_id": "bob", "content": "Lunch?", "content_type": "text",
    "timestamp": 1767225600000i64, "received_at": 1767225600123i64,
}))]
pub struct MessageBody<'a> {
    #[serde(serialize_with = "text::shown")]
    #[schema(value_type = String)]
    pub conversation_id: ConversationId,
    /// The place in the conversation: 1 for the first, then dense. The only order.
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub seq: Seq,
    #[serde(serialize_with = "text::shown")]
    #[schema(value_type = String)]
    pub message_id: &'a MessageId,
    pub sender_id: &'a str,
    /// The other person of a direct conversation; null in groups.
    #[schema(required)]
    pub receiver_id: Option<&'a str>,
    /// For `system` notices, JSON that says what happened.
    pub content: &'a str,
    /// `text`, `system` for notices by the server, or what the sender called it. Without content: `erased`, when it was
    /// deleted for good, and `lost`, when the part of the archive it is in cannot be read. `void` is nobody's message: a
    /// place that was given out and never written to, by the sender `void`. A client counts it, so that nothing seems to
    /// be missing, acknowledges it with those around it, and never shows it.
    pub content_type: &'a str,
    /// The sender's clock, in milliseconds since the Unix epoch. Shown, never used for order.
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
    /// Enough for the fields around the content, unless an id is one of those few that need escaping.
    pub(crate) fn usual_bytes_around(&self) -> usize {
        let receiver = self.receiver_id.map_or(0, str::len);
        let names = self.sender_id.len() + receiver + self.content_type.len();
        // Names, quotes and the conversation are 160; no number has more than 20 digits.
        160 + spelled_length(self.message_id) + names + 3 * 20
    }

    /// All fields and the brace that closes them, so that something can stand before. The content is given as it was
    /// measured.
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

/// One page of history: a range of consecutive seqs, and where its neighbours begin. A page may hold fewer than
/// `limit` messages when they are large; go on with the cursor, which is null only where there is no more.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"messages": [], "next_before_seq": null, "next_after_seq": null, "head_seq": 0}))]
pub struct PageBody<'a> {
    /// Newest first; oldest first when asked with `after_seq`.
    pub messages: Vec<MessageBody<'a>>,
    /// `before_seq` of the page below; null where there is none.
    #[serde(serialize_with = "text::seq_if_any")]
    #[schema(value_type = Option<u64>, required)]
    pub next_before_seq: Option<Seq>,
    /// `after_seq` of the page above; null where there is none.
    #[serde(serialize_with = "text::seq_if_any")]
    #[schema(value_type = Option<u64>, required)]
    pub next_after_seq: Option<Seq>,
    /// The newest message of the conversation.
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub head_seq: Seq,
}

impl<'a> PageBody<'a> {
    /// About the most a page takes, so that an answer nobody reads holds no more. One message is always on it.
    pub const MAX_BYTES: usize = 1024 * 1024;

    /// The page that was asked for with `from`, as much of it as fits.
    pub fn new(page: &'a Page, from: PageFrom) -> PageBody<'a> {
        let fitting = fitting(&page.messages);
        let (kept, cut) = page.messages.split_at(fitting);
        // What was cut off begins where the last one kept ends, in the direction of the page.
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
        // What is escaped takes a little more, and what is escaped throughout makes it grow.
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

/// How many of the messages, from the first on, go onto one page.
fn fitting(messages: &[Message]) -> usize {
    let as_they_are: usize = messages.iter().map(|message| message.content.len()).sum();
    // Almost every page is far from the limit, so that its letters need not be counted.
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

/// The query of a history call.
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
