//! A stored message.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::{ConversationId, MessageId, Seq, Timestamp, UserId};

/// A stored message. Its seq, ids, sender and times never change. Its content can move to the
/// archive or be erased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub conversation: ConversationId,
    pub seq: Seq,
    pub message_id: MessageId,
    pub sender: UserId,
    /// The peer in a direct conversation; `None` in groups.
    pub receiver: Option<UserId>,
    pub content_type: ContentType,
    pub content: Arc<str>,
    /// The sender's clock. For display only, never for order.
    pub timestamp: Timestamp,
    /// The server's clock when it received the message. Used for inbox order and archive age.
    pub received_at: Timestamp,
}

impl Message {
    /// Creates the void that fills the gap at `seq`.
    pub fn void(conversation: ConversationId, seq: Seq, at: Timestamp) -> Message {
        Message {
            conversation,
            seq,
            message_id: MessageId::of_notice(seq),
            sender: ContentType::VOID.parse().expect("the name has 1 to 128 visible characters"),
            receiver: None,
            content_type: ContentType::Void,
            content: "".into(),
            timestamp: at,
            received_at: at,
        }
    }
}

/// The type of a message's content. Clients choose the name freely, except for the names reserved
/// for the server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ContentType {
    Text,
    /// A notice from the server, such as a membership change. It never counts as unread.
    System,
    /// The content was erased permanently. The seq, the sender and the times remain.
    Erased,
    /// A void: it fills a gap, because the writer that reserved this seq never wrote it. It has no
    /// real sender and no content, and never counts as unread. It lets a page prove that it is
    /// complete.
    Void,
    /// The content cannot be read, because its archive segment is damaged or missing. Readers get
    /// this type; the store keeps the original one. A migration copies such a message as `lost`.
    Lost,
    Other(Arc<str>),
}

impl ContentType {
    /// Upper bound on the name of a content type, in bytes. Clients choose the name, so it bounds
    /// the overhead of a message.
    pub const MAX_BYTES: usize = 64;
    /// The name of [`ContentType::Text`]. Stores and clients keep these names, so a change makes
    /// existing messages of the type unreadable. The same holds for the names below.
    const TEXT: &'static str = "text";
    /// The name of [`ContentType::System`].
    const SYSTEM: &'static str = "system";
    /// The name of [`ContentType::Erased`].
    const ERASED: &'static str = "erased";
    /// The name of [`ContentType::Lost`].
    const LOST: &'static str = "lost";
    /// The name of [`ContentType::Void`].
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

    /// Returns whether a message of this type can be unread. Notices and voids never are; erased
    /// and lost messages are.
    pub fn counts_as_unread(&self) -> bool {
        !matches!(self, ContentType::System | ContentType::Void)
    }

    /// Converts a name from the store, without validation.
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

/// Parses a name from a client. Fails for the names reserved for the server.
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
