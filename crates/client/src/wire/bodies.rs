//! The bodies of HTTP answers, which some frames share. Fields this client does not know are passed over.

use bluetick_core::{Boundaries, ConversationId, ConversationKind, MessageId, Seq, Timestamp, UserId};
use serde::{Deserialize, Serialize};

use super::text;

/// How far somebody has come: everything up to here was delivered, and up to there read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Marks {
    #[serde(with = "text::seq")]
    pub last_delivered_seq: Seq,
    #[serde(with = "text::seq")]
    pub last_read_seq: Seq,
}

impl Marks {
    /// Everything up to `seq` was read, and so delivered.
    pub fn read_up_to(seq: Seq) -> Marks {
        Marks { last_delivered_seq: seq, last_read_seq: seq }
    }

    /// Marks only move forward.
    #[must_use]
    pub fn furthest(self, other: Marks) -> Marks {
        Marks {
            last_delivered_seq: self.last_delivered_seq.max(other.last_delivered_seq),
            last_read_seq: self.last_read_seq.max(other.last_read_seq),
        }
    }
}

impl From<Marks> for Boundaries {
    fn from(marks: Marks) -> Boundaries {
        Boundaries { delivered: marks.last_delivered_seq, read: marks.last_read_seq }
    }
}

/// A stored message.
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
    /// Said by a person: what counts as unread. Notices and voids do not.
    pub fn is_said(&self) -> bool {
        !matches!(self.content_type.as_str(), "system" | "void")
    }

    /// Nobody's message: a place that was given out and never written to. It is counted, so that a run can be seen to be
    /// whole, and acknowledged with those around it; it is never shown.
    pub fn is_void(&self) -> bool {
        self.content_type == "void"
    }

    /// By this user. A void names a sender that somebody may be called.
    pub fn is_by(&self, user: &UserId) -> bool {
        self.sender_id == *user && !self.is_void()
    }

    pub fn notice(&self) -> Option<Notice> {
        (self.content_type == "system").then(|| Notice::parse(&self.content))?
    }
}

/// Texts of people stay out of logs, so the content is left out here.
impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Message({} {} by {})", self.conversation_id, self.seq, self.sender_id)
    }
}

/// What happened in a group.
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
    #[serde(other)]
    Other,
}

impl Notice {
    /// From the content of a message of type `system`.
    pub fn parse(content: &str) -> Option<Notice> {
        serde_json::from_str(content).ok()
    }
}

/// The newest message of a conversation, its content cut short.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct LastMessage {
    #[serde(with = "text::seq")]
    pub seq: Seq,
    #[serde(with = "text::spelled")]
    pub sender_id: UserId,
    pub content: String,
    pub content_type: String,
}

/// Texts of people stay out of logs.
impl std::fmt::Debug for LastMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LastMessage({} by {})", self.seq, self.sender_id)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Presence {
    #[serde(with = "text::spelled")]
    pub user_id: UserId,
    pub online: bool,
    #[serde(with = "text::moment_if_any", default)]
    pub last_seen_at: Option<Timestamp>,
}

/// One line of the inbox.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct InboxEntry {
    #[serde(with = "text::spelled")]
    pub conversation_id: ConversationId,
    pub title: Option<String>,
    #[serde(with = "text::spelled_if_any", default)]
    pub peer: Option<UserId>,
    pub member_count: usize,
    #[serde(with = "text::seq")]
    pub last_seq: Seq,
    #[serde(with = "text::moment")]
    pub last_at: Timestamp,
    pub last_message: Option<LastMessage>,
    pub unread: u64,
    /// The first message the reader can see.
    #[serde(with = "text::seq")]
    pub first_seq: Seq,
    pub my_status: Marks,
    /// The other one's; in a group, those of the member furthest behind.
    pub peer_status: Marks,
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

#[derive(Debug, Deserialize)]
pub struct InboxPage {
    pub conversations: Vec<InboxEntry>,
    pub next_cursor: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Member {
    #[serde(with = "text::spelled")]
    pub user_id: UserId,
    /// `admin` or `member`.
    pub role: String,
    #[serde(with = "text::seq")]
    pub joined_seq: Seq,
}

/// A conversation and who is in it.
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

/// The same, and what it is to whoever asks.
#[derive(Clone, Debug, Deserialize)]
pub struct ConversationDetail {
    #[serde(flatten)]
    pub conversation: ConversationBody,
    pub unread: u64,
    pub my_status: Marks,
    pub peer_status: Marks,
    pub muted: bool,
    pub pinned: bool,
    pub archived: bool,
    pub read_receipts: bool,
}

impl ConversationDetail {
    /// As a line of the inbox of `reader`. The newest message is not told here.
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

/// A range of consecutive messages.
#[derive(Debug, Deserialize)]
pub struct Page {
    pub messages: Vec<Message>,
    #[serde(with = "text::seq_if_any")]
    pub next_before_seq: Option<Seq>,
    #[serde(with = "text::seq_if_any")]
    pub next_after_seq: Option<Seq>,
    #[serde(with = "text::seq")]
    pub head_seq: Seq,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct MemberStatus {
    #[serde(with = "text::spelled")]
    pub user_id: UserId,
    #[serde(flatten)]
    pub marks: Marks,
    #[serde(with = "text::seq")]
    pub joined_seq: Seq,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Statuses {
    pub members: Vec<MemberStatus>,
}

/// How many have one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Receipts {
    pub recipient_count: usize,
    pub delivered_count: usize,
    pub read_count: usize,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Presences {
    pub members: Vec<Presence>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Person {
    #[serde(with = "text::spelled")]
    pub user_id: UserId,
    #[serde(default)]
    pub display_name: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct People {
    pub people: Vec<Person>,
}

/// What a user sets for itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Profile {
    #[serde(with = "text::spelled")]
    pub user_id: UserId,
    pub show_presence: bool,
    #[serde(default)]
    pub display_name: Option<String>,
}

/// What is not named stays as it is.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ProfileChange {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub show_presence: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
}

/// What a member sets for itself in one conversation. What is not named stays as it is.
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

/// Who one is from now on. Not `Debug`: the token never reaches a log.
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
