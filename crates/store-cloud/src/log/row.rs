//! The rows of a log, and their attributes in the table.

use std::sync::Arc;

use bluetick_core::{ContentType, ConversationId, Message, MessageId, Seq, StoreError, Timestamp, UserId};

use super::membership::{MEMBERSHIP, MEMBERSHIP_FIRST};
use super::{Incarnation, MembershipRow};
use crate::cells::Cell;
use crate::rows::Item;

/// A message to append: its id and the attributes of its row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    pub sender: UserId,
    pub message_id: MessageId,
    pub item: Item,
}

/// A stored row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRow {
    pub kind: RowKind,
    pub item: Item,
    /// The change of members that begins with this row.
    pub membership: Option<MembershipRow>,
}

/// The meaning of a row for the writers of a log. Clients see a void in place of the last three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind {
    Message,
    Void,
    /// Reserves the `count` seqs above this row for its holder.
    Grant {
        holder: Incarnation,
        count: u64,
    },
    /// The rows above this row are spread over so many partitions, in blocks of `block` seqs.
    Epoch {
        partitions: u16,
        block: u64,
    },
}

// Attributes that only control rows have.
const CONTROL: &str = "control";
const HOLDER: &str = "holder";
const COUNT: &str = "count";
const PARTITIONS: &str = "partitions";
const BLOCK: &str = "block";
// The values of `control`.
const GRANT: &str = "grant";
const EPOCH: &str = "epoch";

/// The attributes that a writer needs of rows that are already stored.
pub const ID_FIELDS: &[&str] = &[
    "message_id",
    "sender_id",
    "content_type",
    CONTROL,
    HOLDER,
    COUNT,
    PARTITIONS,
    BLOCK,
    MEMBERSHIP,
    MEMBERSHIP_FIRST,
];

impl LogRow {
    pub fn message(item: Item) -> LogRow {
        LogRow { kind: RowKind::Message, item, membership: None }
    }

    /// Returns a void or a control row. All of them have the attributes of a void, so that every
    /// reader of messages shows them as one.
    pub fn control(conversation: ConversationId, seq: Seq, kind: RowKind, now: Timestamp) -> LogRow {
        let message = Arc::new(Message::void(conversation, seq, now));
        let item = Cell { message, last_at: None, departed: None, cold: None }.item();
        let item = match kind {
            RowKind::Message | RowKind::Void => item,
            RowKind::Grant { holder, count } => {
                item.text(CONTROL, GRANT).text(HOLDER, holder.to_string()).count(COUNT, count)
            }
            RowKind::Epoch { partitions, block } => {
                item.text(CONTROL, EPOCH).count(PARTITIONS, u64::from(partitions)).count(BLOCK, block)
            }
        };
        LogRow { kind, item, membership: None }
    }

    pub fn decode(item: Item) -> Result<LogRow, StoreError> {
        let kind = match item.find_text(CONTROL).map(|text| &**text) {
            Some(GRANT) => {
                let holder = item.get_text(HOLDER)?.parse();
                let holder = holder.map_err(|_| StoreError::Damaged("the holder of a grant".into()))?;
                RowKind::Grant { holder, count: item.find_count(COUNT) }
            }
            Some(EPOCH) => {
                let partitions = u16::try_from(item.find_count(PARTITIONS)).unwrap_or(0);
                let block = item.find_count(BLOCK);
                if partitions == 0 || block == 0 {
                    return Err(StoreError::Damaged("an epoch row".into()));
                }
                RowKind::Epoch { partitions, block }
            }
            Some(other) => {
                return Err(StoreError::Damaged(format!("a control row of kind {other}").into()));
            }
            None => match ContentType::from_stored(item.get_text("content_type")?) {
                ContentType::Void => RowKind::Void,
                _ => RowKind::Message,
            },
        };
        let membership = MembershipRow::decode(&item)?;
        Ok(LogRow { kind, item, membership })
    }

    /// Returns the first row of the change of members to which this row belongs, if it is not the
    /// first one itself.
    pub fn membership_first(&self) -> Option<Seq> {
        Some(Seq::new(self.item.find_count(MEMBERSHIP_FIRST))).filter(|seq| *seq > Seq::ZERO)
    }

    /// Returns the user who wrote this message. `None` for notices, voids and control rows.
    pub fn author(&self) -> Option<UserId> {
        let content_type = ContentType::from_stored(self.item.find_text("content_type")?);
        let is_written = self.kind == RowKind::Message && content_type.counts_as_unread();
        UserId::from_stored(self.item.find_text("sender_id")?).ok().filter(|_| is_written)
    }

    /// Returns whether this row is the message of `entry`, whoever stored it.
    pub fn is(&self, entry: &LogEntry) -> bool {
        self.kind == RowKind::Message
            && self.item.find_text("sender_id").is_some_and(|text| **text == *entry.sender.as_str())
            && self.item.find_text("message_id").is_some_and(|text| **text == *entry.message_id.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_rows_decode_to_their_kind_and_read_as_voids() {
        let conversation = ConversationId::group([7; 15]);
        let holder: Incarnation = "00ff".parse().unwrap();
        let kinds = [
            RowKind::Void,
            RowKind::Grant { holder, count: 64 },
            RowKind::Epoch { partitions: 3, block: 64 },
        ];
        for kind in kinds {
            let row = LogRow::control(conversation, Seq::new(9), kind, Timestamp::from_millis(5));
            assert_eq!(LogRow::decode(row.item.clone()).unwrap(), row);
            assert!(Cell::decode(conversation, Seq::new(9), &row.item).unwrap().is_void(), "{kind:?}");
        }
    }

    #[test]
    fn epoch_row_without_partitions_is_damage() {
        let kind = RowKind::Epoch { partitions: 0, block: 64 };
        let row =
            LogRow::control(ConversationId::group([7; 15]), Seq::FIRST, kind, Timestamp::from_millis(5));
        assert!(LogRow::decode(row.item).is_err());
    }
}
