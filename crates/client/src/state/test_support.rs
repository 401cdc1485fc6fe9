//! Builders for the tests of the state.

use bluetick_types::{ConversationId, MessageId, Seq, Timestamp, UserId};

use crate::wire::bodies::{InboxEntry, Message, ReadState};

pub fn user(name: &str) -> UserId {
    name.parse().unwrap()
}

/// The direct conversation of alice, who owns this device, and bob.
pub fn direct() -> ConversationId {
    ConversationId::direct(&user("alice"), &user("bob"))
}

pub fn said(seq: u64, sender: &str) -> Message {
    Message {
        conversation_id: direct(),
        seq: Seq::new(seq),
        message_id: MessageId::from_stored(&format!("m{seq}")),
        sender_id: user(sender),
        content: format!("text {seq}"),
        content_type: "text".into(),
        timestamp: Timestamp::from_millis(seq as i64),
        received_at: Timestamp::from_millis(seq as i64),
    }
}

/// A void at this seq.
pub fn void(seq: u64) -> Message {
    Message {
        message_id: MessageId::from_stored(&format!("system:{seq}")),
        content: String::new(),
        content_type: "void".into(),
        ..said(seq, "void")
    }
}

pub fn marks(delivered: u64, read: u64) -> ReadState {
    ReadState { last_delivered_seq: Seq::new(delivered), last_read_seq: Seq::new(read) }
}

pub fn entry(last_seq: u64, unread: u64, my_status: ReadState) -> InboxEntry {
    InboxEntry {
        conversation_id: direct(),
        title: None,
        peer: Some(user("bob")),
        member_count: 2,
        last_seq: Seq::new(last_seq),
        last_at: Timestamp::from_millis(last_seq as i64),
        last_message: None,
        unread,
        first_seq: Seq::FIRST,
        my_status,
        peer_status: marks(0, 0),
        muted: false,
        pinned: false,
        archived: false,
        read_receipts: true,
        peer_presence: None,
    }
}
