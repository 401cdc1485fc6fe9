//! The rows of the fleet as the archive jobs use them. Each message is one row with a version. A job
//! changes rows one by one, each on the condition that its version is the one read.
//!
//! A node that lost its lease may still write. It cannot make a row refer to an object that is about
//! to be deleted: [`Job::retire`] first raises the version of each hot row in the range.

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

use super::erase::{Erasure, changed_meanwhile};
use super::job::{Job, Stored};
use super::restore::with_content;
use super::verify;
use crate::memberships::RoomRow;

/// The grace period of an orphan. It must exceed the time for which a node can act on a lost lease.
const GRACE_MILLIS: i64 = 3_600 * 1_000;
/// Upper bound on the remembered orphans. Further orphans are remembered after these are deleted.
const MAX_ORPHANS: usize = 1_000;
/// Rows that one request reads.
const BATCH: usize = 1_000;

/// The rows in the range of one object.
pub(super) struct RangeRows {
    /// The rows that refer to the object.
    pub own: Vec<Stored>,
    pub others: Vec<Stored>,
}

#[async_trait]
impl ArchiveRows for Job<'_> {
    type Conversation = RoomRow;
    type Position = String;
    type Segment = RangeRows;

    fn store(&self) -> [u8; 8] {
        self.store
    }

    fn settings(&self) -> &ArchiveSettings {
        &self.engine.archive.settings
    }

    fn now(&self) -> Timestamp {
        self.engine.clock.now()
    }

    fn object_archive(&self) -> Option<&Arc<ObjectArchive>> {
        self.engine.archive.object_archive.as_ref()
    }

    async fn proceed(&mut self, _step: Option<ArchiveStep>) -> Result<(), ArchiveError> {
        self.go_on().await
    }

    async fn delete(&mut self, name: SegmentName) -> Result<(), ArchiveError> {
        self.delete_object(&name).await
    }

    async fn segment_count(&mut self) -> Result<u64, ArchiveError> {
        Ok(self.shared.cold.segments)
    }

    async fn conversation(&mut self, id: ConversationId) -> Result<RoomRow, ArchiveError> {
        self.must_exist(id).await
    }

    fn id_of(conversation: &RoomRow) -> ConversationId {
        conversation.facts.id
    }

    async fn conversations(
        &mut self,
        visit: Visit,
        after: Option<String>,
    ) -> Result<ConversationPage<RoomRow, String>, ArchiveError> {
        if after.is_none() {
            self.kept_hot_seen = 0;
        }
        let (mut conversations, next) = self.rooms(after.as_deref()).await?;
        self.kept_hot_seen += conversations.iter().filter(|room| room.way.kept_hot).count() as u64;
        if visit == Visit::Archived {
            conversations.retain(|room| room.way.has_cold);
        }
        Ok(ConversationPage { conversations, next })
    }

    async fn conversation_count(&mut self) -> Result<u64, ArchiveError> {
        Ok(self.shared.conversations)
    }

    async fn next_segment(
        &mut self,
        conversation: &RoomRow,
        from: Seq,
        except: &HashSet<SegmentName>,
    ) -> Result<Option<SegmentRows<RangeRows>>, ArchiveError> {
        let id = conversation.facts.id;
        let name_of =
            |store, stored: &Stored| stored.cell.cold.as_ref().map(|cold| cold.place.segment(store, id));
        let head = self.engine.head(id).await?;
        // The first request reads one row, because the row at `from` usually refers to the object.
        let (mut next, mut limit) = (from, 1);
        let (first, name) = loop {
            self.go_on().await?;
            let (cells, more) = self.stored(id, next, head, limit).await?;
            let Some(last) = cells.last().map(Stored::seq) else { return Ok(None) };
            let found = cells.iter().find_map(|stored| {
                let name = name_of(self.store, stored).filter(|name| !except.contains(name));
                name.map(|name| (stored.seq(), name))
            });
            match found {
                Some(found) => break found,
                None if more => (next, limit) = (last.next(), BATCH),
                None => return Ok(None),
            }
        };
        let rows = self.all_stored(id, name.first, name.last).await?;
        let (own, others): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|stored| name_of(self.store, stored) == Some(name));
        let other = others.iter().find(|other| other.seq() > first && other.cell.cold.is_some());
        let resume_from = other.map_or(name.last.next(), Stored::seq);
        Ok(Some(SegmentRows { name, first, resume_from, rows: RangeRows { own, others } }))
    }

    fn count(&self, segment: &SegmentRows<RangeRows>, size: ObjectSize) -> ColdCount {
        let messages = segment.rows.own.len() as u64;
        ColdCount { segments: 1, messages, bytes: size.bytes, raw_bytes: size.raw_bytes }
    }

    async fn compare(
        &mut self,
        segment: &SegmentRows<RangeRows>,
        opened: &Arc<Opened>,
        _size: ObjectSize,
    ) -> Result<Option<String>, ArchiveError> {
        Ok(segment.rows.own.iter().find_map(|stored| verify::compare(&stored.cell, opened).err()))
    }

    /// Each row names its object, so there are no stray references.
    async fn stray_references(&mut self, _conversation: &RoomRow) -> Result<Vec<String>, ArchiveError> {
        Ok(Vec::new())
    }

    async fn verified(&mut self, checked: &ColdCount) -> Result<(), ArchiveError> {
        (self.shared.cold, self.shared.kept_hot) = (*checked, self.kept_hot_seen);
        Ok(())
    }

    async fn put_back(
        &mut self,
        segment: &SegmentRows<RangeRows>,
        opened: &Arc<Opened>,
        size: ObjectSize,
    ) -> Result<PutBack, ArchiveError> {
        let (name, id) = (segment.name, segment.name.conversation);
        let back = with_content(&segment.rows.own, opened);
        let back = back.map_err(|why| ArchiveError::Damaged(format!("{name}: {why}")))?;
        if self.restoring != Some(id) {
            self.keep_room_hot(id).await?;
            self.restoring = Some(id);
        }
        let done = self.change(&back).await?;
        let messages = done.iter().filter(|done| **done).count() as u64;
        let ObjectSize { bytes, raw_bytes } = size;
        self.shared.subtract(&ColdCount { segments: 1, messages, bytes, raw_bytes });
        Ok(PutBack { messages, is_complete: messages == back.len() as u64 })
    }

    async fn keep_hot(&mut self, conversation: &RoomRow) -> Result<(), ArchiveError> {
        self.keep_room_hot(conversation.facts.id).await
    }

    async fn all_restored(&mut self, conversation: &RoomRow) -> Result<(), ArchiveError> {
        let id = conversation.facts.id;
        self.delete_all_of(id).await?;
        self.engine.change_way(id, |way| way.has_cold = false).await?;
        Ok(())
    }

    /// Usually the first row of the range answers.
    async fn is_referenced(&mut self, name: &SegmentName) -> Result<bool, ArchiveError> {
        self.is_named(name).await
    }

    async fn referenced_in(&mut self, name: &SegmentName) -> Result<HashSet<SegmentName>, ArchiveError> {
        self.named_in(name).await
    }

    async fn may_sweep(&mut self, name: &SegmentName) -> Result<bool, ArchiveError> {
        let (now, name) = (self.engine.clock.now().millis(), name.to_string());
        match self.shared.orphans.get(&name).copied() {
            Some(since) if now.saturating_sub(since) > GRACE_MILLIS => {
                self.shared.orphans.remove(&name);
                Ok(true)
            }
            Some(_) => Ok(false),
            None => {
                if self.shared.orphans.len() < MAX_ORPHANS {
                    self.shared.orphans.insert(name, now);
                }
                Ok(false)
            }
        }
    }

    async fn swept(&mut self, orphans: &HashSet<SegmentName>) -> Result<(), ArchiveError> {
        let seen: HashSet<String> = orphans.iter().map(SegmentName::to_string).collect();
        self.shared.orphans.retain(|name, _| seen.contains(name));
        self.shared.swept_at = Some(self.engine.clock.now());
        Ok(())
    }

    async fn retire(&mut self, name: &SegmentName, segment: Option<&RangeRows>) -> Result<(), ArchiveError> {
        let is_hot = |stored: &&Stored| stored.cell.cold.is_none();
        let hot: Vec<Stored> = match segment {
            Some(rows) => rows.others.iter().filter(is_hot).cloned().collect(),
            None => {
                let rows = self.all_stored(name.conversation, name.first, name.last).await?;
                rows.iter().filter(is_hot).cloned().collect()
            }
        };
        self.change(&hot).await?;
        if self.is_named(name).await? {
            return Err(changed_meanwhile(name.conversation));
        }
        Ok(())
    }

    async fn expired(
        &mut self,
        conversation: &RoomRow,
        before: Timestamp,
        _now: Timestamp,
    ) -> Result<Option<Seq>, ArchiveError> {
        self.expired_through(conversation.facts.id, conversation.way.expired_through, before).await
    }

    async fn expire_through(
        &mut self,
        conversation: &RoomRow,
        through: Seq,
        rows_only: bool,
    ) -> Result<u64, ArchiveError> {
        let id = conversation.facts.id;
        let erasure = Erasure::new(id, None, through);
        if rows_only {
            return self.erase_in_rows(&erasure).await;
        }
        let erased = self.erase_content(&erasure).await?.messages;
        let done = |way: &mut super::Way| way.expired_through = way.expired_through.max(through);
        self.engine.change_way(id, done).await?;
        Ok(erased)
    }
}

impl Job<'_> {
    pub(super) fn is_time_to_sweep(&self) -> bool {
        /// The interval between two sweeps of the whole store.
        const SWEEP_EVERY_MILLIS: i64 = 24 * 3_600 * 1_000;
        let now = self.engine.clock.now();
        let since = |at: i64, wait: i64| now.millis().saturating_sub(at) > wait;
        self.shared.swept_at.is_none_or(|swept| since(swept.millis(), SWEEP_EVERY_MILLIS))
            || self.shared.orphans.values().any(|seen| since(*seen, GRACE_MILLIS))
    }

    /// Deletes an object that no row refers to. `others` are the rows in its range.
    pub(super) async fn delete_now(
        &mut self,
        name: &SegmentName,
        others: Vec<Stored>,
    ) -> Result<(), ArchiveError> {
        self.retire(name, Some(&RangeRows { own: Vec::new(), others })).await?;
        self.delete_object(name).await
    }
}
