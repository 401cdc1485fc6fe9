//! Finds the chunks past their retention.

use std::sync::Arc;

use bluetick_core::ports::ArchiveError;
use bluetick_core::{ConversationId, Seq, Timestamp};

use super::Archiver;
use crate::codec::DecodeError;
use crate::codec::chunk::{self, Header};
use crate::codec::cold::ColdChunk;
use crate::codec::record::Record;
use crate::tables::{Engine, TablesError};

impl Archiver {
    pub(super) async fn note_expired(&self, id: ConversationId, through: Seq) -> Result<(), ArchiveError> {
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
pub(super) fn expired(
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
        let is_border = !header.is_cold() || ColdChunk::read(&header)?.location.last == end;
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
