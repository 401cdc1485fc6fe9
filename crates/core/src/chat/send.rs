//! Sending messages. This module checks the size limits; the store checks membership and allocates
//! the seq when it writes.

use std::sync::Arc;

use crate::chat::{Chat, ChatError};
use crate::ports::{Accepted, Append, Appended, Origin};
use crate::{ContentType, ConversationId, MessageId, Seq, Timestamp, UserId};

#[derive(Clone, Debug)]
pub struct SendRequest {
    pub conversation: ConversationId,
    pub message_id: MessageId,
    pub content_type: ContentType,
    pub content: Arc<str>,
    /// The sender's clock; `None` uses the server's clock.
    pub timestamp: Option<Timestamp>,
    /// Set on a resend: the highest seq that the client knew at its first attempt.
    pub retry_after: Option<Seq>,
    pub origin: Option<Origin>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMessage {
    #[error("content must not be empty")]
    Empty,
    #[error("content has {bytes} bytes; at most {limit} are allowed")]
    TooLarge { bytes: usize, limit: usize },
}

impl Chat {
    /// Sends a message and waits for the outcome.
    pub async fn send(&self, sender: &UserId, request: SendRequest) -> Result<Appended, ChatError> {
        Ok(self.submit(sender, request).await?.await?)
    }

    /// Submits a message without waiting for the outcome. Messages submitted one after the other
    /// keep their order. Fails for empty and for too large content.
    pub async fn submit(&self, sender: &UserId, request: SendRequest) -> Result<Accepted, ChatError> {
        let bytes = request.content.len();
        let limit = self.rules.max_content_bytes;
        if bytes == 0 {
            return Err(InvalidMessage::Empty.into());
        }
        if bytes > limit {
            return Err(InvalidMessage::TooLarge { bytes, limit }.into());
        }
        let received_at = self.clock.now();
        let append = Append {
            conversation: request.conversation,
            sender: sender.clone(),
            message_id: request.message_id,
            content_type: request.content_type,
            content: request.content,
            timestamp: request.timestamp.unwrap_or(received_at),
            received_at,
            retry_after: request.retry_after,
            origin: request.origin,
        };
        Ok(self.store.append(append).await?)
    }
}
