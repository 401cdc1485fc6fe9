//! Receipts, read state and a member's preferences.

use crate::chat::{Chat, ChatError};
use crate::ports::{Mark, Prefer, Statuses};
use crate::{Boundaries, ConversationId, InboxEntry, PreferenceChange, Receipts, Seq, UserId};

impl Chat {
    /// Applies a receipt of a device. See [`Store::mark`](crate::ports::Store::mark).
    pub async fn mark(&self, mark: Mark) -> Result<Boundaries, ChatError> {
        Ok(self.store.mark(mark).await?)
    }

    pub async fn statuses(&self, reader: &UserId, id: ConversationId) -> Result<Statuses, ChatError> {
        Ok(self.store.statuses(id, reader).await?)
    }

    pub async fn receipts(
        &self,
        reader: &UserId,
        id: ConversationId,
        seq: Seq,
    ) -> Result<Receipts, ChatError> {
        Ok(self.store.receipts(id, reader, seq).await?)
    }

    pub async fn prefer(
        &self,
        user: &UserId,
        conversation: ConversationId,
        change: PreferenceChange,
    ) -> Result<InboxEntry, ChatError> {
        Ok(self.store.prefer(Prefer { conversation, user: user.clone(), change }).await?)
    }
}
