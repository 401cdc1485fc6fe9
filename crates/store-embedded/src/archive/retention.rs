//! Erasing what is past its retention, chunk by chunk.

use std::sync::Arc;

use bluetick_core::ports::{ArchiveError, Progress, Stage};
use bluetick_core::{ConversationId, Seq, Timestamp};

use super::{Archivist, blocking};
use crate::codec::archive::Erasure;
use crate::codec::chunk::Header;
use crate::tables::{Engine, TablesError};

impl Archivist {
    /// Returns how many messages were erased.
    pub(super) async fn expire(
        &self,
        only: Option<ConversationId>,
        progress: &dyn Progress,
    ) -> Result<u64, ArchiveError> {
        let millis = i64::try_from(self.settings.retention_seconds.saturating_mul(1_000)).unwrap_or(i64::MAX);
        let before = Timestamp::from_millis(self.clock.now().millis().saturating_sub(millis));
        let mut erased = 0;
        let mut walk = self.walk(only).await?;
        while let Some(id) = self.next(&mut walk).await? {
            let tables = Arc::clone(&self.tables);
            if let Some(through) = blocking(move || Ok(expired(&*tables.current()?, id, before)?)).await? {
                let erasure = Erasure { conversation: id, sender: None, through };
                erased += self.erase_one(&erasure).await?.messages;
                self.note_expired(id, through).await?;
            }
            progress.advanced(Stage::Erasing, walk.done, walk.total);
        }
        Ok(erased)
    }

    async fn note_expired(&self, id: ConversationId, through: Seq) -> Result<(), ArchiveError> {
        let tables = Arc::clone(&self.tables);
        blocking(move || {
            let engine = tables.writing()?;
            let mut update = engine.update()?;
            let mut way = update.progress(id)?;
            way.expired_through = way.expired_through.max(through);
            update.put_progress(id, &way)?;
            Ok(update.commit()?)
        })
        .await
    }
}

/// Up to where a conversation is past its retention and not erased yet.
fn expired(engine: &Engine, id: ConversationId, before: Timestamp) -> Result<Option<Seq>, TablesError> {
    let snapshot = engine.snapshot()?;
    let done = snapshot.progress(id)?.expired_through;
    let mut through = None;
    snapshot.chunks(id, done.next(), |first, bytes| {
        let header = Header::read(bytes)?;
        if header.newest_received_at >= before {
            return Ok(false);
        }
        // The chunk at the border may have grown since.
        let end = first.plus(header.count as u64).previous();
        through = through.max((end > done).then_some(end));
        Ok(true)
    })?;
    Ok(through)
}
