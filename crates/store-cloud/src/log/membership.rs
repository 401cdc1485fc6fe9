//! Changes of members, as rows of the log.
//!
//! The first row of a change is decisive: it names everything that changes, and the notices in the
//! rows that follow. Any writer can write those, because they follow from the first row alone.

use std::sync::Arc;

use bluetick_core::members::MembershipChange;
use bluetick_core::notice::Notice;
use bluetick_core::{
    ContentType, ConversationId, Member, Message, MessageId, Role, Seq, StoreError, Timestamp, UserId,
};
use serde::{Deserialize, Serialize};

use crate::cells::Cell;
use crate::rows::Item;

/// A change of members. Each user who joins, and the one who leaves, has a notice with a seq of its
/// own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MembershipRow {
    by: String,
    at: i64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    joined: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    left: Option<Departure>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Departure {
    user: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    new_admin: Option<String>,
}

/// The attribute of the first row.
pub(super) const MEMBERSHIP: &str = "membership";
/// The attribute of the rows that follow: the seq of the first row.
pub(super) const MEMBERSHIP_FIRST: &str = "membership_first";

impl MembershipRow {
    /// # Panics
    ///
    /// If no user joins.
    pub fn joining(by: &UserId, users: &[UserId], at: Timestamp) -> MembershipRow {
        assert!(!users.is_empty(), "a change has a first row");
        let joined = users.iter().map(|user| user.as_str().to_owned()).collect();
        MembershipRow { by: by.as_str().to_owned(), at: at.millis(), joined, left: None }
    }

    pub fn leaving(by: &UserId, user: &UserId, new_admin: Option<&UserId>, at: Timestamp) -> MembershipRow {
        let new_admin = new_admin.map(|user| user.as_str().to_owned());
        let left = Some(Departure { user: user.as_str().to_owned(), new_admin });
        MembershipRow { by: by.as_str().to_owned(), at: at.millis(), joined: Vec::new(), left }
    }

    /// The number of rows that this change takes, the first one included.
    pub fn row_count(&self) -> u64 {
        (self.joined.len() + usize::from(self.left.is_some())).max(1) as u64
    }

    /// Returns the row at `seq` of the change whose first row is at `first`.
    pub fn item(&self, conversation: ConversationId, first: Seq, seq: Seq) -> Result<Item, StoreError> {
        let (by, at) = (user(&self.by)?, Timestamp::from_millis(self.at));
        let index = usize::try_from(seq.distance_from(first)).unwrap_or(usize::MAX);
        let (content, departed) = match (self.joined.get(index), &self.left) {
            (Some(joined), _) => (Notice::MemberAdded { by: &self.by, user_id: joined }.content(), None),
            (None, Some(Departure { user: left, .. })) => {
                let left = user(left)?;
                (Notice::departure(&by, &left).content(), Some(left))
            }
            (None, None) => return Err(StoreError::Damaged("a change of members has no such row".into())),
        };
        let message = Message {
            conversation,
            seq,
            message_id: MessageId::of_notice(seq),
            sender: by,
            receiver: None,
            content_type: ContentType::System,
            content: Arc::from(content),
            timestamp: at,
            received_at: at,
        };
        let cell = Cell { message: Arc::new(message), last_at: Some(at), departed, cold: None };
        Ok(match seq == first {
            true => cell.item().text(MEMBERSHIP, self.text()),
            false => cell.item().count(MEMBERSHIP_FIRST, first.get()),
        })
    }

    /// Returns what changes, each with the seq of its notice.
    pub fn changes(&self, first: Seq) -> Result<Vec<(Seq, MembershipChange)>, StoreError> {
        let mut changes = Vec::new();
        for (index, joined) in self.joined.iter().enumerate() {
            let seq = first.plus(index as u64);
            let member = Member { user: user(joined)?, role: Role::Member, joined_seq: seq };
            changes.push((seq, MembershipChange::Joined(member)));
        }
        if let Some(Departure { user: left, new_admin }) = &self.left {
            let new_admin = new_admin.as_deref().map(user).transpose()?;
            let seq = first.plus(changes.len() as u64);
            changes.push((seq, MembershipChange::Left { user: user(left)?, new_admin }));
        }
        Ok(changes)
    }

    fn text(&self) -> String {
        serde_json::to_string(self).expect("a change holds strings and numbers only")
    }

    pub(super) fn decode(item: &Item) -> Result<Option<MembershipRow>, StoreError> {
        let damaged = |_| StoreError::Damaged("a change of members".into());
        item.find_text(MEMBERSHIP).map(|text| serde_json::from_str(text).map_err(damaged)).transpose()
    }
}

fn user(text: &str) -> Result<UserId, StoreError> {
    UserId::from_stored(text).map_err(|_| StoreError::Damaged("a user id in a change of members".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> UserId {
        name.parse().unwrap()
    }

    #[test]
    fn first_row_decodes_to_the_change_and_names_the_rows_that_follow() {
        let conversation = ConversationId::group([7; 15]);
        let change =
            MembershipRow::joining(&id("alice"), &[id("bob"), id("carol")], Timestamp::from_millis(9));
        let first = change.item(conversation, Seq::new(5), Seq::new(5)).unwrap();
        assert_eq!(MembershipRow::decode(&first).unwrap(), Some(change.clone()));
        let second = change.item(conversation, Seq::new(5), Seq::new(6)).unwrap();
        assert_eq!(second.find_count(MEMBERSHIP_FIRST), 5);
        assert!(second.find_text("content").unwrap().contains("carol"));
        assert!(change.item(conversation, Seq::new(5), Seq::new(7)).is_err());
        let seqs: Vec<_> = change.changes(Seq::new(5)).unwrap().iter().map(|(seq, _)| seq.get()).collect();
        assert_eq!(seqs, [5, 6]);
    }

    #[test]
    fn departure_takes_one_row_and_names_the_new_admin() {
        let change =
            MembershipRow::leaving(&id("alice"), &id("alice"), Some(&id("bob")), Timestamp::from_millis(9));
        assert_eq!(change.row_count(), 1);
        let left = MembershipChange::Left { user: id("alice"), new_admin: Some(id("bob")) };
        assert_eq!(change.changes(Seq::new(3)).unwrap(), [(Seq::new(3), left)]);
    }
}
