//! Conversations and their members.

use bluetick_core::{
    ConversationKind, ConversationWithMembers, InboxEntry, Preferences, Role, Timestamp, Title, UserId,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::account::parse_user;
use super::inbox::ReadStateBody;
use crate::{BadInput, decode, text};

/// A request for a direct conversation or a new group.
#[derive(Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[schema(example = json!({"kind": "direct", "peer": "bob"}))]
pub enum OpenConversationRequest {
    /// The direct conversation with one other user. If it exists, the call returns it.
    #[schema(title = "Direct conversation")]
    Direct {
        /// The other user: 1 to 128 bytes of UTF-8, without spaces, control characters or format
        /// characters.
        #[schema(min_length = 1, max_length = 128, pattern = r"^\S+$")]
        peer: String,
    },
    /// A new group. The caller becomes its first member and its admin.
    #[schema(title = "Group")]
    Group {
        /// The title of the group: 1 to 256 bytes of UTF-8. Bidi control characters are removed.
        #[schema(min_length = 1, max_length = 256)]
        title: String,
        /// The other members. Each is a user_id of 1 to 128 bytes, without spaces, control
        /// characters or format characters. Default: none.
        #[serde(default)]
        members: Option<Vec<String>>,
    },
}

/// A validated [`OpenConversationRequest`].
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
        // Two passes instead of a tagged enum, whose errors cannot name the field.
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

/// Users to add to a group: `members`, `user_id`, or both.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"members": ["carol", "dave"]}))]
pub struct AddMembersRequest {
    /// The users to add. Each is a user_id of 1 to 128 bytes, without spaces, control characters or
    /// format characters. Users who are members already are ignored.
    #[serde(default)]
    members: Vec<String>,
    /// A single user to add.
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

/// The kind of a conversation.
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

/// The role of a member.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RoleBody {
    /// May remove other members.
    Admin,
    Member,
}

/// A member of a conversation.
#[derive(Debug, Serialize, ToSchema)]
pub struct MemberBody {
    /// The member.
    #[serde(serialize_with = "text::shown")]
    #[schema(value_type = String)]
    pub user_id: UserId,
    /// The role of the member. Admins can remove other members.
    pub role: RoleBody,
    /// The first seq that the member can see.
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
    /// The id of the conversation.
    pub conversation_id: String,
    /// Whether it is a direct conversation or a group.
    pub kind: KindBody,
    /// The title of a group; null in direct conversations.
    #[schema(required)]
    pub title: Option<String>,
    /// The other user of a direct conversation; null in groups.
    #[serde(serialize_with = "text::shown_if_any")]
    #[schema(value_type = Option<String>, required)]
    pub peer: Option<UserId>,
    /// The user who created the conversation.
    #[serde(serialize_with = "text::shown")]
    #[schema(value_type = String)]
    pub created_by: UserId,
    /// When the conversation was created, in milliseconds since the Unix epoch.
    #[serde(serialize_with = "text::millis")]
    #[schema(value_type = i64)]
    pub created_at: Timestamp,
    /// The newest seq of the conversation; 0 if there is none.
    pub head_seq: u64,
    /// When the newest message was received, or when the conversation was created, in milliseconds
    /// since the Unix epoch.
    #[serde(serialize_with = "text::millis")]
    #[schema(value_type = i64)]
    pub last_at: Timestamp,
    /// The number of members.
    pub member_count: usize,
    /// All members.
    pub members: Vec<MemberBody>,
}

impl ConversationBody {
    pub fn new(view: &ConversationWithMembers, reader: &UserId) -> ConversationBody {
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

/// The part of a conversation that is specific to the caller, as in the inbox.
#[derive(Debug, Serialize, ToSchema)]
pub struct OwnPartBody {
    /// The number of messages from others above `my_status.last_read_seq`. Notices and voids do not
    /// count.
    pub unread: u64,
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

/// A conversation with its members and the settings and read state of the caller.
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
