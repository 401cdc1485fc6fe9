//! The metadata of a conversation. Messages and members have their own modules.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::names::without_bidi_controls;
use crate::{ConversationId, ConversationKind, Members, Seq, Timestamp, UserId};

/// The metadata of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    pub id: ConversationId,
    /// Set for groups, `None` for direct conversations.
    pub title: Option<Title>,
    pub created_by: UserId,
    pub created_at: Timestamp,
    /// The highest stored seq, which can be a void. [`Seq::ZERO`] while the conversation is empty.
    pub head: Seq,
    /// When the server last received a message, or created the conversation. It never decreases, so
    /// a wall clock that is set back moves no conversation down in an inbox.
    pub last_at: Timestamp,
}

impl Conversation {
    pub fn kind(&self) -> ConversationKind {
        self.id.kind()
    }

    /// Returns whether the inbox of this member lists the conversation. A direct conversation
    /// without messages is listed for its creator only; the first message adds it to the peer's
    /// inbox. `has_messages` is an argument because the head can be a void.
    pub fn is_listed_for(&self, user: &UserId, has_messages: bool) -> bool {
        has_messages || self.kind() == ConversationKind::Group || self.created_by == *user
    }
}

/// A conversation and its members, as a member sees them.
#[derive(Clone, Debug)]
pub struct ConversationWithMembers {
    pub conversation: Conversation,
    pub members: Arc<Members>,
}

/// The title of a group: trimmed, not empty, without control characters and bidi controls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Title(Arc<str>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a title has 1 to 256 bytes and no control characters")]
pub struct InvalidTitle;

impl Title {
    /// Upper bound on a title, in bytes of UTF-8. It bounds every inbox entry of the group. A lower
    /// bound makes stored titles unreadable.
    pub const MAX_BYTES: usize = 256;

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Parses a title from the store. Earlier versions stored bidi controls. A title of nothing
    /// else becomes U+FFFD.
    pub fn from_stored(text: &str) -> Result<Title, InvalidTitle> {
        text.parse().or_else(|invalid| match without_bidi_controls(text).trim().is_empty() {
            true if !text.trim().is_empty() => Ok(Title("\u{fffd}".into())),
            _ => Err(invalid),
        })
    }
}

/// Parses a title from outside the server: removes bidi controls and trims the text.
impl FromStr for Title {
    type Err = InvalidTitle;

    fn from_str(text: &str) -> Result<Title, InvalidTitle> {
        let text = without_bidi_controls(text);
        let text = text.trim();
        if text.is_empty() || text.len() > Title::MAX_BYTES || text.chars().any(char::is_control) {
            return Err(InvalidTitle);
        }
        Ok(Title(text.into()))
    }
}

impl fmt::Display for Title {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
