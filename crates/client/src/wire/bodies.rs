//! Bodies of HTTP answers; some frames share them. Unknown fields are ignored.

use bluetick_types::{ConversationId, ConversationKind, MessageId, Seq, Timestamp, UserId};
use serde::{Deserialize, Serialize};

use super::text;

/// A read state: everything up to these seqs was delivered and read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ReadState {
    #[serde(with = "text::seq")]
    pub last_delivered_seq: Seq,
    #[serde(with = "text::seq")]
    pub last_read_seq: Seq,
}

impl ReadState {
    /// A read state with everything up to `seq` read, and therefore delivered.
    pub fn read_up_to(seq: Seq) -> ReadState {
        ReadState { last_delivered_seq: seq, last_read_seq: seq }
    }

    /// The maximum of both read states. A read state only moves forward.
    #[must_use]
    pub fn furthest(self, other: ReadState) -> ReadState {
        ReadState {
            last_delivered_seq: self.last_delivered_seq.max(other.last_delivered_seq),
            last_read_seq: self.last_read_seq.max(other.last_read_seq),
        }
    }
}

impl From<ReadState> for bluetick_types::ReadState {
    fn from(marks: ReadState) -> bluetick_types::ReadState {
        bluetick_types::ReadState { delivered: marks.last_delivered_seq, read: marks.last_read_seq }
    }
}

/// A stored message, notice or void.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct Message {
    #[serde(with = "text::spelled")]
    pub conversation_id: ConversationId,
    #[serde(with = "text::seq")]
    pub seq: Seq,
    #[serde(with = "text::message_id")]
    pub message_id: MessageId,
    #[serde(with = "text::spelled")]
    pub sender_id: UserId,
    pub content: String,
    pub content_type: String,
    #[serde(with = "text::moment")]
    pub timestamp: Timestamp,
    #[serde(with = "text::moment")]
    pub received_at: Timestamp,
}

impl Message {
    /// Whether a user wrote this: `false` for notices and voids. Only such messages can count as
    /// unread.
    pub fn is_said(&self) -> bool {
        !matches!(self.content_type.as_str(), "system" | "void")
    }

    /// Whether this is a void: a seq that was allocated and never written. It keeps pages
    /// contiguous and is covered by receipts, but it is never shown.
    pub fn is_void(&self) -> bool {
        self.content_type == "void"
    }

    /// Whether `user` sent this. Always `false` for a void, whose placeholder sender may equal a
    /// real user id.
    pub fn is_by(&self, user: &UserId) -> bool {
        self.sender_id == *user && !self.is_void()
    }

    /// The group event, if this is a notice whose content parses.
    pub fn notice(&self) -> Option<Notice> {
        (self.content_type == "system").then(|| Notice::parse(&self.content))?
    }
}

/// Omits the content, so that no message text reaches a log.
impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Message({} {} by {})", self.conversation_id, self.seq, self.sender_id)
    }
}

/// A group event, stored as a message of type `system`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Notice {
    GroupCreated {
        by: String,
        title: String,
    },
    MemberAdded {
        by: String,
        user_id: String,
    },
    MemberRemoved {
        by: String,
        user_id: String,
    },
    MemberLeft {
        user_id: String,
    },
    /// An event that this client does not know.
    #[serde(other)]
    Other,
}

impl Notice {
    /// Parses the content of a message of type `system`.
    pub fn parse(content: &str) -> Option<Notice> {
        serde_json::from_str(content).ok()
    }
}

/// The preview of a conversation's newest message. The content is truncated.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct LastMessage {
    #[serde(with = "text::seq")]
    pub seq: Seq,
    #[serde(with = "text::spelled")]
    pub sender_id: UserId,
    pub content: String,
    pub content_type: String,
}

/// Omits the content, so that no message text reaches a log.
impl std::fmt::Debug for LastMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LastMessage({} by {})", self.seq, self.sender_id)
    }
}

/// Whether a user is online, and when the user was last seen.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Presence {
    #[serde(with = "text::spelled")]
    pub user_id: UserId,
    pub online: bool,
    #[serde(with = "text::moment_if_any", default)]
    pub last_seen_at: Option<Timestamp>,
}

/// One row of the inbox.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct InboxEntry {
    #[serde(with = "text::spelled")]
    pub conversation_id: ConversationId,
    pub title: Option<String>,
    #[serde(with = "text::spelled_if_any", default)]
    pub peer: Option<UserId>,
    pub member_count: usize,
    /// The head of the conversation.
    #[serde(with = "text::seq")]
    pub last_seq: Seq,
    #[serde(with = "text::moment")]
    pub last_at: Timestamp,
    pub last_message: Option<LastMessage>,
    pub unread: u64,
    /// The first seq that this user can see.
    #[serde(with = "text::seq")]
    pub first_seq: Seq,
    /// This user's read state.
    pub my_status: ReadState,
    /// The peer's read state. In a group, that of the member furthest behind.
    pub peer_status: ReadState,
    pub muted: bool,
    pub pinned: bool,
    pub archived: bool,
    pub read_receipts: bool,
    #[serde(default)]
    pub peer_presence: Option<Presence>,
}

impl InboxEntry {
    pub fn kind(&self) -> ConversationKind {
        self.conversation_id.kind()
    }
}

/// One page of the inbox.
#[derive(Debug, Deserialize)]
pub struct InboxPage {
    pub conversations: Vec<InboxEntry>,
    pub next_cursor: Option<String>,
}

/// A member of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Member {
    #[serde(with = "text::spelled")]
    pub user_id: UserId,
    /// `admin` or `member`.
    pub role: String,
    /// The first seq that the member can see.
    #[serde(with = "text::seq")]
    pub joined_seq: Seq,
}

/// A conversation and its members.
#[derive(Clone, Debug, Deserialize)]
pub struct ConversationBody {
    #[serde(with = "text::spelled")]
    pub conversation_id: ConversationId,
    pub title: Option<String>,
    #[serde(with = "text::spelled_if_any", default)]
    pub peer: Option<UserId>,
    #[serde(with = "text::seq")]
    pub head_seq: Seq,
    #[serde(with = "text::moment")]
    pub last_at: Timestamp,
    pub member_count: usize,
    pub members: Vec<Member>,
}

/// A conversation with the caller's unread count, read state and settings.
#[derive(Clone, Debug, Deserialize)]
pub struct ConversationDetail {
    #[serde(flatten)]
    pub conversation: ConversationBody,
    pub unread: u64,
    pub my_status: ReadState,
    pub peer_status: ReadState,
    pub muted: bool,
    pub pinned: bool,
    pub archived: bool,
    pub read_receipts: bool,
}

impl ConversationDetail {
    /// Converts it to an inbox row of `reader`. `last_message` and `peer_presence` are `None`.
    pub fn into_entry(self, reader: &UserId) -> InboxEntry {
        let ConversationBody { conversation_id, title, peer, head_seq, last_at, member_count, members } =
            self.conversation;
        let own = members.iter().find(|member| member.user_id == *reader);
        InboxEntry {
            conversation_id,
            title,
            peer,
            member_count,
            last_seq: head_seq,
            last_at,
            last_message: None,
            unread: self.unread,
            first_seq: own.map_or(Seq::FIRST, |own| own.joined_seq),
            my_status: self.my_status,
            peer_status: self.peer_status,
            muted: self.muted,
            pinned: self.pinned,
            archived: self.archived,
            read_receipts: self.read_receipts,
            peer_presence: None,
        }
    }
}

/// A page of history: a contiguous range of messages.
#[derive(Debug, Deserialize)]
pub struct Page {
    pub messages: Vec<Message>,
    /// Cursor of the next older page. `None` at the start of the conversation.
    #[serde(with = "text::seq_if_any")]
    pub next_before_seq: Option<Seq>,
    /// Cursor of the next newer page. `None` at the head.
    #[serde(with = "text::seq_if_any")]
    pub next_after_seq: Option<Seq>,
    #[serde(with = "text::seq")]
    pub head_seq: Seq,
}

/// The read state of one member.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct MemberStatus {
    #[serde(with = "text::spelled")]
    pub user_id: UserId,
    #[serde(flatten)]
    pub marks: ReadState,
    #[serde(with = "text::seq")]
    pub joined_seq: Seq,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Statuses {
    pub members: Vec<MemberStatus>,
}

/// How many receivers have received and read one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct ReceiptCounts {
    pub recipient_count: usize,
    pub delivered_count: usize,
    pub read_count: usize,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Presences {
    pub members: Vec<Presence>,
}

/// A user and their display name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Person {
    #[serde(with = "text::spelled")]
    pub user_id: UserId,
    #[serde(default)]
    pub display_name: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct PeopleBody {
    pub people: Vec<Person>,
}

/// The profile of a user.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Profile {
    #[serde(with = "text::spelled")]
    pub user_id: UserId,
    pub show_presence: bool,
    #[serde(default)]
    pub display_name: Option<String>,
}

/// A change of the profile. A `None` field stays unchanged.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ProfileChange {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub show_presence: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
}

/// A change of one user's settings of a conversation. A `None` field stays unchanged.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct SettingsChange {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub muted: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archived: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_receipts: Option<bool>,
}

/// The result of a login. Not `Debug`, so that the token never reaches a log.
#[derive(Clone, Deserialize)]
pub struct Session {
    pub token: String,
    #[serde(with = "text::spelled")]
    pub user_id: UserId,
    #[serde(with = "text::moment")]
    pub expires_at: Timestamp,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ErrorBody {
    pub error: ErrorDetail,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ErrorDetail {
    pub code: String,
    pub message: String,
}
