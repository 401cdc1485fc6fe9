//! The inbox.

use bluetick_core::{
    Boundaries, ConversationId, InboxEntry, InboxFilter, InboxPage, InboxPlace, LastMessage, MessageId,
    PageLimit, PreferenceChange, Seq, Timestamp, UserId,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::conversation::KindBody;
use super::message::parse_limit;
use super::presence::PresenceBody;
use super::query;
use crate::{BadInput, text};

/// The two boundaries a tick is drawn from: everything up to here was delivered, and up to there read.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct BoundariesBody {
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub last_delivered_seq: Seq,
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub last_read_seq: Seq,
}

impl From<Boundaries> for BoundariesBody {
    fn from(boundaries: Boundaries) -> BoundariesBody {
        BoundariesBody { last_delivered_seq: boundaries.delivered, last_read_seq: boundaries.read }
    }
}

/// The newest message, its content cut short at a character.
#[derive(Debug, Serialize, ToSchema)]
pub struct LastMessageBody<'a> {
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub seq: Seq,
    #[serde(serialize_with = "text::shown")]
    #[schema(value_type = String)]
    pub message_id: &'a MessageId,
    pub sender_id: &'a str,
    /// At most 120 bytes of it; notices are whole.
    pub content: &'a str,
    pub content_type: &'a str,
    #[serde(serialize_with = "text::millis")]
    #[schema(value_type = i64)]
    pub timestamp: Timestamp,
    #[serde(serialize_with = "text::millis")]
    #[schema(value_type = i64)]
    pub received_at: Timestamp,
}

impl<'a> From<&'a LastMessage> for LastMessageBody<'a> {
    fn from(last: &'a LastMessage) -> LastMessageBody<'a> {
        LastMessageBody {
            seq: last.seq,
            message_id: &last.message_id,
            sender_id: last.sender.as_str(),
            content: &last.preview,
            content_type: last.content_type.as_str(),
            timestamp: last.timestamp,
            received_at: last.received_at,
        }
    }
}

/// One line of an inbox.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "conversation_id": "d0123456789abcdefghjkmnpq", "kind": "direct", "title": null, "peer": "bob", "member_count": 2,
    "last_seq": 7, "last_at": 1767225600123i64, "preview": "Lunch?",
    "last_message": {
        "seq": 7, "message_id": "0199c0de-0000-7000-8000-000000000001", "sender_id": "bob", "content": "Lunch?",
        "content_type": "text", "timestamp": 1767225600000i64, "received_at": 1767225600123i64,
    },
    "unread": 1, "first_seq": 1, "my_status": {"last_delivered_seq": 7, "last_read_seq": 6},
    "peer_status": {"last_delivered_seq": 6, "last_read_seq": 6},
    "muted": false, "pinned": false, "archived": false, "read_receipts": true,
    "peer_presence": {"user_id": "bob", "online": true, "last_seen_at": null},
}))]
pub struct InboxEntryBody<'a> {
    #[serde(serialize_with = "text::shown")]
    #[schema(value_type = String)]
    pub conversation_id: ConversationId,
    pub kind: KindBody,
    /// Null in direct conversations.
    #[schema(required)]
    pub title: Option<&'a str>,
    /// The other person of a direct conversation; null in groups.
    #[schema(required)]
    pub peer: Option<&'a str>,
    pub member_count: usize,
    /// The newest place that is taken, be it by a void; 0 while there is none.
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub last_seq: Seq,
    /// When a message last came in, or when the conversation was made. The inbox is in this order, the latest first. A
    /// server clock that was set back does not take it back.
    #[serde(serialize_with = "text::millis")]
    #[schema(value_type = i64)]
    pub last_at: Timestamp,
    /// The beginning of the newest message, cut at a character; empty for a notice, or while there is no message.
    pub preview: &'a str,
    /// The newest message that is no void; null while there is none.
    #[schema(required)]
    pub last_message: Option<LastMessageBody<'a>>,
    /// Messages by others above `my_status.last_read_seq`; notices and voids do not count.
    pub unread: u64,
    /// The first message the reader can see.
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub first_seq: Seq,
    /// How far the reader has come.
    pub my_status: BoundariesBody,
    /// How far the other has come; in a group, the member furthest behind. With it the tick of one's own messages is
    /// drawn.
    pub peer_status: BoundariesBody,
    pub muted: bool,
    pub pinned: bool,
    pub archived: bool,
    /// Whether the others are told what the reader has read.
    pub read_receipts: bool,
    /// Whether the other person of a direct conversation is there; null in groups.
    #[schema(required)]
    pub peer_presence: Option<PresenceBody<'a>>,
}

impl<'a> InboxEntryBody<'a> {
    pub fn new(entry: &'a InboxEntry, peer_presence: Option<PresenceBody<'a>>) -> InboxEntryBody<'a> {
        let conversation = &entry.conversation;
        let last = entry.last_message.as_ref();
        let text = last.filter(|last| last.content_type.counts_as_unread());
        InboxEntryBody {
            conversation_id: conversation.id,
            kind: conversation.kind().into(),
            title: conversation.title.as_ref().map(|title| title.as_str()),
            peer: entry.peer.as_ref().map(UserId::as_str),
            member_count: entry.member_count,
            last_seq: conversation.head,
            last_at: conversation.last_at,
            preview: text.map_or("", |last| &last.preview),
            last_message: last.map(LastMessageBody::from),
            unread: entry.unread,
            first_seq: entry.joined,
            my_status: entry.own.into(),
            peer_status: entry.others.into(),
            muted: entry.preferences.muted,
            pinned: entry.preferences.pinned,
            archived: entry.preferences.archived,
            read_receipts: !entry.preferences.hides_reads,
            peer_presence,
        }
    }
}

/// One page of an inbox. A conversation that gets a message while you page moves to the front: it is on no later page,
/// and its message is pushed to whoever is connected. One that you pin, unpin, archive or unarchive meanwhile moves as
/// well, and may be met twice or not at all. All others are on exactly one page.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"conversations": [], "next_cursor": null}))]
pub struct InboxPageBody<'a> {
    /// Pinned first, archived last; within each, the latest activity first.
    pub conversations: Vec<InboxEntryBody<'a>>,
    /// `cursor` of the next page; null on the last.
    #[schema(required)]
    pub next_cursor: Option<String>,
}

impl<'a> InboxPageBody<'a> {
    /// `presence` tells of the other person of a direct conversation.
    pub fn new(page: &'a InboxPage, presence: impl Fn(&'a UserId) -> PresenceBody<'a>) -> InboxPageBody<'a> {
        let body = |entry: &'a InboxEntry| InboxEntryBody::new(entry, entry.peer.as_ref().map(&presence));
        InboxPageBody {
            conversations: page.entries.iter().map(body).collect(),
            next_cursor: page.next.map(|next| next.to_string()),
        }
    }
}

/// The query of an inbox call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InboxParameters {
    pub after: Option<InboxPlace>,
    pub limit: PageLimit,
    pub filter: InboxFilter,
}

impl InboxParameters {
    pub fn parse(query: &str) -> Result<InboxParameters, BadInput> {
        let [cursor, limit, archived] = query::values(query, ["cursor", "limit", "archived"])?;
        let cursor = cursor.as_deref().filter(|cursor| !cursor.is_empty());
        let after = cursor.map(str::parse).transpose();
        Ok(InboxParameters {
            after: after.map_err(|invalid| BadInput::field("cursor", invalid))?,
            limit: parse_limit(limit.as_deref())?,
            filter: match archived.as_deref() {
                None => InboxFilter::All,
                Some("true") => InboxFilter::Archived,
                Some("false") => InboxFilter::NotArchived,
                Some(_) => return Err(BadInput::field("archived", "must be true or false")),
            },
        })
    }
}

/// What a member sets for itself in one conversation. What is not named stays as it is.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"pinned": true}))]
pub struct PreferenceRequest {
    pub muted: Option<bool>,
    pub pinned: Option<bool>,
    pub archived: Option<bool>,
    /// False: what is read from now on is not told to the others. Once it is true again, the next `read` tells
    /// everything up to its seq.
    pub read_receipts: Option<bool>,
}

impl From<PreferenceRequest> for PreferenceChange {
    fn from(request: PreferenceRequest) -> PreferenceChange {
        PreferenceChange {
            muted: request.muted,
            pinned: request.pinned,
            archived: request.archived,
            hides_reads: request.read_receipts.map(|tells| !tells),
        }
    }
}
