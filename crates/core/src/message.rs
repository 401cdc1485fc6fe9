//! A stored message.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::{ConversationId, MessageId, Seq, Timestamp, UserId};

/// A message in its place. Once stored, neither the place nor anything in it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub conversation: ConversationId,
    pub seq: Seq,
    pub message_id: MessageId,
    pub sender: UserId,
    /// The other person in a direct conversation; `None` in groups.
    pub receiver: Option<UserId>,
    pub content_type: ContentType,
    pub content: Arc<str>,
    /// The sender's own clock: shown, never used for order.
    pub timestamp: Timestamp,
    /// The server's clock.
    pub received_at: Timestamp,
}

impl Message {
    /// What stands in a place that nobody wrote to.
    pub fn void(conversation: ConversationId, seq: Seq, at: Timestamp) -> Message {
        Message {
            conversation,
            seq,
            message_id: MessageId::of_notice(seq),
            sender: ContentType::VOID.parse().expect("a short name"),
            receiver: None,
            content_type: ContentType::Void,
            content: "".into(),
            timestamp: at,
            received_at: at,
        }
    }
}

/// What the content is. Clients choose freely, except for the names the server gives a meaning of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ContentType {
    Text,
    /// A notice by the server, such as a change of membership; it never counts as unread.
    System,
    /// The content was deleted for good; the place and who wrote when stay.
    Erased,
    /// Nobody's message: the writer that had this place never wrote, and a reader closed the gap. It has no sender to
    /// speak of, no content, and no weight anywhere; it is there so that a page can prove that it is complete.
    Void,
    /// The content cannot be read: the part of the archive it is in is damaged or gone. Said when it is read and
    /// never stored.
    Lost,
    Other(Arc<str>),
}

impl ContentType {
    pub const MAX_BYTES: usize = 64;
    const TEXT: &'static str = "text";
    const SYSTEM: &'static str = "system";
    const ERASED: &'static str = "erased";
    const LOST: &'static str = "lost";
    const VOID: &'static str = "void";

    pub fn as_str(&self) -> &str {
        match self {
            ContentType::Text => ContentType::TEXT,
            ContentType::System => ContentType::SYSTEM,
            ContentType::Erased => ContentType::ERASED,
            ContentType::Lost => ContentType::LOST,
            ContentType::Void => ContentType::VOID,
            ContentType::Other(name) => name,
        }
    }

    /// Whether somebody wrote it, so that it can be unread. Notices and voids never are.
    pub fn counts_as_unread(&self) -> bool {
        !matches!(self, ContentType::System | ContentType::Void)
    }

    /// Reads a name that was accepted before, such as one from the store.
    pub fn from_stored(name: &str) -> ContentType {
        match name {
            ContentType::TEXT => ContentType::Text,
            ContentType::SYSTEM => ContentType::System,
            ContentType::ERASED => ContentType::Erased,
            ContentType::LOST => ContentType::Lost,
            ContentType::VOID => ContentType::Void,
            other => ContentType::Other(other.into()),
        }
    }
}

impl fmt::Display for ContentType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a content_type has 1 to 64 visible ASCII characters; \"system\", \"erased\", \"lost\" and \"void\" are the server's own"
)]
pub struct InvalidContentType;

/// What a client may ask for.
impl FromStr for ContentType {
    type Err = InvalidContentType;

    fn from_str(name: &str) -> Result<ContentType, InvalidContentType> {
        let length_fits = (1..=ContentType::MAX_BYTES).contains(&name.len());
        let reserved =
            [ContentType::SYSTEM, ContentType::ERASED, ContentType::LOST, ContentType::VOID].contains(&name);
        if !length_fits || reserved || !name.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(InvalidContentType);
        }
        Ok(ContentType::from_stored(name))
    }
}
