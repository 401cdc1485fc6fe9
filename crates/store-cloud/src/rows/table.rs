//! Which tables there are and what their keys are called.

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// The cells: a message or a void at each seq. Written once.
    Messages,
    /// Inbox rows: what a user's list shows, and what the user set.
    Conversations,
    /// How far each member has come.
    MessageStatus,
    /// One row for each offline spell: from where on a receiver has undelivered messages.
    PendingDeliveries,
    /// The partitions of conversations that were ever hot. Append-only.
    HotRegistry,
    /// Who is in a conversation, a row each.
    Members,
    /// A conversation itself: title, maker, and a change of membership that is under way.
    Rooms,
    Users,
    /// What people are found by.
    Names,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortKind {
    Text,
    Number,
}

impl Table {
    pub const ALL: [Table; 9] = [
        Table::Messages,
        Table::Conversations,
        Table::MessageStatus,
        Table::PendingDeliveries,
        Table::HotRegistry,
        Table::Members,
        Table::Rooms,
        Table::Users,
        Table::Names,
    ];

    /// Its name, behind the prefix that the operator set.
    pub const fn name(self) -> &'static str {
        match self {
            Table::Messages => "messages",
            Table::Conversations => "conversations",
            Table::MessageStatus => "message_status",
            Table::PendingDeliveries => "pending_deliveries",
            Table::HotRegistry => "hot_registry",
            Table::Members => "members",
            Table::Rooms => "rooms",
            Table::Users => "users",
            Table::Names => "names",
        }
    }

    /// The name of the partition key, which is text everywhere.
    pub const fn partition_key(self) -> &'static str {
        match self {
            Table::Messages | Table::Members | Table::Rooms | Table::HotRegistry => "conversation_id",
            Table::Conversations | Table::MessageStatus | Table::Users => "user_id",
            Table::PendingDeliveries => "receiver_id",
            Table::Names => "initial",
        }
    }

    pub const fn sort_key(self) -> Option<(&'static str, SortKind)> {
        match self {
            Table::Messages => Some(("seq", SortKind::Number)),
            Table::Conversations | Table::MessageStatus | Table::PendingDeliveries => {
                Some(("conversation_id", SortKind::Text))
            }
            Table::Members => Some(("user_id", SortKind::Text)),
            Table::Names => Some(("term", SortKind::Text)),
            Table::Rooms | Table::Users | Table::HotRegistry => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub partition: String,
    pub sort: Sort,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sort {
    /// For tables that have none.
    None,
    Number(u64),
    Text(String),
}

impl Key {
    pub fn new(partition: impl ToString) -> Key {
        Key { partition: partition.to_string(), sort: Sort::None }
    }

    pub fn text(partition: impl ToString, sort: impl ToString) -> Key {
        Key { partition: partition.to_string(), sort: Sort::Text(sort.to_string()) }
    }

    pub fn number(partition: impl ToString, sort: u64) -> Key {
        Key { partition: partition.to_string(), sort: Sort::Number(sort) }
    }
}
