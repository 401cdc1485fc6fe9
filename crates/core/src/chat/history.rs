//! Reading message history.

use crate::chat::{Chat, ChatError};
use crate::{ConversationId, Page, PageFrom, PageLimit, PageRequest, UserId};

impl Chat {
    pub async fn history(
        &self,
        reader: &UserId,
        conversation: ConversationId,
        from: PageFrom,
        limit: PageLimit,
    ) -> Result<Page, ChatError> {
        let request = PageRequest { conversation, reader: reader.clone(), from, limit };
        Ok(self.store.page(request).await?)
    }
}
