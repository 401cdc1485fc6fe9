//! A conversation, apart from its messages and its members.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::names::without_bidi_controls;
use crate::{ConversationId, Members, Seq, Timestamp, UserId};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConversationKind {
    /// Two people, for ever the same two; the id follows from them.
    Direct,
    Group,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    pub id: ConversationId,
    /// Groups have one, direct conversations don't.
    pub title: Option<Title>,
    pub created_by: UserId,
    pub created_at: Timestamp,
    /// The newest stored message; [`Seq::ZERO`] while there is none.
    pub head: Seq,
    /// When a message was last received, or when the conversation was made. A clock that was set back does not take it
    /// back, so that nothing moves down in an inbox.
    pub last_at: Timestamp,
}

impl Conversation {
    pub fn kind(&self) -> ConversationKind {
        self.id.kind()
    }

    /// Whether the inbox of this member lists the conversation. A direct conversation without messages is listed for its
    /// creator alone: the first message adds it to the inbox of the peer. `has_messages` is an
    /// argument because a head can be a void.
    pub fn is_listed_for(&self, user: &UserId, has_messages: bool) -> bool {
        has_messages || self.kind() == ConversationKind::Group || self.created_by == *user
    }
}

/// A conversation as one of its members sees it.
#[derive(Clone, Debug)]
pub struct ConversationView {
    pub conversation: Conversation,
    pub members: Arc<Members>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Title(Arc<str>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a title has 1 to 256 bytes and no control characters")]
pub struct InvalidTitle;

impl Title {
    pub const MAX_BYTES: usize = 256;

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reads a title that was accepted before, such as one from the store. Earlier versions kept
    /// bidi controls, so a title may consist of nothing else.
    pub fn from_stored(text: &str) -> Result<Title, InvalidTitle> {
        text.parse().or_else(|invalid| match without_bidi_controls(text).trim().is_empty() {
            true if !text.trim().is_empty() => Ok(Title("\u{fffd}".into())),
            _ => Err(invalid),
        })
    }
}

/// Bidi controls are removed.
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
