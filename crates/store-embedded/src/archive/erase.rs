//! Erases content in the chunks and inbox rows, and keeps the durable records of erasures.
//!
//! Besides the request and the erasure records, a third row records remaining work: the *mark*,
//! which means that files may still hold erased content. The transaction that replaces the request
//! sets it. The archiver clears it after scrubbing the log and rewriting the tables.

use std::sync::Arc;

use bluetick_archive::is_damage;
use bluetick_archive::jobs::{ErasureScope, Reason, Search};
use bluetick_core::ports::ArchiveError;
use bluetick_core::{ContentType, ConversationId, Seq};

use super::Archiver;
use super::job::{Stub, stubs_of};
use super::restore::drop_segment;
use super::rewrite::without_content;
use crate::codec::archive::{Erasure, SegmentRow, StoredErasureRequest};
use crate::codec::chunk::{self, ChunkEntry, ChunkPacker, Header};
use crate::codec::record::Record;
use crate::codec::{DecodeError, cold};
use crate::tables::{ChunkKey, Engine, HotChunk, RequestKey, Tables, TablesError, Update};

/// Rewritten chunk bytes after which a transaction ends. Bounds the memory of one transaction.
const TRANSACTION_BYTES: usize = 2 << 20;

/// Marks that files may hold the content that was just removed from the rows.
fn mark(reason: Reason, update: &mut Update<'_>) -> Result<(), TablesError> {
    match reason {
        Reason::Requested => update.mark_erased_pages(),
        Reason::Expired => update.mark_expired_pages(),
    }
}

impl Erasure {
    /// Returns whether this erasure removes the content of the message. System notices stay,
    /// because they record who joined and left.
    pub(super) fn takes(&self, seq: Seq, record: &Record<'_>) -> bool {
        seq <= self.through
            && !matches!(record.content_type, ContentType::System | ContentType::Erased)
            && self.sender.as_ref().is_none_or(|sender| sender.as_str() == record.sender)
    }
}

impl Archiver {
    pub(super) async fn unfinished_erasures(&self) -> Result<Vec<Erasure>, ArchiveError> {
        let tables = Arc::clone(&self.tables);
        self.blocking(move || Ok(tables.current()?.snapshot()?.erasures()?)).await
    }

    /// Returns the erasure of one conversation, if it has content to erase. A conversation that
    /// cannot be searched counts as having content, so that its record keeps the erasure pending. A
    /// conversation that is already erased has none.
    pub(super) async fn find(
        &self,
        id: ConversationId,
        scope: &ErasureScope,
    ) -> Result<Search<Erasure>, ArchiveError> {
        let ErasureScope { sender, through, .. } = scope.clone();
        let tables = Arc::clone(&self.tables);
        let found = self.blocking(move || {
            let engine = tables.current()?;
            let Some(stored) = engine.snapshot()?.conversation(id)? else { return Ok(None) };
            let head = stored.conversation.head;
            let through = through.map_or(head, |through| through.min(head));
            let erasure = Erasure { conversation: id, sender, through };
            Ok(is_needed(&engine, &erasure)?.then_some(erasure))
        });
        match found.await {
            Ok(erasure) => Ok(Search { erasure, damage: None }),
            Err(error) if is_damage(&error) => {
                // The record must not cover messages that are sent later. If the head is
                // unreadable, no message can be sent, so the record covers the whole conversation.
                let head = self.head(id).await.unwrap_or(Seq::MAX);
                let through = through.map_or(head, |through| through.min(head));
                let erasure = Erasure { conversation: id, sender: scope.sender.clone(), through };
                Ok(Search { erasure: Some(erasure), damage: Some(error) })
            }
            Err(error) => Err(error),
        }
    }

    /// Makes the erasure records durable, and deletes the request, in one transaction.
    pub(super) async fn note_erasures(
        &self,
        key: RequestKey,
        found: Vec<Erasure>,
    ) -> Result<(), ArchiveError> {
        let tables = Arc::clone(&self.tables);
        self.blocking(move || {
            let engine = tables.writing()?;
            let mut update = engine.update()?;
            for erasure in &found {
                update.put_erasure(erasure)?;
            }
            // The search does not find content that expired before the request, but files may still
            // hold it.
            if !found.is_empty() || update.has_expired_pages()? {
                update.mark_erased_pages()?;
            }
            update.delete_erasure_request(&key)?;
            Ok(update.commit()?)
        })
        .await
    }

    /// Makes the request durable.
    pub(super) async fn accept(
        &self,
        scope: ErasureScope,
    ) -> Result<(RequestKey, StoredErasureRequest), ArchiveError> {
        let ErasureScope { conversation, sender, through } = scope;
        let request = StoredErasureRequest { conversation, sender, through };
        let tables = Arc::clone(&self.tables);
        self.blocking(move || {
            let engine = tables.writing()?;
            let mut update = engine.update()?;
            let key = update.put_erasure_request(&request)?;
            update.commit()?;
            Ok((key, request))
        })
        .await
    }

    /// Erases in the tables only, without the object archive. Returns the number of erased
    /// messages.
    pub(super) async fn erase_here(&self, erasure: &Erasure, reason: Reason) -> Result<u64, ArchiveError> {
        let (tables, here) = (Arc::clone(&self.tables), erasure.clone());
        self.blocking(move || Ok(erase_in_tables(&tables, &here, reason)?)).await
    }

    /// Returns the newest durable seq, from memory or from the tables.
    pub(super) async fn head(&self, id: ConversationId) -> Result<Seq, ArchiveError> {
        if let Some(resident) = self.residents.get(id) {
            let state = resident.state();
            if state.conversation.is_some() {
                return Ok(state.head());
            }
        }
        let tables = Arc::clone(&self.tables);
        let stored = self.blocking(move || Ok(tables.current()?.snapshot()?.conversation(id)?)).await?;
        stored.map(|stored| stored.conversation.head).ok_or(ArchiveError::NoSuchConversation)
    }
}

pub(super) fn in_chunks(error: DecodeError) -> TablesError {
    TablesError::Damaged { table: "chunks", error }
}

/// The number of messages in a segment to erase, and the number that keep their content.
pub(super) struct Affected {
    pub taken: u64,
    pub left: u64,
}

pub(super) fn affected(stubs: &[Stub], erasure: &Erasure) -> Result<Affected, TablesError> {
    let (mut taken, mut left) = (0, 0);
    for stub in stubs {
        for (record, seq) in stub.chunk.stubs.records().zip(stub.first.get()..) {
            let record = Record::decode(record).map_err(in_chunks)?;
            let takes = erasure.takes(Seq::new(seq), &record);
            taken += u64::from(takes);
            left += u64::from(!takes && record.content_type != ContentType::Erased);
        }
    }
    Ok(Affected { taken, left })
}

/// Removes all content of a segment whose messages are all erased, and deletes the segment row.
pub(super) fn drop_erased(tables: &Tables, key: ChunkKey, row: &SegmentRow) -> Result<(), ArchiveError> {
    let stubs = stubs_of(&*tables.current()?, key, row)?;
    let erased = stubs.iter().map(|stub| stub.chunk.stubs.records().map(cold::erased).collect());
    let erased: Vec<Vec<Vec<u8>>> = erased.collect::<Result<_, _>>().map_err(in_chunks)?;
    drop_segment(tables, key, &stubs, &erased)
}

fn is_needed(engine: &Engine, erasure: &Erasure) -> Result<bool, TablesError> {
    let mut needed = false;
    engine.snapshot()?.records(erasure.conversation, Seq::FIRST..=erasure.through, |seq, stored| {
        needed = needed || erasure.takes(seq, &Record::decode(stored.record)?);
        Ok(())
    })?;
    Ok(needed)
}

pub(super) fn raise_names(tables: &Tables, id: ConversationId) -> Result<u32, TablesError> {
    let engine = tables.writing()?;
    let mut update = engine.update()?;
    let revision = update.raise_names(id)?;
    update.commit()?;
    Ok(revision)
}

/// Rewrites the hot chunks and the inbox rows. Returns the number of erased messages. Skips a
/// damaged chunk and returns its error after all other chunks are rewritten.
fn erase_in_tables(tables: &Tables, erasure: &Erasure, reason: Reason) -> Result<u64, TablesError> {
    let id = erasure.conversation;
    let engine = tables.writing()?;
    let (mut erased, mut from, mut first_damage) = (0, Some(Seq::FIRST), None);
    while let Some(start) = from {
        let mut rewritten = Vec::new();
        let (count, next) = rewrite_some(&engine, start, erasure, &mut rewritten, &mut first_damage)?;
        let mut update = engine.update()?;
        for chunk in &rewritten {
            update.put_chunk(id, chunk.first, &chunk.bytes)?;
        }
        if count > 0 {
            mark(reason, &mut update)?;
        }
        update.commit()?;
        erased += count;
        from = next;
    }
    let mut update = engine.update()?;
    if erasure.sender.is_none() && first_damage.is_none() {
        // No content up to this seq is left to archive.
        let mut progress = update.progress(id)?;
        progress.moved_through = progress.moved_through.max(erasure.through);
        update.put_progress(id, &progress)?;
    }
    let previews = update.change_previews(id, erasure.through, |record| {
        // `change_previews` passes only messages up to `erasure.through`, so any seq in that range
        // works here.
        match erasure.takes(Seq::ZERO, &Record::decode(record)?) {
            true => cold::erased(record).map(Some),
            false => Ok(None),
        }
    })?;
    if previews > 0 {
        mark(reason, &mut update)?;
    }
    update.commit()?;
    first_damage.map_or(Ok(erased), |error| Err(in_chunks(error)))
}

/// Rewrites as many chunks as one transaction takes. Returns the number of erased messages, and the
/// seq from which to continue.
fn rewrite_some(
    engine: &Engine,
    start: Seq,
    erasure: &Erasure,
    rewritten: &mut Vec<HotChunk>,
    first_damage: &mut Option<DecodeError>,
) -> Result<(u64, Option<Seq>), TablesError> {
    let (mut count, mut bytes, mut next) = (0, 0, None);
    let mut packer = ChunkPacker::default();
    engine.snapshot()?.chunks(erasure.conversation, start, |first, stored| {
        if bytes >= TRANSACTION_BYTES {
            next = Some(first);
            return Ok(false);
        }
        if first > erasure.through || chunk::is_cold(stored) {
            return Ok(first <= erasure.through);
        }
        match rewrite_chunk(first, stored, erasure, &mut packer) {
            Ok(Some((taken, chunk))) => {
                bytes += chunk.bytes.len();
                count += taken;
                rewritten.push(chunk);
            }
            Ok(None) => {}
            Err(error) => {
                first_damage.get_or_insert(error);
            }
        }
        Ok(true)
    })?;
    Ok((count, next))
}

/// Returns the chunk without the erased content, and the number of erased messages. Returns `None`
/// if the erasure affects no message of the chunk.
fn rewrite_chunk(
    first: Seq,
    stored: &[u8],
    erasure: &Erasure,
    packer: &mut ChunkPacker,
) -> Result<Option<(u64, HotChunk)>, DecodeError> {
    let header = Header::read(stored)?;
    let unpacked = chunk::unpack(&header)?;
    let mut taken = 0;
    let mut records = Vec::with_capacity(header.count);
    for (record, seq) in unpacked.records().zip(first.get()..) {
        taken += u64::from(erasure.takes(Seq::new(seq), &Record::decode(record)?));
        records.push(without_content(Seq::new(seq), record, erasure)?);
    }
    if taken == 0 {
        return Ok(None);
    }
    let entries = records.iter().zip(header.fingerprints());
    let entries: Vec<ChunkEntry<'_>> =
        entries.map(|(record, fingerprint)| ChunkEntry { record, fingerprint }).collect();
    let mut bytes = Vec::new();
    packer.pack(&entries, header.newest_received_at, header.notices_before, &mut bytes);
    Ok(Some((taken, HotChunk { first, bytes })))
}
