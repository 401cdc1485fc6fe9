//! What nodes tell each other, as it goes over the wire. Nodes of neighbouring versions must understand each other: what
//! is unknown is passed over, what is new has a default.

use std::sync::Arc;

use bluetick_core::ports::ReadStateMoved;
use bluetick_core::{
    ContentType, ConversationId, Members, Message, MessageId, Profile, ReadState, Revocations, Seq,
    Timestamp, UserId,
};
use serde::{Deserialize, Serialize};

use crate::cells::Cell;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "snake_case")]
pub(crate) enum Item {
    Cell(CellNews),
    Moved(MovedNews),
    Joined {
        conversation: String,
        user: String,
    },
    Preferred {
        conversation: String,
        user: String,
    },
    Typing {
        conversation: String,
        user: String,
    },
    Presence(PresenceNews),
    /// Something before this was lost.
    Missed,
    /// As the row has it.
    Revoked {
        user: String,
        void: String,
    },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CellNews {
    conversation: String,
    pub seq: u64,
    id: String,
    sender: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    receiver: Option<String>,
    kind: String,
    content: String,
    timestamp: i64,
    received_at: i64,
    last_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    departed: Option<String>,
    pub members_version: u64,
    /// Every cell up to here is written.
    pub settled: u64,
    /// Who is connected to the receiving node, as far as the sending one knows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MovedNews {
    conversation: String,
    user: String,
    delivered: u64,
    read: u64,
    shown: Option<(u64, u64)>,
    unread: Option<u64>,
    pub members_version: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PresenceNews {
    pub user: String,
    pub online: bool,
    pub last_seen_at: Option<i64>,
    pub hides_presence: bool,
    pub to: Vec<String>,
}

impl CellNews {
    pub fn new(cell: &Cell, members_version: u64, settled: Seq) -> CellNews {
        let message = &cell.message;
        CellNews {
            conversation: message.conversation.to_string(),
            seq: message.seq.get(),
            id: message.message_id.to_string(),
            sender: message.sender.to_string(),
            receiver: message.receiver.as_ref().map(ToString::to_string),
            kind: message.content_type.to_string(),
            content: message.content.to_string(),
            timestamp: message.timestamp.millis(),
            received_at: message.received_at.millis(),
            last_at: cell.last_at.map(Timestamp::millis),
            departed: cell.departed.as_ref().map(ToString::to_string),
            members_version,
            settled: settled.get(),
            to: Vec::new(),
        }
    }

    /// `None` where something in it means nothing here.
    pub fn cell(&self) -> Option<Cell> {
        let message = Message {
            conversation: self.conversation.parse().ok()?,
            seq: Seq::new(self.seq),
            message_id: MessageId::from_stored(&self.id),
            sender: UserId::from_stored(&self.sender).ok()?,
            receiver: self.receiver.as_ref().map(|user| UserId::from_stored(user)).transpose().ok()?,
            content_type: ContentType::from_stored(&self.kind),
            content: self.content.as_str().into(),
            timestamp: Timestamp::from_millis(self.timestamp),
            received_at: Timestamp::from_millis(self.received_at),
        };
        Some(Cell {
            message: Arc::new(message),
            last_at: self.last_at.map(Timestamp::from_millis),
            departed: self.departed.as_ref().map(|user| UserId::from_stored(user)).transpose().ok()?,
            cold: None,
        })
    }
}

impl MovedNews {
    pub fn new(moved: &ReadStateMoved, members_version: u64) -> MovedNews {
        MovedNews {
            conversation: moved.conversation.to_string(),
            user: moved.user.to_string(),
            delivered: moved.own.delivered.get(),
            read: moved.own.read.get(),
            shown: moved.shown.map(|shown| (shown.delivered.get(), shown.read.get())),
            unread: moved.unread,
            members_version,
        }
    }

    pub fn conversation(&self) -> Option<ConversationId> {
        self.conversation.parse().ok()
    }

    pub fn moved(&self, members: Arc<Members>) -> Option<ReadStateMoved> {
        let read_state =
            |(delivered, read)| ReadState { delivered: Seq::new(delivered), read: Seq::new(read) };
        Some(ReadStateMoved {
            conversation: self.conversation()?,
            user: UserId::from_stored(&self.user).ok()?,
            members,
            own: read_state((self.delivered, self.read)),
            shown: self.shown.map(read_state),
            unread: self.unread,
            origin: None,
        })
    }
}

impl PresenceNews {
    pub fn profile(&self) -> Profile {
        Profile {
            last_seen_at: self.last_seen_at.map(Timestamp::from_millis),
            hides_presence: self.hides_presence,
            revocations: Revocations::default(),
        }
    }

    pub fn to(&self) -> Vec<UserId> {
        self.to.iter().filter_map(|user| UserId::from_stored(user).ok()).collect()
    }
}
