//! Permanent deletion of content. An erasure is recorded first, so that a crash cannot leave it
//! half done. The archiver then removes the content from the chunks and inbox rows, then from the
//! segments, and deletes the record last.
//!
//! A segment also holds messages that stay, so it is rewritten under a new revision
//! ([`super::rewrite`]). A segment without remaining content is deleted. [`super::requests`]
//! describes how an accepted erasure survives a crash. ([ADR
//! 12](../../../../docs/adr/0012-erasure.md), [ADR
//! 25](../../../../docs/adr/0025-erasure-and-dedupe-by-store-time.md))

use std::sync::Arc;
use std::time::Instant;

use bluetick_archive::is_damage;
use bluetick_archive::{ObjectArchiveError, jobs};
use bluetick_core::ports::{ArchiveError, Erase, EraseReport, EraseScope, NoProgress, Progress, Stage};
use bluetick_core::{ContentType, ConversationId, Seq};

use super::job::{Stub, stubs_of};
use super::restore::drop_segment;
use super::rewrite::{Salvaged, flip, rewrite, salvage, without_content};
use super::rows::JobRows;
use super::{ArchiveStep, Archiver};
use crate::codec::archive::{Erasure, ErasureRequest, SegmentRow};
use crate::codec::chunk::{self, Entry, Header, Packer};
use crate::codec::record::Record;
use crate::codec::{DecodeError, cold};
use crate::tables::{ChunkKey, Engine, HotChunk, Tables, TablesError, Update};

/// Rewritten chunk bytes after which a transaction ends. Bounds the memory of one transaction.
const TRANSACTION_BYTES: usize = 2 << 20;

/// Why content is erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The operator requested the erasure: no file may keep any byte of the content.
    Asked,
    /// The retention period has ended. The freed pages are reused, not overwritten at once.
    Expired,
}

impl Reason {
    /// Marks that files may hold the content that was just removed from the rows.
    fn mark(self, update: &mut Update<'_>) -> Result<(), TablesError> {
        match self {
            Reason::Asked => update.mark_erased_pages(),
            Reason::Expired => update.mark_expired_pages(),
        }
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
    /// Erases the requested content from rows, segments, log files and freed pages. Continues past
    /// damage and reports the first error at the end.
    pub async fn erase(
        &self,
        erase: Erase,
        progress: Arc<dyn Progress>,
    ) -> Result<EraseReport, ArchiveError> {
        let _job = self.begin()?;
        let started = Instant::now();
        let only = match &erase.scope {
            EraseScope::Conversation(id) => Some(*id),
            EraseScope::User { conversation, .. } => *conversation,
        };
        if let Some(id) = only {
            self.must_exist(id).await?;
        }
        let sender = match erase.scope {
            EraseScope::Conversation(_) => None,
            EraseScope::User { user, .. } => Some(user),
        };
        let request = ErasureRequest { conversation: only, sender: sender.clone(), through: erase.through };
        let (key, request) = self.accept(request, &*progress).await?;
        self.checkpoint().await?;
        // Damage in one conversation must not block the erasure of the others.
        let mut first_failure = self.search(key, &request, &*progress).await?;
        // Include unfinished earlier erasures with the same sender and scope.
        let mut erasures = self.unfinished_erasures().await?;
        erasures.retain(|noted| noted.sender == sender && only.is_none_or(|id| id == noted.conversation));
        let mut report = EraseReport { conversations: erasures.len() as u64, ..EraseReport::default() };
        // Erase in the tables first, because the object archive may be unavailable.
        for erasure in &erasures {
            match self.erase_here(erasure, Reason::Asked).await {
                Ok(messages) => report.messages += messages,
                Err(error) if is_damage(&error) => {
                    first_failure.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        for erasure in &erasures {
            match self.erase_one(erasure).await {
                Ok(part) => {
                    report.messages += part.messages;
                    report.segments_rewritten += part.segments_rewritten;
                    report.segments_deleted += part.segments_deleted;
                }
                Err(error) if is_damage(&error) => {
                    first_failure.get_or_insert(error);
                }
                Err(ArchiveError::Stopped) => return Err(ArchiveError::Stopped),
                // The remaining erasures need the same object archive. Files are still cleaned up.
                Err(error) => {
                    first_failure.get_or_insert(error);
                    break;
                }
            }
        }
        self.go_on(ArchiveStep::ErasureDone)?;
        let cleaned = self.clean_up(&*progress).await;
        report.took = started.elapsed();
        first_failure.map_or(cleaned.map(|()| report), Err)
    }

    pub(super) async fn unfinished_erasures(&self) -> Result<Vec<Erasure>, ArchiveError> {
        let tables = Arc::clone(&self.tables);
        self.blocking(move || Ok(tables.current()?.snapshot()?.erasures()?)).await
    }

    /// Finds the conversations with content to erase, and the first damage. A conversation that
    /// cannot be searched counts as having content, so that its record keeps the erasure pending. A
    /// conversation that is already erased is omitted.
    pub(super) async fn find(
        &self,
        request: &ErasureRequest,
        progress: &dyn Progress,
    ) -> Result<(Vec<Erasure>, Option<ArchiveError>), ArchiveError> {
        let (mut erasures, mut first_damage) = (Vec::new(), None);
        let mut walk = self.walk(request.conversation).await?;
        while let Some(id) = self.next(&mut walk).await? {
            let ErasureRequest { sender, through, .. } = request.clone();
            let unsearched = sender.clone();
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
                Ok(found) => erasures.extend(found),
                Err(error) if is_damage(&error) => {
                    tracing::error!(conversation = %id, %error, "conversation is damaged; its erasure stays pending");
                    // The record must not cover messages that are sent later. If the head is
                    // unreadable, no message can be sent, so the record covers the whole
                    // conversation.
                    let head = self.head(id).await.unwrap_or(Seq::MAX);
                    let through = request.through.map_or(head, |through| through.min(head));
                    erasures.push(Erasure { conversation: id, sender: unsearched, through });
                    first_damage.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
            self.must_not_stop()?;
            progress.advanced(Stage::Erasing, walk.done, walk.total);
        }
        Ok((erasures, first_damage))
    }

    /// Erases the content and deletes the record. Idempotent, so it also finishes a partial
    /// erasure.
    pub(super) async fn erase_one(&self, erasure: &Erasure) -> Result<EraseReport, ArchiveError> {
        let report = self.erase_content(erasure, Reason::Asked).await?;
        let (tables, done) = (Arc::clone(&self.tables), erasure.clone());
        let noted = self.blocking(move || {
            let engine = tables.writing()?;
            let mut update = engine.update()?;
            update.delete_erasure(&done)?;
            Ok(update.commit()?)
        });
        noted.await?;
        Ok(report)
    }

    /// Erases in the tables first, which works without the object archive, then in the segments.
    /// Reports a damaged segment after all others are done.
    pub(super) async fn erase_content(
        &self,
        erasure: &Erasure,
        reason: Reason,
    ) -> Result<EraseReport, ArchiveError> {
        let mut report = EraseReport::default();
        let (tables, id) = (Arc::clone(&self.tables), erasure.conversation);
        let revision = self.blocking(move || Ok(raise_names(&tables, id)?)).await?;
        report.messages += self.erase_here(erasure, reason).await?;
        let (tables, id) = (Arc::clone(&self.tables), erasure.conversation);
        let segments =
            self.blocking(move || Ok(tables.current()?.snapshot()?.segments(Some(id), None, usize::MAX)?));
        let segments = segments.await?;
        let had_segments = !segments.is_empty();
        if had_segments {
            self.must_be_in_place().await?;
        }
        let mut first_damage = None;
        for (key, row) in segments.into_iter().filter(|(key, _)| key.first <= erasure.through) {
            match self.erase_in_segment(key, row, revision, erasure, &mut report).await {
                Err(error) if is_damage(&error) => {
                    first_damage.get_or_insert(error);
                }
                done => done?,
            }
        }
        // Objects of an interrupted attempt may hold the erased content.
        if self.object_archive.is_some() && (had_segments || reason == Reason::Asked) {
            jobs::sweep(&mut JobRows(self), Some(id), &NoProgress).await?;
        }
        first_damage.map_or(Ok(report), Err)
    }

    /// Erases in the tables only, without the object archive. Returns the number of erased
    /// messages.
    pub(super) async fn erase_here(&self, erasure: &Erasure, reason: Reason) -> Result<u64, ArchiveError> {
        let (tables, here) = (Arc::clone(&self.tables), erasure.clone());
        self.blocking(move || Ok(erase_in_tables(&tables, &here, reason)?)).await
    }

    async fn erase_in_segment(
        &self,
        key: ChunkKey,
        row: SegmentRow,
        revision: u32,
        erasure: &Erasure,
        report: &mut EraseReport,
    ) -> Result<(), ArchiveError> {
        let (tables, here) = (Arc::clone(&self.tables), erasure.clone());
        let looked = self.blocking(move || {
            let stubs = stubs_of(&*tables.current()?, key, &row)?;
            Ok((look(&stubs, &here)?, stubs))
        });
        let (Look { taken, left }, stubs) = looked.await?;
        if taken == 0 {
            return Ok(());
        }
        let object_archive = self.object_archive()?;
        let old = self.name(key, &row);
        let tables = Arc::clone(&self.tables);
        if left == 0 {
            // The segment keeps no content, so its object is not read and may be damaged.
            self.blocking(move || {
                let erased = stubs.iter().map(|stub| stub.chunk.stubs.records().map(cold::erased).collect());
                let erased: Vec<Vec<Vec<u8>>> = erased.collect::<Result<_, _>>().map_err(in_chunks)?;
                drop_segment(&tables, key, &stubs, &erased)
            })
            .await?;
            report.segments_deleted += 1;
        } else {
            // Treat unreadable content as lost: an erasure must not wait for a repair that may
            // never happen.
            let object = match object_archive.segment(&old).await {
                Ok(object) => object,
                Err(ObjectArchiveError::Missing { .. } | ObjectArchiveError::Damaged { .. }) => {
                    bytes::Bytes::new()
                }
                Err(error) => return Err(error.into()),
            };
            let (here, hasher) = (erasure.clone(), self.identity.fingerprinter);
            let name = bluetick_archive::SegmentName { revision, ..old };
            let rewritten = self
                .blocking(move || {
                    let salvaged = stubs.iter().map(|stub| salvage(stub, &object, &hasher));
                    let salvaged: Vec<Salvaged> = salvaged.collect();
                    let lost: usize = salvaged.iter().map(|chunk| chunk.lost()).sum();
                    if lost > 0 {
                        tracing::error!(segment = %old, lost, "messages of a damaged segment are lost for good");
                    }
                    rewrite(&name, row, stubs, &salvaged, &here, &hasher).map_err(ArchiveError::from)
                })
                .await?;
            self.go_on(ArchiveStep::BeforePut)?;
            self.put(name, rewritten.object.clone()).await?;
            self.go_on(ArchiveStep::AfterPut)?;
            self.blocking(move || flip(&tables, key, &rewritten)).await?;
            report.segments_rewritten += 1;
        }
        report.messages += taken;
        self.go_on(ArchiveStep::AfterFlip)?;
        self.go_on(ArchiveStep::BeforeDelete)?;
        self.delete(old).await?;
        self.go_on(ArchiveStep::AfterDelete)
    }
}

pub(super) fn in_chunks(error: DecodeError) -> TablesError {
    TablesError::Damaged { table: "chunks", error }
}

/// The number of messages in a segment to erase, and the number that keep their content.
struct Look {
    taken: u64,
    left: u64,
}

fn look(stubs: &[Stub], erasure: &Erasure) -> Result<Look, TablesError> {
    let (mut taken, mut left) = (0, 0);
    for stub in stubs {
        for (record, seq) in stub.chunk.stubs.records().zip(stub.first.get()..) {
            let record = Record::decode(record).map_err(in_chunks)?;
            let takes = erasure.takes(Seq::new(seq), &record);
            taken += u64::from(takes);
            left += u64::from(!takes && record.content_type != ContentType::Erased);
        }
    }
    Ok(Look { taken, left })
}

fn is_needed(engine: &Engine, erasure: &Erasure) -> Result<bool, TablesError> {
    let mut needed = false;
    engine.snapshot()?.cells(erasure.conversation, Seq::FIRST..=erasure.through, |seq, cell| {
        needed = needed || erasure.takes(seq, &Record::decode(cell.record)?);
        Ok(())
    })?;
    Ok(needed)
}

fn raise_names(tables: &Tables, id: ConversationId) -> Result<u32, TablesError> {
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
            reason.mark(&mut update)?;
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
        reason.mark(&mut update)?;
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
    let mut packer = Packer::default();
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
    packer: &mut Packer,
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
    let entries: Vec<Entry<'_>> =
        entries.map(|(record, fingerprint)| Entry { record, fingerprint }).collect();
    let mut bytes = Vec::new();
    packer.pack(&entries, header.newest_received_at, header.notices_before, &mut bytes);
    Ok(Some((taken, HotChunk { first, bytes })))
}
