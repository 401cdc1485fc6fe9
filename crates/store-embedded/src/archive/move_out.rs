//! Moves old messages to the archive: plan a segment, seal it, put it, flip its rows.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bluetick_archive::segment::{self, Sealed};
use bluetick_archive::{FRAME_MESSAGES, FRAME_RAW_BYTES, SegmentName};
use bluetick_core::ports::{ArchiveError, ArchiveRun, Progress, RunReport, Stage};
use bluetick_core::{ConversationId, Seq, Timestamp};

use super::{ArchiveStep, Archivist};
use crate::codec::DecodeError;
use crate::codec::archive::SegmentRow;
use crate::codec::chunk::{self, Fingerprinter, Header};
use crate::codec::cold::{self, ColdLocation};
use crate::codec::record::Record;
use crate::tables::{ChunkKey, Engine, HotChunk, Tables, TablesError, end_of};

/// Raw bytes at which a segment is closed before it has all its messages. Bounds the memory for one
/// segment.
const SEGMENT_RAW_BYTES: usize = 8 << 20;
/// Attempts to move a conversation that is written at the same time. After them, the next run tries
/// again.
const ATTEMPTS: u32 = 3;
/// Upper bound on one sleep of [`Pace`], so that a slow rate does not delay shutdown.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Which messages are old enough to move.
#[derive(Clone, Copy)]
pub struct Rules {
    /// Messages received before this time are old.
    pub before: Timestamp,
    pub now: Timestamp,
    pub segment_messages: u64,
    /// A segment that is not full moves when its first message was received before this time.
    /// `None`: at once.
    pub partial_before: Option<Timestamp>,
}

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
    cold: Vec<cold::PackedChunks>,
}

impl Archivist {
    pub(super) async fn move_out(
        &self,
        request: &ArchiveRun,
        progress: &dyn Progress,
        report: &mut RunReport,
    ) -> Result<(), ArchiveError> {
        let rules = self.rules(request.partial);
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

    fn rules(&self, partial: bool) -> Rules {
        let now = self.clock.now();
        let ago = |seconds: u64| {
            let millis = i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX);
            Timestamp::from_millis(now.millis().saturating_sub(millis))
        };
        let patience = self.settings.age_seconds.saturating_add(self.settings.patience_seconds);
        Rules {
            before: ago(self.settings.age_seconds),
            now,
            segment_messages: self.settings.segment_messages.max(1),
            partial_before: (!partial).then(|| ago(patience)),
        }
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
            self.state.moved_messages.fetch_add(count.messages, Ordering::Relaxed);
            self.state.moved_segments.fetch_add(1, Ordering::Relaxed);
            report.moved.segments += 1;
            report.moved.messages += count.messages;
            report.moved.bytes += count.bytes;
            report.moved.raw_bytes += count.raw_bytes;
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
    let (mut chunks, mut messages, mut bytes) = (Vec::new(), 0, 0);
    // The number of chunks known to be old, and whether the segment is closed.
    let (mut old, mut closed) = (0, false);
    snapshot.chunks(id, progress.moved_through.next(), |first, chunk| {
        let header = Header::read(chunk)?;
        if first.plus(header.count as u64) <= progress.moved_through.next() {
            return Ok(true);
        }
        // A segment holds consecutive seqs, so it cannot extend across an archived chunk.
        if header.is_cold() {
            closed = closed || !chunks.is_empty();
            return Ok(chunks.is_empty());
        }
        let age = age_of(&header, rules)?;
        if age == Age::Young {
            return Ok(false);
        }
        if !closed {
            messages += header.count as u64;
            bytes += chunk::raw_length(&header);
            chunks.push(HotChunk { first, bytes: chunk.to_vec() });
            closed = messages >= rules.segment_messages || bytes >= SEGMENT_RAW_BYTES;
        }
        if age == Age::Old {
            old = chunks.len();
        }
        Ok(!closed || old < chunks.len())
    })?;
    let full = closed && old == chunks.len();
    chunks.truncate(old);
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

/// The age of a chunk, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Age {
    Old,
    Young,
    /// The server clock was ahead when it received the last messages. The chunk counts as old if
    /// the next chunk that is not `Ahead` is old.
    Ahead,
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
        age = if received_at > rules.now { Age::Ahead } else { Age::Old };
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
    let Laid { sealed, places } = lay_out(&name, &records);
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

/// A sealed segment, and the location of each chunk in it.
pub struct Laid {
    pub sealed: Sealed,
    pub places: Vec<ColdLocation>,
}

/// Packs whole chunks into blocks, and the blocks into a segment.
pub fn lay_out(name: &SegmentName, chunks: &[Vec<&[u8]>]) -> Laid {
    let mut frames: Vec<Vec<&[u8]>> = Vec::new();
    let mut within = Vec::with_capacity(chunks.len());
    let mut bytes = 0;
    for chunk in chunks {
        let full = frames
            .last()
            .is_none_or(|frame| frame.len() + chunk.len() > FRAME_MESSAGES || bytes >= FRAME_RAW_BYTES);
        if full {
            frames.push(Vec::new());
            bytes = 0;
        }
        let number = frames.len() - 1;
        let frame = &mut frames[number];
        within.push((number, u32::try_from(frame.len()).expect("a frame has few messages")));
        frame.extend_from_slice(chunk);
        bytes += chunk.iter().map(|record| record.len()).sum::<usize>();
    }
    let sealed = segment::seal(name, &frames);
    let location = |(number, index): (usize, u32)| ColdLocation {
        first: name.first,
        last: name.last,
        revision: name.revision,
        frame: sealed.frames[number],
        index,
    };
    let places = within.into_iter().map(location).collect();
    Laid { sealed, places }
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

/// Rate limit of a job, in messages per second, to protect live traffic. Zero means no limit.
struct Pace {
    messages_per_second: u64,
    started: Instant,
    moved: u64,
}

impl Pace {
    fn new(messages_per_second: u64) -> Pace {
        Pace { messages_per_second, started: Instant::now(), moved: 0 }
    }

    /// Counts moved messages. Unused time accumulates up to one second, which bounds the burst
    /// after a pause.
    fn count(&mut self, messages: u64) {
        let used = Duration::from_secs_f64(self.moved as f64 / self.messages_per_second.max(1) as f64);
        let unused = self.started.elapsed().saturating_sub(used);
        self.started += unused.saturating_sub(Duration::from_secs(1));
        self.moved += messages;
    }

    /// Returns how long to sleep before checking again, or `None` if the rate allows to continue.
    /// At most [`LONGEST_PAUSE`], so that shutdown is not delayed.
    fn pause(&self) -> Option<Duration> {
        if self.messages_per_second == 0 {
            return None;
        }
        let due = Duration::from_secs_f64(self.moved as f64 / self.messages_per_second as f64);
        let left = due.saturating_sub(self.started.elapsed());
        (!left.is_zero()).then_some(left.min(LONGEST_PAUSE))
    }
}
