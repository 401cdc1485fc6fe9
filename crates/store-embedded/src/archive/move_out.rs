//! Moves old messages to the archive: plan a segment, seal it, put it, flip its rows.

use std::sync::Arc;

use bluetick_archive::SegmentName;
use bluetick_archive::jobs::layout::{Layout, lay_out};
use bluetick_archive::jobs::pace::Pace;
use bluetick_archive::jobs::selection::{Age, Rules, Selection};
use bluetick_archive::jobs::state::add;
use bluetick_core::ports::{ArchiveError, ArchiveRun, Progress, RunReport, Stage};
use bluetick_core::{ConversationId, Seq, Timestamp};

use super::{ArchiveStep, Archiver};
use crate::codec::DecodeError;
use crate::codec::archive::SegmentRow;
use crate::codec::chunk::{self, Fingerprinter, Header};
use crate::codec::cold;
use crate::codec::record::Record;
use crate::tables::{ChunkKey, Engine, HotChunk, Tables, TablesError, end_of};

/// Attempts to move a conversation that is written at the same time. After them, the next run tries
/// again.
const ATTEMPTS: u32 = 3;
/// The chunks of one segment to be sealed.
struct Planned {
    key: ChunkKey,
    last: Seq,
    revision: u32,
    chunks: Vec<HotChunk>,
}

/// A sealed segment, and the archived form of its chunks.
struct Packed {
    planned: Planned,
    name: SegmentName,
    row: SegmentRow,
    object: bytes::Bytes,
    /// For each chunk, the rows that replace it.
    cold: Vec<cold::Parts>,
}

impl Archiver {
    pub(super) async fn move_out(
        &self,
        request: &ArchiveRun,
        progress: &dyn Progress,
        report: &mut RunReport,
    ) -> Result<(), ArchiveError> {
        let rules = Rules::new(&self.settings, self.clock.now(), request.partial);
        let mut pace = Pace::new(self.settings.messages_per_second);
        let mut walk = self.walk(request.only).await?;
        if let Some(id) = request.only {
            self.release(id).await?;
        }
        while let Some(id) = self.next(&mut walk).await? {
            let moved = self.move_conversation(id, rules, &mut pace, report).await?;
            report.conversations += u64::from(moved);
            progress.advanced(Stage::Moving, walk.done, walk.total);
        }
        Ok(())
    }

    /// Allows a restored conversation to be archived again.
    async fn release(&self, id: ConversationId) -> Result<(), ArchiveError> {
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

    /// Moves all segments of a conversation that are due. Returns whether anything moved. Logs and
    /// skips a conversation with a damaged row.
    async fn move_conversation(
        &self,
        id: ConversationId,
        rules: Rules,
        pace: &mut Pace,
        report: &mut RunReport,
    ) -> Result<bool, ArchiveError> {
        let (mut moved, mut overtaken) = (false, 0);
        loop {
            let tables = Arc::clone(&self.tables);
            let (store, hasher) = (self.identity.tag.0, self.identity.fingerprinter);
            let packed = self.blocking(move || {
                let Some(planned) = plan(&*tables.current()?, id, rules)? else { return Ok(None) };
                Ok(Some(pack(planned, store, &hasher)?))
            });
            let packed = match packed.await {
                Ok(Some(packed)) => packed,
                Ok(None) => return Ok(moved),
                Err(ArchiveError::Store(bluetick_core::StoreError::Damaged(why))) => {
                    tracing::error!(conversation = %id, %why, "a conversation cannot be moved to the archive");
                    return Ok(moved);
                }
                Err(error) => return Err(error),
            };
            self.go_on(ArchiveStep::BeforePut)?;
            let name = packed.name;
            self.put(name, packed.object.clone()).await?;
            self.go_on(ArchiveStep::AfterPut)?;
            let count = packed.row.count();
            let (tables, on_step) = (Arc::clone(&self.tables), Arc::clone(&self.on_step));
            let flipped = self.blocking(move || flip(&tables, &packed, || on_step(ArchiveStep::BeforeFlip)));
            if !flipped.await? {
                // A message was written to the last chunk at the same time. Delete the object and
                // plan again.
                self.delete(name).await?;
                overtaken += 1;
                if overtaken == ATTEMPTS {
                    return Ok(moved);
                }
                continue;
            }
            self.state.shared.count_moved(&count);
            add(&mut report.moved, &count);
            moved = true;
            self.go_on(ArchiveStep::AfterFlip)?;
            pace.count(count.messages);
            while let Some(pause) = pace.pause() {
                tokio::time::sleep(pause).await;
                self.go_on(ArchiveStep::AfterFlip)?;
            }
        }
    }
}

/// Returns the next chunks of the conversation that are old enough, if they make a segment.
fn plan(engine: &Engine, id: ConversationId, rules: Rules) -> Result<Option<Planned>, TablesError> {
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
    let in_chunks = |error| TablesError::Damaged { table: "chunks", error };
    if !full
        && let Some(partial_before) = rules.partial_before
        && oldest(&chunks, rules.now).map_err(in_chunks)?.is_none_or(|oldest| oldest >= partial_before)
    {
        return Ok(None);
    }
    let last = end_of(last.first, &last.bytes).map_err(in_chunks)?;
    let key = ChunkKey { conversation: id, first: first.first };
    Ok(Some(Planned { key, last, revision: progress.revision(), chunks }))
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

fn pack(planned: Planned, store: [u8; 8], hasher: &Fingerprinter) -> Result<Packed, TablesError> {
    let in_chunks = |error| TablesError::Damaged { table: "chunks", error };
    let ChunkKey { conversation, first } = planned.key;
    let name = SegmentName { store, conversation, first, last: planned.last, revision: planned.revision };
    let unpacked: Vec<_> = planned
        .chunks
        .iter()
        .map(|chunk| chunk::unpack(&Header::read(&chunk.bytes)?))
        .collect::<Result<_, _>>()
        .map_err(in_chunks)?;
    let records: Vec<Vec<&[u8]>> = unpacked.iter().map(|chunk| chunk.records().collect()).collect();
    let Layout { sealed, refs: places } = lay_out(&name, &records);
    let mut cold = Vec::with_capacity(planned.chunks.len());
    for ((chunk, records), place) in planned.chunks.iter().zip(&records).zip(&places) {
        let stubs: Vec<_> = records
            .iter()
            .map(|record| cold::stub_of(record, hasher))
            .collect::<Result<_, _>>()
            .map_err(in_chunks)?;
        let header = Header::read(&chunk.bytes).map_err(in_chunks)?;
        cold.push(cold::pack(chunk.first, &header, place, &stubs));
    }
    let row = SegmentRow {
        last: planned.last,
        revision: name.revision,
        messages: records.iter().map(Vec::len).sum::<usize>() as u64,
        bytes: sealed.bytes.len() as u64,
        raw_bytes: sealed.raw_bytes,
    };
    Ok(Packed { planned, name, row, object: sealed.bytes, cold })
}

/// Replaces the chunks in one transaction. Returns `false` without a change if a chunk differs from
/// what was packed.
fn flip(tables: &Tables, packed: &Packed, go_on: impl Fn() -> bool) -> Result<bool, ArchiveError> {
    let key = packed.planned.key;
    let engine = tables.writing()?;
    let mut update = engine.update()?;
    for (chunk, cold) in packed.planned.chunks.iter().zip(&packed.cold) {
        if update.chunk(ChunkKey { first: chunk.first, ..key })? != Some(&chunk.bytes[..]) {
            return Ok(false);
        }
        for (first, part) in cold {
            update.put_chunk(key.conversation, *first, part)?;
        }
    }
    update.set_segment(key, Some(&packed.row))?;
    let mut progress = update.progress(key.conversation)?;
    progress.moved_through = progress.moved_through.max(packed.planned.last);
    update.put_progress(key.conversation, &progress)?;
    if !go_on() {
        return Err(ArchiveError::Stopped);
    }
    update.commit()?;
    Ok(true)
}
