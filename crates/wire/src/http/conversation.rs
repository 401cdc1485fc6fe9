//! Conversations and who is in them.

use bluetick_core::{
    ConversationKind, ConversationView, InboxEntry, Preferences, Role, Timestamp, Title, UserId,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::account::parse_user;
use super::inbox::BoundariesBody;
use crate::{BadInput, decode, text};

/// A chat with one other person, or a group.
#[derive(Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[schema(example = json!({"kind": "direct", "peer": "bob"}))]
pub enum OpenConversationRequest {
    /// The one conversation with this person; it is found when it exists already.
    Direct {
        /// 1 to 128 bytes of UTF-8, without spaces, control characters or format characters.
        #[schema(min_length = 1, max_length = 128, pattern = r"^\S+$")]
        peer: String,
    },
    /// A new group. Whoever asks is its admin and a member.
    Group {
        /// 1 to 256 bytes of UTF-8. Bidi controls are removed.
        #[schema(min_length = 1, max_length = 256)]
        title: String,
        /// The others: each a user_id of 1 to 128 bytes, without spaces, control characters or format
        /// characters.
        #[serde(default)]
        members: Option<Vec<String>>,
    },
}

/// The same, checked.
pub enum OpenConversation {
    Direct { peer: UserId },
    Group { title: Title, members: Vec<UserId> },
}

impl OpenConversation {
    pub fn decode(json: &[u8]) -> Result<OpenConversation, BadInput> {
        #[derive(Deserialize)]
        struct Kind {
            kind: String,
        }
        #[derive(Deserialize)]
        struct Direct {
            peer: String,
        }
        #[derive(Deserialize)]
        struct Group {
            title: String,
            members: Option<Vec<String>>,
        }
        // In two steps rather than as a tagged enum, whose errors cannot name the field.
        match decode::<Kind>(json)?.kind.as_str() {
            "direct" => {
                let Direct { peer } = decode(json)?;
                Ok(OpenConversation::Direct { peer: parse_user("peer", &peer)? })
            }
            "group" => {
                let Group { title, members } = decode(json)?;
                let title = title.parse().map_err(|invalid| BadInput::field("title", invalid))?;
                Ok(OpenConversation::Group { title, members: parse_users(&members.unwrap_or_default())? })
            }
            _ => Err(BadInput::field("kind", "must be \"direct\" or \"group\"")),
        }
    }
}

fn parse_users(users: &[String]) -> Result<Vec<UserId>, BadInput> {
    let parse = |(index, user): (usize, &String)| parse_user(&format!("members[{index}]"), user);
    users.iter().enumerate().map(parse).collect()
}

#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"members": ["carol", "dave"]}))]
pub struct AddMembersRequest {
    /// Who joins: each a user_id of 1 to 128 bytes, without spaces, control characters or format
    /// characters. Those already in are passed over.
    #[serde(default)]
    members: Vec<String>,
    /// The same for a single person.
    user_id: Option<String>,
}

impl AddMembersRequest {
    pub fn count(&self) -> usize {
        self.members.len() + usize::from(self.user_id.is_some())
    }

    pub fn users(&self) -> Result<Vec<UserId>, BadInput> {
        let mut users = parse_users(&self.members)?;
        if let Some(user) = &self.user_id {
            users.push(parse_user("user_id", user)?);
        }
        Ok(users)
    }
}

#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum KindBody {
    Direct,
    Group,
}

impl From<ConversationKind> for KindBody {
    fn from(kind: ConversationKind) -> KindBody {
        match kind {
            ConversationKind::Direct => KindBody::Direct,
            ConversationKind::Group => KindBody::Group,
        }
    }
}

#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RoleBody {
    /// May remove others.
    Admin,
    Member,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct MemberBody {
    #[serde(serialize_with = "text::shown")]
    #[schema(value_type = String)]
    pub user_id: UserId,
    pub role: RoleBody,
    /// The first seq this member sees.
    pub joined_seq: u64,
}

/// A conversation as one of its members sees it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "conversation_id": "g0123456789abcdefghjkmnpq", "kind": "group", "title": "Lunch", "peer": null,
    "created_by": "alice", "created_at": 1767225600000i64, "head_seq": 7, "last_at": 1767225660000i64, "member_count": 2,
    "members": [
        {"user_id": "alice", "role": "admin", "joined_seq": 1}, {"user_id": "bob", "role": "member", "joined_seq": 1},
    ],
}))]
pub struct ConversationBody {
    pub conversation_id: String,
    pub kind: KindBody,
    /// Null in direct conversations.
    #[schema(required)]
    pub title: Option<String>,
    /// The other person of a direct conversation; null in groups.
    #[serde(serialize_with = "text::shown_if_any")]
    #[schema(value_type = Option<String>, required)]
    pub peer: Option<UserId>,
    #[serde(serialize_with = "text::shown")]
    #[schema(value_type = String)]
    pub created_by: UserId,
    /// Milliseconds since the Unix epoch.
    #[serde(serialize_with = "text::millis")]
    #[schema(value_type = i64)]
    pub created_at: Timestamp,
    /// The newest message; 0 while there is none.
    pub head_seq: u64,
    /// When the newest message came in, or when the conversation was made.
    #[serde(serialize_with = "text::millis")]
    #[schema(value_type = i64)]
    pub last_at: Timestamp,
    pub member_count: usize,
    pub members: Vec<MemberBody>,
}

impl ConversationBody {
    pub fn new(view: &ConversationView, reader: &UserId) -> ConversationBody {
        let conversation = &view.conversation;
        let kind = conversation.kind();
        ConversationBody {
            conversation_id: conversation.id.to_string(),
            kind: kind.into(),
            title: conversation.title.as_ref().map(|title| title.as_str().to_string()),
            peer: (kind == ConversationKind::Direct).then(|| view.members.peer_of(reader).cloned()).flatten(),
            created_by: conversation.created_by.clone(),
            created_at: conversation.created_at,
            head_seq: conversation.head.get(),
            last_at: conversation.last_at,
            member_count: view.members.len(),
            members: view.members.iter().map(MemberBody::from).collect(),
        }
    }
}

/// What a conversation is to whoever asks: the same as in the inbox.
#[derive(Debug, Serialize, ToSchema)]
pub struct OwnPartBody {
    /// Messages by others above `my_status.last_read_seq`; notices and voids do not count.
    pub unread: u64,
    /// How far the reader has come.
    pub my_status: BoundariesBody,
    /// How far the other has come; in a group, the member furthest behind.
    pub peer_status: BoundariesBody,
    pub muted: bool,
    pub pinned: bool,
    pub archived: bool,
    /// Whether the others are told what the reader has read.
    pub read_receipts: bool,
}

impl From<&InboxEntry> for OwnPartBody {
    fn from(entry: &InboxEntry) -> OwnPartBody {
        let Preferences { muted, pinned, archived, hides_reads } = entry.preferences;
        OwnPartBody {
            unread: entry.unread,
            my_status: entry.own.into(),
            peer_status: entry.others.into(),
            muted,
            pinned,
            archived,
            read_receipts: !hides_reads,
        }
    }
}

/// A conversation, who is in it, and what it is to whoever asks.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "conversation_id": "g0123456789abcdefghjkmnpq", "kind": "group", "title": "Lunch", "peer": null,
    "created_by": "alice", "created_at": 1767225600000i64, "head_seq": 7, "last_at": 1767225660000i64, "member_count": 1,
    "members": [{"user_id": "alice", "role": "admin", "joined_seq": 1}],
    "unread": 1, "my_status": {"last_delivered_seq": 7, "last_read_seq": 6},
    "peer_status": {"last_delivered_seq": 6, "last_read_seq": 6},
    "muted": false, "pinned": false, "archived": false, "read_receipts": true,
}))]
pub struct ConversationDetailBody {
    #[serde(flatten)]
    pub conversation: ConversationBody,
    #[serde(flatten)]
    pub own: OwnPartBody,
}

impl From<&bluetick_core::Member> for MemberBody {
    fn from(member: &bluetick_core::Member) -> MemberBody {
        let role = match member.role {
            Role::Admin => RoleBody::Admin,
            Role::Member => RoleBody::Member,
        };
        MemberBody { user_id: member.user.clone(), role, joined_seq: member.joined_seq.get() }
    }
}
