//! Deleting content for good. What is to go is written down first, so that a crash does not leave half of it; then it
//! goes from the chunks and from the lines of the inboxes, then from the segments; then the note goes. How a segment is
//! written without some of its messages is in [`super::rewrite`].
//!
//! A segment is rewritten under its next revision, since others' messages lie in it too; one of which nothing is left
//! is deleted. How an accepted erasure survives a crash is in [`super::requests`]. ([ADR
//! 12](../../../../docs/adr/0012-erasure.md), [ADR
//! 25](../../../../docs/adr/0025-erasure-and-dedupe-by-store-time.md))

use std::sync::Arc;
use std::time::Instant;

use bluetick_archive::VaultError;
use bluetick_core::ports::{ArchiveError, Erase, EraseReport, EraseScope, Progress, Stage};
use bluetick_core::{ContentType, ConversationId, Seq};

use super::job::{Stub, stubs_of};
use super::restore::drop_segment;
use super::rewrite::{Salvaged, flip, rewrite, salvage, without_content};
use super::{ArchiveStep, Archivist, in_vault, is_damage};
use crate::codec::archive::{Erasure, ErasureRequest, SegmentRow};
use crate::codec::chunk::{self, Entry, Header, Packer};
use crate::codec::record::Record;
use crate::codec::{DecodeError, cold};
use crate::tables::{ChunkKey, Engine, HotChunk, Tables, TablesError, Update};

/// What is rewritten in one transaction.
const TRANSACTION_BYTES: usize = 2 << 20;

/// Why something is erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The operator requested the erasure: no file may keep any byte of the content.
    Asked,
    /// Its time is over. The pages it leaves are used again.
    Expired,
}

impl Reason {
    /// Notes that files may hold the content that was just removed from the rows.
    fn mark(self, update: &mut Update<'_>) -> Result<(), TablesError> {
        match self {
            Reason::Asked => update.mark_erased_pages(),
            Reason::Expired => update.mark_expired_pages(),
        }
    }
}

impl Erasure {
    /// Whether the content of this message goes. What the server itself said stays: it tells who came and went.
    pub(super) fn takes(&self, seq: Seq, record: &Record<'_>) -> bool {
        seq <= self.through
            && !matches!(record.content_type, ContentType::System | ContentType::Erased)
            && self.sender.as_ref().is_none_or(|sender| sender.as_str() == record.sender)
    }
}

impl Archivist {
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
        // What is damaged must not keep the rest from being erased.
        let mut first_failure = self.search(key, &request, &*progress).await?;
        // Also what an earlier one of the same kind left to do.
        let mut erasures = self.unfinished_erasures().await?;
        erasures.retain(|noted| noted.sender == sender && only.is_none_or(|id| id == noted.conversation));
        let mut report = EraseReport { conversations: erasures.len() as u64, ..EraseReport::default() };
        // First all that is here: the object store may not answer.
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
                // The remaining erasures need the same object store. Files are still cleaned up.
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

    /// Finds the conversations with content to erase, and the first damage. A conversation that cannot
    /// be searched counts as one with content, so that its note keeps the erasure pending. One that was
    /// erased before stays out.
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
                    // The note must not cover messages that are sent later. With an unreadable head no
                    // message can be sent, so the note covers the whole conversation.
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

    /// Does all of it, also where some was done before, and takes the note away.
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

    /// First what is here, which goes also while the object store does not answer. A damaged segment is told of when
    /// all else is done.
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
        // Objects of an attempt that was interrupted hold what is erased now.
        if self.vault.is_some() && (had_segments || reason == Reason::Asked) {
            self.sweep(Some(id), &bluetick_core::ports::NoProgress).await?;
        }
        first_damage.map_or(Ok(report), Err)
    }

    /// What is in the tables, which needs nobody else. Returns how many messages went.
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
        let vault = self.vault()?;
        let old = self.name(key, &row);
        let tables = Arc::clone(&self.tables);
        if left == 0 {
            // Nothing is needed from the object, so it does not matter whether it can be read.
            self.blocking(move || {
                let erased = stubs.iter().map(|stub| stub.chunk.stubs.records().map(cold::erased).collect());
                let erased: Vec<Vec<Vec<u8>>> = erased.collect::<Result<_, _>>().map_err(in_chunks)?;
                drop_segment(&tables, key, &stubs, &erased)
            })
            .await?;
            report.segments_deleted += 1;
        } else {
            // What cannot be read cannot be kept either: erasing is not to wait for a repair that may never come.
            let object = match vault.segment(&old).await {
                Ok(object) => object,
                Err(VaultError::Missing { .. } | VaultError::Damaged { .. }) => bytes::Bytes::new(),
                Err(error) => return Err(in_vault(error)),
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

/// How many messages of a segment go, and how many keep a content.
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

/// Rewrites the chunks whose content is here, and the lines of the inboxes. Returns the number of erased
/// messages. A damaged chunk stays as it is; the error names it after all other chunks are rewritten.
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
        // There is nothing left that would be worth an object.
        let mut progress = update.progress(id)?;
        progress.moved_through = progress.moved_through.max(erasure.through);
        update.put_progress(id, &progress)?;
    }
    let previews = update.change_previews(id, erasure.through, |record| {
        // Only the newest message is looked at, and it is one of those up to the end of what is erased.
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

/// Rewrites as many chunks as one transaction takes. Returns the number of erased messages, and the seq
/// from which to continue.
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

/// The chunk without the content that the erasure takes, and how many messages that is. `None`: none.
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
