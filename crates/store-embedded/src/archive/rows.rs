//! The rows of the embedded store as the archive jobs use them. Rows are chunks, and one
//! transaction changes all chunks of a segment. The store has one node, so no write is late.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use bluetick_archive::jobs::{
    ArchiveRows, ArchiveStep, ConversationPage, ObjectSize, PutBack, SegmentRows, Visit,
};
use bluetick_archive::segment::Opened;
use bluetick_archive::{ArchiveSettings, ObjectArchive, SegmentName};
use bluetick_core::ports::{ArchiveError, ColdCount};
use bluetick_core::{ConversationId, Seq, Timestamp};

use super::erase::Reason;
use super::job::{records_of, stubs_of};
use super::{Archiver, restore, retention, verify};
use crate::codec::archive::{Erasure, SegmentRow};
use crate::tables::{ChunkKey, TablesError};

/// Conversations that are read from the tables at a time. Bounds the length of a snapshot and the
/// memory.
const BATCH: usize = 1_000;

/// The rows of a running job. The caller holds the job lock of the [`Archiver`].
pub(super) struct JobRows<'a>(pub &'a Archiver);

#[async_trait]
impl ArchiveRows for JobRows<'_> {
    type Conversation = ConversationId;
    type Position = ConversationId;
    type Segment = (ChunkKey, SegmentRow);

    fn store(&self) -> [u8; 8] {
        self.0.identity.tag.0
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
        _visit: Visit,
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
        opened: &Arc<Opened>,
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
        opened: &Arc<Opened>,
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

    async fn expire_through(
        &mut self,
        id: &ConversationId,
        through: Seq,
        rows_only: bool,
    ) -> Result<u64, ArchiveError> {
        let erasure = Erasure { conversation: *id, sender: None, through };
        if rows_only {
            return self.0.erase_here(&erasure, Reason::Expired).await;
        }
        let erased = self.0.erase_content(&erasure, Reason::Expired).await?.messages;
        self.0.note_expired(*id, through).await?;
        Ok(erased)
    }
}
