//! The inbox and the per-conversation settings of a user.

use bluetick_core::{
    ConversationId, InboxEntry, InboxFilter, InboxKey, InboxPage, LastMessage, MessageId, PageLimit,
    PreferenceChange, ReadState, Seq, Timestamp, UserId,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::conversation::KindBody;
use super::message::parse_limit;
use super::presence::PresenceBody;
use super::query;
use crate::{BadInput, text};

/// A read state: the highest delivered and the highest read seq. Clients draw ticks from it.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
// The name of the component in v1 of the document.
#[schema(as = BoundariesBody)]
pub struct ReadStateBody {
    /// Every message up to this seq is delivered; 0 if none is.
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub last_delivered_seq: Seq,
    /// Every message up to this seq is read; 0 if none is. Never above `last_delivered_seq`.
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub last_read_seq: Seq,
}

impl From<ReadState> for ReadStateBody {
    fn from(read_state: ReadState) -> ReadStateBody {
        ReadStateBody { last_delivered_seq: read_state.delivered, last_read_seq: read_state.read }
    }
}

/// The newest message of a conversation, with shortened content.
#[derive(Debug, Serialize, ToSchema)]
pub struct LastMessageBody<'a> {
    /// The seq of the message.
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub seq: Seq,
    /// The id that the sender chose.
    #[serde(serialize_with = "text::shown")]
    #[schema(value_type = String)]
    pub message_id: &'a MessageId,
    /// The sender.
    pub sender_id: &'a str,
    /// At most the first 120 bytes of the content, cut at a character boundary. Notices (`system`)
    /// are complete.
    pub content: &'a str,
    /// The type of the content, as in a message.
    pub content_type: &'a str,
    /// The sender's clock, in milliseconds since the Unix epoch.
    #[serde(serialize_with = "text::millis")]
    #[schema(value_type = i64)]
    pub timestamp: Timestamp,
    /// The server's clock, in milliseconds since the Unix epoch.
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

/// An inbox entry: a conversation as one of its members sees it.
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
    /// The id of the conversation.
    #[serde(serialize_with = "text::shown")]
    #[schema(value_type = String)]
    pub conversation_id: ConversationId,
    /// Whether it is a direct conversation or a group.
    pub kind: KindBody,
    /// The title of a group; null in direct conversations.
    #[schema(required)]
    pub title: Option<&'a str>,
    /// The other user of a direct conversation; null in groups.
    #[schema(required)]
    pub peer: Option<&'a str>,
    /// The number of members.
    pub member_count: usize,
    /// The newest seq of the conversation, voids included; 0 if there is none.
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub last_seq: Seq,
    /// When the newest message was received, or when the conversation was created, in milliseconds
    /// since the Unix epoch. Pinned, other and archived conversations are each sorted by it, latest
    /// first. It does not move back if the server's clock does.
    #[serde(serialize_with = "text::millis")]
    #[schema(value_type = i64)]
    pub last_at: Timestamp,
    /// The first bytes of the newest message (at most 120), cut at a character boundary. Empty if
    /// it is a notice, or if there is no message.
    pub preview: &'a str,
    /// The newest message that is not a void; null if there is none.
    #[schema(required)]
    pub last_message: Option<LastMessageBody<'a>>,
    /// The number of messages from others above `my_status.last_read_seq`. Notices and voids do not
    /// count.
    pub unread: u64,
    /// The first seq that the caller can see.
    #[serde(serialize_with = "text::seq")]
    #[schema(value_type = u64)]
    pub first_seq: Seq,
    /// The read state of the caller.
    pub my_status: ReadStateBody,
    /// The read state of the peer; in a group, the lowest of all other members. The ticks of the
    /// caller's own messages follow from it.
    pub peer_status: ReadStateBody,
    /// Whether the caller muted the conversation.
    pub muted: bool,
    /// Whether the caller pinned the conversation.
    pub pinned: bool,
    /// Whether the caller archived the conversation.
    pub archived: bool,
    /// Whether other members see what the caller has read.
    pub read_receipts: bool,
    /// The presence of the other user of a direct conversation; null in groups.
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

/// One page of the inbox.
///
/// Conversations can move while the caller pages. One that gets a message moves to the front and is
/// on no later page; a connected client gets the message as a push. One that the caller pins,
/// unpins, archives or unarchives may be on two pages or on none. All others are on exactly one
/// page.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"conversations": [], "next_cursor": null}))]
pub struct InboxPageBody<'a> {
    /// Pinned conversations first, archived ones last. Within each group, latest activity first.
    pub conversations: Vec<InboxEntryBody<'a>>,
    /// The `cursor` of the next page; null on the last page.
    #[schema(required)]
    pub next_cursor: Option<String>,
}

impl<'a> InboxPageBody<'a> {
    /// `presence` returns the presence of the peer of a direct conversation.
    pub fn new(page: &'a InboxPage, presence: impl Fn(&'a UserId) -> PresenceBody<'a>) -> InboxPageBody<'a> {
        let body = |entry: &'a InboxEntry| InboxEntryBody::new(entry, entry.peer.as_ref().map(&presence));
        InboxPageBody {
            conversations: page.entries.iter().map(body).collect(),
            next_cursor: page.next.map(|next| next.to_string()),
        }
    }
}

/// The query parameters of an inbox call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InboxParameters {
    pub after: Option<InboxKey>,
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

/// A change of the caller's settings for one conversation. Omitted fields keep their value.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"pinned": true}))]
pub struct PreferenceRequest {
    /// Whether the conversation is muted.
    pub muted: Option<bool>,
    /// Whether the conversation is pinned. Pinned conversations are first in the inbox.
    pub pinned: Option<bool>,
    /// Whether the conversation is archived. Archived conversations are last in the inbox.
    pub archived: Option<bool>,
    /// False hides from other members what the caller reads from now on. After it is true again,
    /// the next `read` shows everything up to its seq.
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
