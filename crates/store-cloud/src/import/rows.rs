//! Which rows a store comes to: one place for whoever writes them and whoever compares them.

use std::sync::Arc;

use bluetick_core::{
    ContentType, Conversation, ConversationId, MemberState, Message, MessageId, Preferences, Timestamp,
    UserId,
};
use serde::Deserialize;

use super::{ImportedPerson, ImportedRoom};
use crate::append::LARGE;
use crate::archive::Way;
use crate::cells::Cell;
use crate::inbox::inbox_item;
use crate::memberships::{Facts, RoomRow, member_item};
use crate::pending::pending_item;
use crate::people::{name_keys, with_profile, with_user};
use crate::rows::{Item, Key, Table};
use crate::standings::status_item;

pub type Row = (Table, Key, Item);

pub fn person(person: &ImportedPerson) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut item = Item::new();
    if let Some(account) = &person.account {
        item = with_user(item, account);
        rows.extend(
            name_keys(account).into_iter().map(|(table, key)| (table, key, Item::new().versioned(1))),
        );
    }
    if let Some(profile) = &person.profile {
        item = with_profile(item, profile);
    }
    rows.push((Table::Users, Key::new(&person.id), item.versioned(1)));
    rows
}

/// The row that reserves a conversation. Its version of the members is below any that a node would believe.
pub fn claim(conversation: &Conversation) -> Item {
    room_row(conversation, 1, 0).item()
}

pub fn room(conversation: &Conversation) -> Item {
    room_row(conversation, 2, 1).item()
}

fn room_row(conversation: &Conversation, version: u64, members_version: u64) -> RoomRow {
    let Conversation { id, title, created_by, created_at, .. } = conversation.clone();
    let facts = Facts { id, title, created_by, created_at };
    RoomRow { facts, version, members_version, intent: None, way: Way::default() }
}

pub fn members(room: &ImportedRoom) -> Vec<Row> {
    let id = room.conversation.id;
    let row = |(member, _): &(_, _)| {
        let member: &bluetick_core::Member = member;
        (Table::Members, Key::text(id, &member.user), member_item(member).versioned(1))
    };
    room.members.iter().map(row).collect()
}

/// What follows from the messages for each member, and which rows there must not be.
pub struct Consequences {
    pub rows: Vec<Row>,
    pub absent: Vec<(Table, Key)>,
}

pub fn consequences(room: &ImportedRoom, newest: Option<&Cell>) -> Consequences {
    let Conversation { id, head, last_at, .. } = room.conversation;
    let is_large = room.members.len() > LARGE;
    let mut all = Consequences { rows: Vec::with_capacity(3 * room.members.len()), absent: Vec::new() };
    for (member, member_state) in &room.members {
        let key = Key::text(&member.user, id);
        let inbox = inbox_item(member_state.preferences, last_at, newest, 1);
        all.rows.push((Table::Conversations, key.clone(), inbox));
        // What else the member set stands in the inbox row.
        let hides_reads = member_state.preferences.hides_reads;
        let alone = MemberState {
            preferences: Preferences { hides_reads, ..Preferences::default() },
            ..*member_state
        };
        match alone == MemberState::default() {
            true => all.absent.push((Table::MessageStatus, key.clone())),
            false => all.rows.push((Table::MessageStatus, key.clone(), status_item(&alone, 1))),
        }
        match member_state.pending_after(member.joined_seq, head) {
            Some(after) => {
                all.rows.push((Table::PendingDeliveries, key, pending_item(after.next(), is_large)));
            }
            None if is_large => {
                all.rows.push((Table::PendingDeliveries, key, pending_item(head.next(), true)));
            }
            None => all.absent.push((Table::PendingDeliveries, key)),
        }
    }
    all
}

/// Which rows somebody has in a conversation, besides being a member.
pub fn rows_of_member(id: ConversationId, user: &str) -> [(Table, Key); 3] {
    let tables = [Table::Conversations, Table::MessageStatus, Table::PendingDeliveries];
    tables.map(|table| (table, Key::text(user, id)))
}

/// Turns messages into cells, in their order: each carries the latest moment of all up to it.
pub struct Chain {
    last_at: Timestamp,
}

impl Chain {
    pub fn new(conversation: &Conversation) -> Chain {
        Chain { last_at: conversation.created_at }
    }

    pub fn cell(&mut self, mut message: Message) -> Cell {
        self.last_at = self.last_at.max(message.received_at);
        // As one that was lost it would count as unread, which no notice does.
        if message.content_type == ContentType::Lost
            && message.message_id == MessageId::of_notice(message.seq)
        {
            message.content_type = ContentType::Void;
        }
        let departed = departed(&message);
        Cell { message: Arc::new(message), last_at: Some(self.last_at), departed, cold: None }
    }
}

/// Who left by this message, as the notice itself says.
fn departed(message: &Message) -> Option<UserId> {
    #[derive(Deserialize)]
    struct Departure<'a> {
        event: &'a str,
        user_id: std::borrow::Cow<'a, str>,
    }
    if message.content_type != ContentType::System {
        return None;
    }
    let notice: Departure<'_> = serde_json::from_str(&message.content).ok()?;
    matches!(notice.event, "member_left" | "member_removed")
        .then(|| UserId::from_stored(&notice.user_id).ok())?
}

#[cfg(test)]
mod tests {
    use bluetick_core::Seq;
    use bluetick_core::notice::Notice;

    use super::*;

    fn notice(notice: &Notice<'_>) -> Message {
        let seq = Seq::FIRST;
        Message {
            conversation: ConversationId::group([1; 15]),
            seq,
            message_id: MessageId::of_notice(seq),
            sender: "ann".parse().unwrap(),
            receiver: None,
            content_type: ContentType::System,
            content: notice.content().into(),
            timestamp: Timestamp::default(),
            received_at: Timestamp::default(),
        }
    }

    #[test]
    fn a_notice_that_was_lost_counts_as_little_as_before_and_a_message_stays_one() {
        let said = notice(&Notice::MemberLeft { user_id: "ann" });
        let lost = Message { content_type: ContentType::Lost, content: "".into(), ..said };
        let mut chain = Chain { last_at: Timestamp::default() };
        assert!(!chain.cell(lost.clone()).message.content_type.counts_as_unread());
        let message = Message { message_id: "of-a-client".parse().unwrap(), ..lost };
        assert_eq!(chain.cell(message).message.content_type, ContentType::Lost);
    }

    #[test]
    fn a_notice_says_who_left_by_it() {
        let name = "b\"ö\\b";
        let (ann, bob): (UserId, UserId) = ("ann".parse().unwrap(), name.parse().unwrap());
        assert_eq!(departed(&notice(&Notice::departure(&ann, &bob))), Some(bob.clone()));
        assert_eq!(departed(&notice(&Notice::departure(&bob, &bob))), Some(bob));
        let added = Notice::MemberAdded { by: "ann", user_id: name };
        assert_eq!(departed(&notice(&added)), None);
        let said = Message { content_type: ContentType::Text, ..notice(&Notice::departure(&ann, &ann)) };
        assert_eq!(departed(&said), None, "anybody may write such a text");
    }
}
