//! The rows of the embedded store as the archive jobs use them. Rows are chunks, and one
//! transaction changes all chunks of a segment. The store has one node, so no delayed write of
//! another node can arrive.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use bluetick_archive::jobs::layout::SegmentLayout;
use bluetick_archive::jobs::selection::Rules;
use bluetick_archive::jobs::state::ArchiverState;
use bluetick_archive::jobs::{
    ArchiveRows, ArchiveStep, ConversationPage, ErasureEffect, ErasureScope, Flip, ObjectSize, PutBack,
    Reason, Salvaged, Search, SegmentPlan, SegmentRows, Visit,
};
use bluetick_archive::segment::DecodedSegment;
use bluetick_archive::{ArchiveSettings, ObjectArchive, SegmentName};
use bluetick_core::ports::{ArchiveError, ColdCount, Progress};
use bluetick_core::{ConversationId, Seq, Timestamp, UserId};
use bytes::Bytes;

use super::erase::Affected;
use super::job::{records_of, stubs_of};
use super::move_out::{PlannedChunks, SealedSegment};
use super::rewrite::SalvagedChunks;
use super::{Archiver, erase, move_out, restore, retention, rewrite, verify};
use crate::codec::archive::{Erasure, SegmentRow, StoredErasureRequest};
use crate::tables::{ChunkKey, RequestKey, TablesError};

/// Conversations that are read from the tables at a time. Bounds the memory, and how long a
/// snapshot keeps freed pages from reuse.
const BATCH: usize = 1_000;

/// The rows of a running job. The caller holds the job lock of the [`Archiver`].
pub(super) struct JobRows<'a>(pub &'a Archiver);

#[async_trait]
impl ArchiveRows for JobRows<'_> {
    type Conversation = ConversationId;
    type Position = ConversationId;
    type Segment = (ChunkKey, SegmentRow);
    type Run = PlannedChunks;
    type Salvage = SalvagedChunks;
    type Request = (RequestKey, StoredErasureRequest);
    type Erasure = Erasure;

    /// `objects` lists the segment rows only.
    const LISTS_ORPHANS: bool = false;

    fn store(&self) -> [u8; 8] {
        self.0.identity.tag.0
    }

    fn state(&self) -> &ArchiverState {
        &self.0.state.shared
    }

    fn settings(&self) -> &ArchiveSettings {
        &self.0.settings
    }

    fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    fn object_archive(&self) -> Option<&Arc<ObjectArchive>> {
        self.0.object_archive.as_ref()
    }

    async fn proceed(&mut self, step: Option<ArchiveStep>) -> Result<(), ArchiveError> {
        match step {
            Some(step) => self.0.go_on(step),
            None => self.0.must_not_stop(),
        }
    }

    async fn put(&mut self, name: SegmentName, object: Bytes) -> Result<(), ArchiveError> {
        self.0.put(name, object).await
    }

    async fn delete(&mut self, name: SegmentName) -> Result<(), ArchiveError> {
        self.0.delete(name).await
    }

    async fn segment_count(&mut self) -> Result<u64, ArchiveError> {
        let tables = Arc::clone(&self.0.tables);
        self.0.blocking(move || Ok(tables.current()?.cold_count()?.segments)).await
    }

    async fn conversation(&mut self, id: ConversationId) -> Result<ConversationId, ArchiveError> {
        self.0.must_exist(id).await.map(|()| id)
    }

    fn id_of(conversation: &ConversationId) -> ConversationId {
        *conversation
    }

    /// Returns all conversations for [`Visit::Archived`] too, so that a verification finds stray
    /// references.
    async fn conversations(
        &mut self,
        _visit: &Visit,
        after: Option<ConversationId>,
    ) -> Result<ConversationPage<ConversationId, ConversationId>, ArchiveError> {
        let tables = Arc::clone(&self.0.tables);
        let conversations = self.0.blocking(move || {
            let mut conversations = Vec::new();
            tables.current()?.snapshot()?.conversations(after, |id| {
                conversations.push(id);
                conversations.len() < BATCH
            })?;
            Ok(conversations)
        });
        let conversations = conversations.await?;
        let next = conversations.last().copied().filter(|_| conversations.len() >= BATCH);
        Ok(ConversationPage { conversations, next })
    }

    async fn conversation_count(&mut self) -> Result<u64, ArchiveError> {
        let tables = Arc::clone(&self.0.tables);
        self.0.blocking(move || Ok(tables.current()?.snapshot()?.conversation_count()?)).await
    }

    async fn next_segment(
        &mut self,
        id: &ConversationId,
        from: Seq,
        except: &HashSet<SegmentName>,
    ) -> Result<Option<SegmentRows<(ChunkKey, SegmentRow)>>, ArchiveError> {
        let (tables, id, limit) = (Arc::clone(&self.0.tables), *id, except.len() + 1);
        let after = (from > Seq::FIRST).then(|| ChunkKey { conversation: id, first: from.previous() });
        let segments =
            self.0.blocking(move || Ok(tables.current()?.snapshot()?.segments(Some(id), after, limit)?));
        let segments = segments.await?.into_iter().map(|(key, row)| SegmentRows {
            name: self.0.name(key, &row),
            first: key.first,
            resume_from: row.last.next(),
            rows: (key, row),
        });
        Ok(segments.into_iter().find(|segment| !except.contains(&segment.name)))
    }

    fn count(&self, segment: &SegmentRows<(ChunkKey, SegmentRow)>, _size: ObjectSize) -> ColdCount {
        segment.rows.1.count()
    }

    async fn compare(
        &mut self,
        segment: &SegmentRows<(ChunkKey, SegmentRow)>,
        opened: &Arc<DecodedSegment>,
        size: ObjectSize,
    ) -> Result<Option<String>, ArchiveError> {
        let (key, row) = segment.rows;
        if size.bytes != row.bytes {
            return Ok(Some(format!("it has {} bytes instead of {}", size.bytes, row.bytes)));
        }
        let (tables, opened) = (Arc::clone(&self.0.tables), Arc::clone(opened));
        let hasher = self.0.identity.fingerprinter;
        self.0
            .blocking(move || {
                let stubs = match stubs_of(&*tables.current()?, key, &row) {
                    Err(damage @ TablesError::Damaged { .. }) => return Ok(Some(damage.to_string())),
                    stubs => stubs?,
                };
                let stored = opened.records().count() as u64;
                let referring: u64 = stubs.iter().map(|stub| stub.prints.len() as u64).sum();
                if stored != row.messages || referring != row.messages {
                    return Ok(Some(format!(
                        "it holds {stored} messages and {referring} rows refer to it, instead of {}",
                        row.messages
                    )));
                }
                Ok(stubs.iter().find_map(|stub| records_of(stub, &opened, &hasher).err()))
            })
            .await
    }

    async fn stray_references(&mut self, id: &ConversationId) -> Result<Vec<String>, ArchiveError> {
        let (tables, id) = (Arc::clone(&self.0.tables), *id);
        self.0
            .blocking(move || match verify::strays(&*tables.current()?, id) {
                Err(damage @ TablesError::Damaged { .. }) => Ok(vec![format!("{id}: {damage}")]),
                strays => Ok(strays?
                    .into_iter()
                    .map(|seq| format!("{id}: the rows from seq {seq} on refer to an unknown segment"))
                    .collect()),
            })
            .await
    }

    async fn verified(&mut self, _checked: &ColdCount) -> Result<(), ArchiveError> {
        Ok(())
    }

    async fn put_back(
        &mut self,
        segment: &SegmentRows<(ChunkKey, SegmentRow)>,
        opened: &Arc<DecodedSegment>,
        _size: ObjectSize,
    ) -> Result<PutBack, ArchiveError> {
        let (name, (key, row)) = (segment.name, segment.rows);
        let (tables, opened) = (Arc::clone(&self.0.tables), Arc::clone(opened));
        let hasher = self.0.identity.fingerprinter;
        self.0
            .blocking(move || restore::put_segment_back(&tables, &name, key, &row, &opened, &hasher))
            .await?;
        Ok(PutBack { messages: row.messages, is_complete: true })
    }

    async fn keep_hot(&mut self, id: &ConversationId) -> Result<(), ArchiveError> {
        self.0.keep_hot(*id).await
    }

    async fn all_restored(&mut self, _id: &ConversationId) -> Result<(), ArchiveError> {
        Ok(())
    }

    async fn is_referenced(&mut self, name: &SegmentName) -> Result<bool, ArchiveError> {
        Ok(self.referenced_in(name).await?.contains(name))
    }

    async fn referenced_in(&mut self, name: &SegmentName) -> Result<HashSet<SegmentName>, ArchiveError> {
        let tables = Arc::clone(&self.0.tables);
        let key = ChunkKey { conversation: name.conversation, first: name.first };
        let row = self.0.blocking(move || Ok(tables.current()?.snapshot()?.segment(key)?)).await?;
        Ok(row.into_iter().map(|row| self.0.name(key, &row)).collect())
    }

    async fn may_sweep(&mut self, _name: &SegmentName) -> Result<bool, ArchiveError> {
        Ok(true)
    }

    async fn swept(&mut self, _orphans: &HashSet<SegmentName>) -> Result<(), ArchiveError> {
        *self.0.swept() = Some(std::time::Instant::now());
        Ok(())
    }

    async fn retire(
        &mut self,
        _name: &SegmentName,
        _segment: Option<&(ChunkKey, SegmentRow)>,
    ) -> Result<(), ArchiveError> {
        Ok(())
    }

    async fn expired(
        &mut self,
        id: &ConversationId,
        before: Timestamp,
        now: Timestamp,
    ) -> Result<Option<Seq>, ArchiveError> {
        let (tables, id) = (Arc::clone(&self.0.tables), *id);
        self.0.blocking(move || Ok(retention::expired(&*tables.current()?, id, before, now)?)).await
    }

    fn expiry(&self, id: &ConversationId, through: Seq) -> Erasure {
        Erasure { conversation: *id, sender: None, through }
    }

    async fn note_expired(&mut self, id: ConversationId, through: Seq) -> Result<(), ArchiveError> {
        self.0.note_expired(id, through).await
    }

    async fn begin_run(&mut self) -> Result<u64, ArchiveError> {
        self.0.checkpoint().await?;
        Ok(self.0.space().await?.file_bytes)
    }

    async fn release(&mut self, id: ConversationId) -> Result<ConversationId, ArchiveError> {
        self.0.release(id).await.map(|()| id)
    }

    /// The progress of a conversation is in its own row, which [`plan`](ArchiveRows::plan) reads.
    fn is_due(&self, _id: &ConversationId, _rules: &Rules) -> bool {
        true
    }

    /// A run is cheap to repeat, so it always starts at the first conversation.
    fn interrupted_at(&self) -> Option<ConversationId> {
        None
    }

    fn note_position(&mut self, _position: Option<ConversationId>) {}

    fn note_conversation_count(&mut self, _count: u64) {}

    /// The flip records the moved range, so `after` adds nothing.
    async fn plan(
        &mut self,
        id: &ConversationId,
        _after: Seq,
        rules: &Rules,
    ) -> Result<Option<SegmentPlan<PlannedChunks>>, ArchiveError> {
        let (tables, hasher) = (Arc::clone(&self.0.tables), self.0.identity.fingerprinter);
        let (id, rules) = (*id, *rules);
        self.0.blocking(move || Ok(move_out::plan(&*tables.current()?, id, rules, &hasher)?)).await
    }

    async fn new_revision(&mut self, id: ConversationId) -> Result<u32, ArchiveError> {
        let tables = Arc::clone(&self.0.tables);
        self.0.blocking(move || Ok(tables.current()?.snapshot()?.progress(id)?.revision())).await
    }

    async fn flip(
        &mut self,
        planned: PlannedChunks,
        name: &SegmentName,
        layout: &SegmentLayout,
    ) -> Result<Flip, ArchiveError> {
        let (tables, on_step) = (Arc::clone(&self.0.tables), Arc::clone(&self.0.on_step));
        let sealed = SealedSegment::new(*name, layout);
        let go_on = move || on_step(ArchiveStep::BeforeFlip);
        self.0.blocking(move || move_out::flip(&tables, &planned, &sealed, go_on)).await
    }

    fn is_time_to_sweep(&self) -> bool {
        self.0.is_time_to_sweep()
    }

    async fn remember(&mut self, paused: Option<String>) {
        self.0.remember(paused).await;
    }

    async fn free_space(&mut self, progress: &dyn Progress) -> Result<u64, ArchiveError> {
        self.0.give_space_back(progress).await
    }

    async fn head(&mut self, id: ConversationId) -> Result<Seq, ArchiveError> {
        self.0.head(id).await
    }

    async fn accept(
        &mut self,
        scope: ErasureScope,
    ) -> Result<(RequestKey, StoredErasureRequest), ArchiveError> {
        self.0.accept(scope).await
    }

    fn scope_of((_, request): &(RequestKey, StoredErasureRequest)) -> ErasureScope {
        let StoredErasureRequest { conversation, sender, through } = request.clone();
        ErasureScope { conversation, sender, through }
    }

    async fn requests(&mut self) -> Result<Vec<(RequestKey, StoredErasureRequest)>, ArchiveError> {
        let tables = Arc::clone(&self.0.tables);
        self.0.blocking(move || Ok(tables.current()?.snapshot()?.erasure_requests()?)).await
    }

    async fn settle(&mut self) -> Result<(), ArchiveError> {
        self.0.checkpoint().await
    }

    async fn find(
        &mut self,
        id: ConversationId,
        scope: &ErasureScope,
    ) -> Result<Search<Erasure>, ArchiveError> {
        self.0.find(id, scope).await
    }

    async fn note(
        &mut self,
        (key, _): &(RequestKey, StoredErasureRequest),
        found: Vec<Erasure>,
    ) -> Result<(), ArchiveError> {
        self.0.note_erasures(key.clone(), found).await
    }

    async fn erasures(&mut self) -> Result<Vec<Erasure>, ArchiveError> {
        self.0.unfinished_erasures().await
    }

    fn conversation_of(erasure: &Erasure) -> ConversationId {
        erasure.conversation
    }

    fn sender_of(erasure: &Erasure) -> Option<&UserId> {
        erasure.sender.as_ref()
    }

    fn through_of(erasure: &Erasure) -> Seq {
        erasure.through
    }

    fn is_erased(_erasure: &Erasure) -> bool {
        false
    }

    async fn begin_erasure(&mut self, id: ConversationId) -> Result<(), ArchiveError> {
        let tables = Arc::clone(&self.0.tables);
        self.0.blocking(move || Ok(erase::raise_names(&tables, id).map(drop)?)).await
    }

    async fn erase_in_rows(&mut self, erasure: &Erasure, reason: Reason) -> Result<u64, ArchiveError> {
        self.0.erase_here(erasure, reason).await
    }

    async fn has_objects(&mut self, id: ConversationId) -> Result<bool, ArchiveError> {
        let tables = Arc::clone(&self.0.tables);
        self.0
            .blocking(move || Ok(!tables.current()?.snapshot()?.segments(Some(id), None, 1)?.is_empty()))
            .await
    }

    async fn objects(&mut self, id: ConversationId) -> Result<Vec<(SegmentName, u64)>, ArchiveError> {
        let tables = Arc::clone(&self.0.tables);
        let segments = self
            .0
            .blocking(move || Ok(tables.current()?.snapshot()?.segments(Some(id), None, usize::MAX)?));
        let segments = segments.await?;
        Ok(segments.into_iter().map(|(key, row)| (self.0.name(key, &row), row.bytes)).collect())
    }

    async fn erasure_effect(
        &mut self,
        name: &SegmentName,
        erasure: &Erasure,
    ) -> Result<ErasureEffect<(ChunkKey, SegmentRow)>, ArchiveError> {
        let (tables, erasure) = (Arc::clone(&self.0.tables), erasure.clone());
        let key = ChunkKey { conversation: name.conversation, first: name.first };
        self.0
            .blocking(move || {
                let engine = tables.current()?;
                let Some(row) = engine.snapshot()?.segment(key)? else {
                    return Ok(ErasureEffect::Unaffected);
                };
                let affected = erase::affected(&stubs_of(&engine, key, &row)?, &erasure)?;
                let (segment, messages) = ((key, row), affected.taken);
                Ok(match affected {
                    Affected { taken: 0, .. } => ErasureEffect::Unaffected,
                    Affected { left: 0, .. } => ErasureEffect::NothingLeft { segment, messages },
                    Affected { .. } => ErasureEffect::Rewrite { segment, messages },
                })
            })
            .await
    }

    async fn drop_content(
        &mut self,
        (key, row): &(ChunkKey, SegmentRow),
        _bytes: u64,
    ) -> Result<(), ArchiveError> {
        let (tables, key, row) = (Arc::clone(&self.0.tables), *key, *row);
        self.0.blocking(move || erase::drop_erased(&tables, key, &row)).await
    }

    async fn salvage(
        &mut self,
        _name: &SegmentName,
        (key, row): (ChunkKey, SegmentRow),
        erasure: &Erasure,
        object: Bytes,
    ) -> Result<Salvaged<SalvagedChunks>, ArchiveError> {
        let (tables, erasure) = (Arc::clone(&self.0.tables), erasure.clone());
        let hasher = self.0.identity.fingerprinter;
        self.0
            .blocking(move || {
                let stubs = stubs_of(&*tables.current()?, key, &row)?;
                Ok(rewrite::salvage(key, row, stubs, &object, &erasure, &hasher)?)
            })
            .await
    }

    async fn flip_rewritten(
        &mut self,
        salvaged: SalvagedChunks,
        name: &SegmentName,
        layout: &SegmentLayout,
        _old_bytes: u64,
    ) -> Result<(ChunkKey, SegmentRow), ArchiveError> {
        let (tables, sealed) = (Arc::clone(&self.0.tables), SealedSegment::new(*name, layout));
        self.0
            .blocking(move || {
                rewrite::flip(&tables, &salvaged, &sealed)?;
                Ok(salvaged.segment())
            })
            .await
    }

    async fn finish_erasure(&mut self, erasure: &Erasure) -> Result<(), ArchiveError> {
        let (tables, done) = (Arc::clone(&self.0.tables), erasure.clone());
        self.0
            .blocking(move || {
                let engine = tables.writing()?;
                let mut update = engine.update()?;
                update.delete_erasure(&done)?;
                Ok(update.commit()?)
            })
            .await
    }

    async fn recheck(&mut self, _erasure: &Erasure) -> Result<(), ArchiveError> {
        Ok(())
    }

    async fn clean_up(&mut self, progress: &dyn Progress) -> Result<bool, ArchiveError> {
        let has_erased_pages = self.0.has_erased_pages().await?;
        self.0.clean_up(progress).await.map(|()| has_erased_pages)
    }
}

impl SealedSegment {
    fn new(name: SegmentName, layout: &SegmentLayout) -> SealedSegment {
        let SegmentLayout { sealed, refs } = layout;
        let bytes = sealed.bytes.len() as u64;
        SealedSegment { name, refs: refs.clone(), bytes, raw_bytes: sealed.raw_bytes }
    }
}
