//! Receipts, receipt counts, read states and a member's preferences.

use crate::chat::{Chat, ChatError};
use crate::ports::{Receipt, SetPreferences, Statuses};
use crate::{ConversationId, InboxEntry, PreferenceChange, ReadState, ReceiptCounts, Seq, UserId};

impl Chat {
    /// Applies a receipt of a device. See
    /// [`Store::apply_receipt`](crate::ports::Store::apply_receipt).
    pub async fn apply_receipt(&self, receipt: Receipt) -> Result<ReadState, ChatError> {
        Ok(self.store.apply_receipt(receipt).await?)
    }

    pub async fn statuses(&self, reader: &UserId, id: ConversationId) -> Result<Statuses, ChatError> {
        Ok(self.store.statuses(id, reader).await?)
    }

    pub async fn receipt_counts(
        &self,
        reader: &UserId,
        id: ConversationId,
        seq: Seq,
    ) -> Result<ReceiptCounts, ChatError> {
        Ok(self.store.receipt_counts(id, reader, seq).await?)
    }

    pub async fn set_preferences(
        &self,
        user: &UserId,
        conversation: ConversationId,
        change: PreferenceChange,
    ) -> Result<InboxEntry, ChatError> {
        Ok(self.store.set_preferences(SetPreferences { conversation, user: user.clone(), change }).await?)
    }
}
