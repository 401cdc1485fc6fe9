//! Erases messages past their retention, chunk by chunk.

use std::sync::Arc;

use bluetick_archive::is_damage;
use bluetick_core::ports::{ArchiveError, Progress, Stage};
use bluetick_core::{ConversationId, Seq, Timestamp};

use super::Archiver;
use super::erase::Reason;
use crate::codec::DecodeError;
use crate::codec::archive::Erasure;
use crate::codec::chunk::{self, Header};
use crate::codec::cold::ColdChunk;
use crate::codec::record::Record;
use crate::tables::{Engine, TablesError};

impl Archiver {
    /// Erases expired messages of one conversation or of all. Returns the number of erased
    /// messages. Errors if the object archive is unavailable, after erasing in the tables.
    pub(super) async fn expire(
        &self,
        only: Option<ConversationId>,
        progress: &dyn Progress,
    ) -> Result<u64, ArchiveError> {
        let millis = i64::try_from(self.settings.retention_seconds.saturating_mul(1_000)).unwrap_or(i64::MAX);
        let now = self.clock.now();
        let before = Timestamp::from_millis(now.millis().saturating_sub(millis));
        let (mut erased, mut unavailable) = (0, None);
        let mut walk = self.walk(only).await?;
        while let Some(id) = self.next(&mut walk).await? {
            match self.expire_one(id, before, now, unavailable.is_none()).await {
                Ok(messages) => erased += messages,
                // One damaged conversation must not block the others.
                Err(error) if is_damage(&error) => {
                    tracing::error!(conversation = %id, %error, "what is past its retention cannot be erased");
                }
                // Continue in the tables only, and do not ask the object archive again.
                Err(error @ ArchiveError::Unavailable(_)) => {
                    unavailable.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
            progress.advanced(Stage::Erasing, walk.done, walk.total);
        }
        unavailable.map_or(Ok(erased), Err)
    }

    async fn expire_one(
        &self,
        id: ConversationId,
        before: Timestamp,
        now: Timestamp,
        asks_archive: bool,
    ) -> Result<u64, ArchiveError> {
        let tables = Arc::clone(&self.tables);
        let found = self.blocking(move || Ok(expired(&*tables.current()?, id, before, now)?));
        let Some(through) = found.await? else { return Ok(0) };
        let erasure = Erasure { conversation: id, sender: None, through };
        if !asks_archive {
            return self.erase_here(&erasure, Reason::Expired).await;
        }
        let erased = self.erase_content(&erasure, Reason::Expired).await?.messages;
        self.note_expired(id, through).await?;
        Ok(erased)
    }

    async fn note_expired(&self, id: ConversationId, through: Seq) -> Result<(), ArchiveError> {
        let tables = Arc::clone(&self.tables);
        self.blocking(move || {
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

/// Returns the last seq that is past its retention and not yet erased.
fn expired(
    engine: &Engine,
    id: ConversationId,
    before: Timestamp,
    now: Timestamp,
) -> Result<Option<Seq>, TablesError> {
    let snapshot = engine.snapshot()?;
    let done = snapshot.progress(id)?.expired_through;
    let mut through = None;
    snapshot.chunks(id, done.next(), |first, bytes| {
        let header = Header::read(bytes)?;
        if !is_expired(&header, before, now)? {
            // In a quiet conversation a chunk fills for years, so expire its first messages without
            // waiting for the last.
            let old = if header.is_cold() { 0 } else { old_ones(&header, before)? };
            let end = first.plus(old).previous();
            through = through.max((old > 0 && end > done).then_some(end));
            return Ok(false);
        }
        // The chunk that contains `done` may have grown since.
        let end = first.plus(header.count as u64).previous();
        // Expire a segment only as a whole: rewriting it for each chunk costs too much.
        let is_border = !header.is_cold() || ColdChunk::read(&header)?.place.last == end;
        through = through.max((is_border && end > done).then_some(end));
        Ok(true)
    })?;
    Ok(through)
}

/// Returns the number of expired messages at the start of a chunk.
fn old_ones(header: &Header<'_>, before: Timestamp) -> Result<u64, DecodeError> {
    let mut old = 0;
    for record in chunk::unpack(header)?.records() {
        if Record::decode(record)?.received_at >= before {
            break;
        }
        old += 1;
    }
    Ok(old)
}

/// Returns whether a whole chunk is expired. The header's `newest_received_at` never decreases. If
/// it is in the future, because the clock was ahead, every message must be old by itself: an
/// erasure cannot be undone.
fn is_expired(header: &Header<'_>, before: Timestamp, now: Timestamp) -> Result<bool, DecodeError> {
    if header.newest_received_at <= now {
        return Ok(header.newest_received_at < before);
    }
    let records = if header.is_cold() { ColdChunk::read(header)?.stubs } else { chunk::unpack(header)? };
    for record in records.records() {
        if Record::decode(record)?.received_at >= before {
            return Ok(false);
        }
    }
    Ok(true)
}
