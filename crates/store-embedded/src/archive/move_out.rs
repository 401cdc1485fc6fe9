//! Plans a segment from whole chunks, and replaces the chunks by their archived form.

use std::sync::Arc;

use bluetick_archive::jobs::selection::{Age, Rules, Selection};
use bluetick_archive::jobs::{Flip, SegmentPlan};
use bluetick_archive::{SegmentName, SegmentRef};
use bluetick_core::ports::ArchiveError;
use bluetick_core::{ConversationId, Seq, Timestamp};

use super::Archiver;
use super::erase::in_chunks;
use crate::codec::archive::SegmentRow;
use crate::codec::chunk::{self, Fingerprinter, Header};
use crate::codec::record::Record;
use crate::codec::{DecodeError, cold};
use crate::tables::{ChunkKey, Engine, HotChunk, Tables, TablesError, end_of};

/// The part of a chunk that the rows keep: each record without its content, and the hash of that
/// content.
pub(super) type Stubs = Vec<(Vec<u8>, u64)>;

/// The chunks of one segment to be sealed.
pub struct PlannedChunks {
    key: ChunkKey,
    last: Seq,
    chunks: Vec<HotChunk>,
    stubs: Vec<Stubs>,
}

/// A sealed segment, as the rows refer to it.
pub(super) struct SealedSegment {
    pub name: SegmentName,
    pub refs: Vec<SegmentRef>,
    pub bytes: u64,
    pub raw_bytes: u64,
}

impl Archiver {
    /// Allows a restored conversation to be archived again.
    pub(super) async fn release(&self, id: ConversationId) -> Result<(), ArchiveError> {
        let tables = Arc::clone(&self.tables);
        self.blocking(move || {
            let engine = tables.writing()?;
            let mut update = engine.update()?;
            let mut progress = update.progress(id)?;
            if progress.kept_hot {
                progress.kept_hot = false;
                update.put_progress(id, &progress)?;
                update.commit()?;
            }
            Ok(())
        })
        .await
    }
}

/// Returns the next chunks of the conversation that are old enough, if they make a segment.
pub(super) fn plan(
    engine: &Engine,
    id: ConversationId,
    rules: Rules,
    hasher: &Fingerprinter,
) -> Result<Option<SegmentPlan<PlannedChunks>>, TablesError> {
    let snapshot = engine.snapshot()?;
    let progress = snapshot.progress(id)?;
    if progress.kept_hot {
        return Ok(None);
    }
    let mut selection = Selection::new(rules);
    snapshot.chunks(id, progress.moved_through.next(), |first, chunk| {
        let header = Header::read(chunk)?;
        if first.plus(header.count as u64) <= progress.moved_through.next() {
            return Ok(true);
        }
        if header.is_cold() {
            if !selection.is_empty() {
                selection.close();
            }
            return Ok(selection.is_empty());
        }
        let age = age_of(&header, rules)?;
        if age == Age::Young {
            return Ok(false);
        }
        let (messages, bytes) = (header.count as u64, chunk::raw_length(&header));
        Ok(selection.add(age, messages, bytes, || HotChunk { first, bytes: chunk.to_vec() }))
    })?;
    let (chunks, full) = selection.finish();
    let (Some(first), Some(last)) = (chunks.first(), chunks.last()) else { return Ok(None) };
    if !full
        && let Some(partial_before) = rules.partial_before
        && oldest(&chunks, rules.now).map_err(in_chunks)?.is_none_or(|oldest| oldest >= partial_before)
    {
        return Ok(None);
    }
    let last = end_of(last.first, &last.bytes).map_err(in_chunks)?;
    let first = first.first;
    let key = ChunkKey { conversation: id, first };
    let (mut records, mut stubs) = (Vec::with_capacity(chunks.len()), Vec::with_capacity(chunks.len()));
    for chunk in &chunks {
        let unpacked =
            Header::read(&chunk.bytes).and_then(|header| chunk::unpack(&header)).map_err(in_chunks)?;
        let kept = unpacked.records().map(|record| cold::stub_of(record, hasher));
        stubs.push(kept.collect::<Result<Stubs, _>>().map_err(in_chunks)?);
        records.push(unpacked.records().map(<[u8]>::to_vec).collect());
    }
    Ok(Some(SegmentPlan { first, last, records, rows: PlannedChunks { key, last, chunks, stubs } }))
}

/// Determines the age from the header's `newest_received_at`, which never decreases. If that is in
/// the future, because the clock was ahead, the times of the messages decide.
fn age_of(header: &Header<'_>, rules: Rules) -> Result<Age, DecodeError> {
    if header.newest_received_at <= rules.now {
        return Ok(if header.newest_received_at < rules.before { Age::Old } else { Age::Young });
    }
    let mut age = Age::Old;
    for record in chunk::unpack(header)?.records() {
        let received_at = Record::decode(record)?.received_at;
        if (rules.before..=rules.now).contains(&received_at) {
            return Ok(Age::Young);
        }
        age = if received_at > rules.now { Age::Unknown } else { Age::Old };
    }
    Ok(age)
}

/// Returns the `received_at` of the first message that is not in the future.
fn oldest(chunks: &[HotChunk], now: Timestamp) -> Result<Option<Timestamp>, DecodeError> {
    for chunk in chunks {
        let unpacked = chunk::unpack(&Header::read(&chunk.bytes)?)?;
        for record in unpacked.records() {
            let received_at = Record::decode(record)?.received_at;
            if received_at <= now {
                return Ok(Some(received_at));
            }
        }
    }
    Ok(None)
}

/// Replaces the chunks in one transaction. Returns [`Flip::Unchanged`] without a change if a chunk
/// differs from what was planned. `go_on` is called before the commit; `false` ends the job.
pub(super) fn flip(
    tables: &Tables,
    planned: &PlannedChunks,
    sealed: &SealedSegment,
    go_on: impl Fn() -> bool,
) -> Result<Flip, ArchiveError> {
    let PlannedChunks { key, last, chunks, stubs } = planned;
    let messages = stubs.iter().map(Vec::len).sum::<usize>() as u64;
    let engine = tables.writing()?;
    let mut update = engine.update()?;
    for ((chunk, stubs), reference) in chunks.iter().zip(stubs).zip(&sealed.refs) {
        if update.chunk(ChunkKey { first: chunk.first, ..*key })? != Some(&chunk.bytes[..]) {
            return Ok(Flip::Unchanged);
        }
        let header = Header::read(&chunk.bytes).map_err(in_chunks)?;
        for (first, part) in cold::pack(chunk.first, &header, reference, stubs) {
            update.put_chunk(key.conversation, first, &part)?;
        }
    }
    let (revision, bytes, raw_bytes) = (sealed.name.revision, sealed.bytes, sealed.raw_bytes);
    update.set_segment(*key, Some(&SegmentRow { last: *last, revision, messages, bytes, raw_bytes }))?;
    let mut progress = update.progress(key.conversation)?;
    progress.moved_through = progress.moved_through.max(*last);
    update.put_progress(key.conversation, &progress)?;
    if !go_on() {
        return Err(ArchiveError::Stopped);
    }
    update.commit()?;
    Ok(Flip::Changed(messages))
}
