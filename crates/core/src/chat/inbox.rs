//! The inbox, the profile, and the messages that a reconnecting device missed.

use crate::chat::{Chat, ChatError};
use crate::inbox::{InboxEntry, InboxPage, InboxRequest};
use crate::ports::{Missed, Position};
use crate::{ConversationId, Profile, ProfileUpdate, UserId};

impl Chat {
    pub async fn inbox(&self, request: InboxRequest) -> Result<InboxPage, ChatError> {
        Ok(self.store.inbox(request).await?)
    }

    pub async fn inbox_entry(&self, reader: &UserId, id: ConversationId) -> Result<InboxEntry, ChatError> {
        Ok(self.store.inbox_entry(id, reader).await?)
    }

    /// Returns what a reconnecting device misses. See
    /// [`Store::behind`](crate::ports::Store::behind).
    pub async fn behind(&self, user: &UserId, positions: Vec<Position>) -> Result<Missed, ChatError> {
        Ok(self.store.behind(user, positions).await?)
    }

    pub async fn profile(&self, user: &UserId) -> Result<Profile, ChatError> {
        Ok(self.store.profile(user).await?)
    }

    pub async fn update_profile(&self, update: ProfileUpdate) -> Result<Profile, ChatError> {
        Ok(self.store.update_profile(update).await?)
    }
}
