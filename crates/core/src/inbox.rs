//! The inbox, which lists a user's conversations by latest activity: its entries, their order and
//! its paging.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::{
    ContentType, Conversation, ConversationId, MessageId, PageLimit, Preferences, ReadState, Seq, Timestamp,
    UserId,
};

/// Upper bound on a message preview, in bytes of UTF-8. It bounds the inbox rows, which hold one
/// preview per member. It does not apply to notices ([`preview_of`]).
pub const PREVIEW_MAX_BYTES: usize = 120;

/// Cuts the content to [`PREVIEW_MAX_BYTES`], at a character boundary.
pub fn preview(content: &str) -> &str {
    &content[..content.floor_char_boundary(PREVIEW_MAX_BYTES)]
}

/// The newest message of a conversation, with a preview of its content. The preview of a notice is
/// its whole content, because truncated JSON is useless.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastMessage {
    pub seq: Seq,
    pub message_id: MessageId,
    pub sender: UserId,
    pub content_type: ContentType,
    pub preview: Arc<str>,
    pub timestamp: Timestamp,
    pub received_at: Timestamp,
}

/// Returns the preview of a message: the whole content of a notice, a cut of any other content.
pub fn preview_of<'a>(content_type: &ContentType, content: &'a str) -> &'a str {
    match content_type {
        ContentType::System => content,
        _ => preview(content),
    }
}

/// One conversation in a user's inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxEntry {
    pub conversation: Conversation,
    /// The peer in a direct conversation; `None` in groups.
    pub peer: Option<UserId>,
    pub member_count: usize,
    pub last_message: Option<LastMessage>,
    pub unread: u64,
    pub own: ReadState,
    /// The lowest read state among the other members, which decides the ticks of the user's own
    /// messages. If no other member remains, it is the head, so that no tick moves backward.
    pub others: ReadState,
    pub preferences: Preferences,
    /// The seq of the first message that the user can see.
    pub joined: Seq,
}

impl InboxEntry {
    /// Returns whether the inbox of this member lists the entry. See
    /// [`Conversation::is_listed_for`].
    pub fn is_listed_for(&self, user: &UserId) -> bool {
        self.conversation.is_listed_for(user, self.last_message.is_some())
    }

    pub fn place(&self) -> InboxKey {
        InboxKey {
            shelf: InboxSection::of(self.preferences),
            last_at: self.conversation.last_at,
            id: self.conversation.id,
        }
    }
}

/// The section of an inbox, in display order: pinned first, archived last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InboxSection {
    Pinned,
    Ordinary,
    Archived,
}

impl InboxSection {
    /// All sections, in display order.
    pub const ALL: [InboxSection; 3] = [InboxSection::Pinned, InboxSection::Ordinary, InboxSection::Archived];

    pub fn of(preferences: Preferences) -> InboxSection {
        match preferences {
            Preferences { archived: true, .. } => InboxSection::Archived,
            Preferences { pinned: true, .. } => InboxSection::Pinned,
            _ => InboxSection::Ordinary,
        }
    }
}

/// The sort key of a conversation in an inbox: section, latest activity first, then id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InboxKey {
    pub shelf: InboxSection,
    pub last_at: Timestamp,
    pub id: ConversationId,
}

impl InboxKey {
    /// Returns a key that sorts after every conversation of the section.
    pub fn end_of(shelf: InboxSection) -> InboxKey {
        InboxKey { shelf, last_at: Timestamp::from_millis(i64::MIN), id: ConversationId::group([0xff; 15]) }
    }
}

impl Ord for InboxKey {
    fn cmp(&self, other: &InboxKey) -> std::cmp::Ordering {
        let latest_first = other.last_at.cmp(&self.last_at);
        self.shelf.cmp(&other.shelf).then(latest_first).then(self.id.cmp(&other.id))
    }
}

impl PartialOrd for InboxKey {
    fn partial_cmp(&self, other: &InboxKey) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Formats the key as a cursor. The next page starts just after it.
impl fmt::Display for InboxKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shelf = match self.shelf {
            InboxSection::Pinned => 'p',
            InboxSection::Ordinary => 'o',
            InboxSection::Archived => 'a',
        };
        write!(f, "{shelf}{}.{}", self.last_at.millis(), self.id)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a cursor of this server; start again without one")]
pub struct InvalidCursor;

impl FromStr for InboxKey {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<InboxKey, InvalidCursor> {
        let shelf = match text.as_bytes().first() {
            Some(b'p') => InboxSection::Pinned,
            Some(b'o') => InboxSection::Ordinary,
            Some(b'a') => InboxSection::Archived,
            _ => return Err(InvalidCursor),
        };
        let (last_at, id) = text[1..].split_once('.').ok_or(InvalidCursor)?;
        Ok(InboxKey {
            shelf,
            last_at: Timestamp::from_millis(last_at.parse().map_err(|_| InvalidCursor)?),
            id: id.parse().map_err(|_| InvalidCursor)?,
        })
    }
}

/// Selects which conversations an inbox request returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InboxFilter {
    #[default]
    All,
    Archived,
    NotArchived,
}

impl InboxFilter {
    /// Returns whether the filter includes this section.
    pub fn takes(self, shelf: InboxSection) -> bool {
        match self {
            InboxFilter::All => true,
            InboxFilter::Archived => shelf == InboxSection::Archived,
            InboxFilter::NotArchived => shelf != InboxSection::Archived,
        }
    }
}

#[derive(Clone, Debug)]
pub struct InboxRequest {
    pub user: UserId,
    /// The page starts just after this key; `None` starts at the top.
    pub after: Option<InboxKey>,
    pub limit: PageLimit,
    pub filter: InboxFilter,
}

#[derive(Clone, Debug, Default)]
pub struct InboxPage {
    pub entries: Vec<InboxEntry>,
    /// The cursor for the next page; `None` on the last page.
    pub next: Option<InboxKey>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn place(shelf: InboxSection, last_at: i64, bit: u8) -> InboxKey {
        InboxKey { shelf, last_at: Timestamp::from_millis(last_at), id: ConversationId::group([bit; 15]) }
    }

    #[test]
    fn inbox_order_is_pinned_then_latest_then_archived() {
        let expected = [
            place(InboxSection::Pinned, 1, 1),
            place(InboxSection::Ordinary, 9, 1),
            place(InboxSection::Ordinary, 5, 1),
            place(InboxSection::Ordinary, 5, 2),
            place(InboxSection::Archived, 99, 1),
        ];
        let mut sorted = expected;
        sorted.reverse();
        sorted.sort();
        assert_eq!(sorted, expected);
    }

    #[test]
    fn preview_ends_at_a_character_boundary_and_notices_stay_whole() {
        assert_eq!(preview("short"), "short");
        assert_eq!(preview(&"€".repeat(50)), "€".repeat(40));
        let long = "€".repeat(50);
        assert_eq!(preview_of(&ContentType::System, &long), long);
    }

    proptest! {
        #[test]
        fn inbox_cursor_round_trips(last_at: i64, bits: [u8; 15], shelf in 0..3usize) {
            let shelf = InboxSection::ALL[shelf];
            let place = InboxKey {
                shelf, last_at: Timestamp::from_millis(last_at), id: ConversationId::group(bits)
            };
            prop_assert_eq!(place.to_string().parse(), Ok(place));
        }

        #[test]
        fn parsing_arbitrary_cursors_never_panics(text: String) {
            let _ = text.parse::<InboxKey>();
        }
    }
}
