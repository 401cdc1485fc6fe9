//! Example values, and the snapshot files with their encoded form.

use bluetick_core::ports::Appended;
use bluetick_core::{
    ContentType, Conversation, ConversationId, InboxEntry, LastMessage, Message, MessageId, Preferences,
    ReadState, Seq, Timestamp, UserId,
};

pub const NOW: Timestamp = Timestamp::from_millis(1_767_225_600_123);

pub fn user(name: &str) -> UserId {
    name.parse().unwrap()
}

pub fn direct() -> ConversationId {
    ConversationId::direct(&user("alice"), &user("bob"))
}

pub fn message_id() -> MessageId {
    "0199c0de-0000-7000-8000-000000000001".parse().unwrap()
}

pub fn message(content: &str) -> Message {
    Message {
        conversation: direct(),
        seq: Seq::new(7),
        message_id: message_id(),
        sender: user("alice"),
        receiver: Some(user("bob")),
        content_type: ContentType::Text,
        content: content.into(),
        timestamp: Timestamp::from_millis(-5),
        received_at: NOW,
    }
}

pub fn appended(duplicate: bool) -> Appended {
    Appended { seq: Seq::new(7), received_at: NOW, duplicate }
}

pub fn conversation() -> Conversation {
    Conversation {
        id: direct(),
        title: None,
        created_by: user("alice"),
        created_at: Timestamp::from_millis(1),
        head: Seq::new(7),
        last_at: Timestamp::from_millis(2),
    }
}

pub fn read_state(delivered: u64, read: u64) -> ReadState {
    ReadState { delivered: Seq::new(delivered), read: Seq::new(read) }
}

/// A direct conversation in the inbox of alice.
pub fn entry() -> InboxEntry {
    InboxEntry {
        conversation: conversation(),
        peer: Some(user("bob")),
        member_count: 2,
        last_message: Some(LastMessage {
            seq: Seq::new(7),
            message_id: message_id(),
            sender: user("bob"),
            content_type: ContentType::Text,
            preview: "Lunch? \"now\"".into(),
            timestamp: Timestamp::from_millis(-5),
            received_at: NOW,
        }),
        unread: 2,
        own: read_state(7, 5),
        others: read_state(6, 4),
        preferences: Preferences { pinned: true, ..Preferences::default() },
        joined: Seq::FIRST,
    }
}

/// A group with one notice, whose reader hides read receipts.
pub fn group_entry() -> InboxEntry {
    let mut entry = entry();
    entry.conversation.id = ConversationId::group([9; 15]);
    entry.conversation.title = Some("Lunch".parse().unwrap());
    entry.peer = None;
    entry.preferences =
        Preferences { muted: true, archived: true, hides_reads: true, ..Preferences::default() };
    let last = entry.last_message.as_mut().unwrap();
    (last.content_type, last.preview) = (ContentType::System, r#"{"event":"member_left"}"#.into());
    last.message_id = MessageId::of_notice(Seq::new(7));
    entry
}

/// One line for each value. A change here changes the contract; `BLUETICK_BLESS=1` accepts it.
pub fn snapshot(name: &str, lines: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(name);
    if std::env::var_os("BLUETICK_BLESS").is_some() {
        std::fs::write(&path, lines).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert_eq!(lines, expected, "if this change is intended: BLUETICK_BLESS=1 cargo test -p bluetick-wire");
}
