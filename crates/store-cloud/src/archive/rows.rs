//! The rows of the fleet as the archive jobs use them. Each message is one row with a version. A job
//! changes rows one by one, each on the condition that its version is the one read.
//!
//! A node that lost its lease may still write. It cannot make a row refer to an object that is about
//! to be deleted: [`Job::retire`] first raises the version of each hot row in the range.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use bluetick_archive::jobs::layout::SegmentLayout;
use bluetick_archive::jobs::selection::Rules;
use bluetick_archive::jobs::state::{ArchiverState, LastRun};
use bluetick_archive::jobs::{
    self, ArchiveRows, ArchiveStep, ConversationPage, ErasureEffect, ErasureScope, Flip, ObjectSize, PutBack,
    Reason, Salvaged, Search, SegmentPlan, SegmentRows, Visit,
};
use bluetick_archive::segment::DecodedSegment;
use bluetick_archive::{ArchiveSettings, ObjectArchive, SegmentName};
use bluetick_core::ports::{ArchiveError, ColdCount, Progress};
use bluetick_core::{ConversationId, Seq, Timestamp, UserId};
use bytes::Bytes;

use super::erase::{Erasure, Request, changed_meanwhile};
use super::job::{Job, Stored};
use super::restore::with_content;
use super::verify;
use crate::memberships::RoomRow;

/// The grace period of an orphan. It must exceed the time for which a node can act on a lost lease.
const GRACE_MILLIS: i64 = 3_600 * 1_000;
/// Upper bound on the remembered orphans. Further orphans are remembered after these are deleted.
const MAX_ORPHANS: usize = 1_000;
/// The interval between two sweeps of the whole store.
const SWEEP_EVERY_MILLIS: i64 = 24 * 3_600 * 1_000;
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
    type Run = Vec<Stored>;
    type Salvage = RangeRows;
    type Request = Request;
    type Erasure = Erasure;

    const LISTS_ORPHANS: bool = true;

    fn store(&self) -> [u8; 8] {
        self.store
    }

    fn state(&self) -> &ArchiverState {
        &self.engine.archive.state
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

    async fn put(&mut self, name: SegmentName, object: Bytes) -> Result<(), ArchiveError> {
        jobs::object_archive(self)?.put(&name, object).await?;
        Ok(())
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
        visit: &Visit,
        after: Option<String>,
    ) -> Result<ConversationPage<RoomRow, String>, ArchiveError> {
        if after.is_none() {
            self.kept_hot_seen = 0;
        }
        let (mut conversations, next) = self.rooms(after.as_deref()).await?;
        self.kept_hot_seen += conversations.iter().filter(|room| room.way.kept_hot).count() as u64;
        match visit {
            Visit::All => {}
            Visit::Archived => conversations.retain(|room| room.way.has_cold),
            Visit::WrittenBy(user) => self.retain_conversations_of(user, &mut conversations).await?,
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
        opened: &Arc<DecodedSegment>,
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
        opened: &Arc<DecodedSegment>,
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

    fn expiry(&self, conversation: &RoomRow, through: Seq) -> Erasure {
        Erasure::new(conversation.facts.id, None, through)
    }

    async fn note_expired(&mut self, id: ConversationId, through: Seq) -> Result<(), ArchiveError> {
        let done = |way: &mut super::Way| way.expired_through = way.expired_through.max(through);
        self.engine.change_way(id, done).await?;
        Ok(())
    }

    /// The rows are always current, and their size is the database's to report.
    async fn begin_run(&mut self) -> Result<u64, ArchiveError> {
        Ok(0)
    }

    async fn release(&mut self, conversation: RoomRow) -> Result<RoomRow, ArchiveError> {
        self.release_room(conversation).await
    }

    fn is_due(&self, conversation: &RoomRow, rules: &Rules) -> bool {
        let (way, is_partial) = (&conversation.way, rules.partial_before.is_none());
        is_partial && !way.kept_hot || way.is_worth_a_look(rules.now, rules.age_seconds)
    }

    fn interrupted_at(&self) -> Option<String> {
        self.shared.cursor.clone()
    }

    fn note_position(&mut self, position: Option<String>) {
        self.shared.cursor = position;
    }

    fn note_conversation_count(&mut self, count: u64) {
        self.shared.conversations = count;
    }

    async fn plan(
        &mut self,
        conversation: &RoomRow,
        after: Seq,
        rules: &Rules,
    ) -> Result<Option<SegmentPlan<Vec<Stored>>>, ArchiveError> {
        self.plan_run(conversation, after, rules).await
    }

    async fn new_revision(&mut self, id: ConversationId) -> Result<u32, ArchiveError> {
        self.raise_names(id).await
    }

    async fn flip(
        &mut self,
        run: Vec<Stored>,
        name: &SegmentName,
        layout: &SegmentLayout,
    ) -> Result<Flip, ArchiveError> {
        self.flip_run(&run, name, layout).await
    }

    fn is_time_to_sweep(&self) -> bool {
        let now = self.engine.clock.now();
        let since = |at: i64, wait: i64| now.millis().saturating_sub(at) > wait;
        self.shared.swept_at.is_none_or(|swept| since(swept.millis(), SWEEP_EVERY_MILLIS))
            || self.shared.orphans.values().any(|seen| since(*seen, GRACE_MILLIS))
    }

    /// The end of the job writes the shared row.
    async fn remember(&mut self, paused: Option<String>) {
        let at = Some(self.engine.clock.now());
        self.engine.archive.state.set_last_run(LastRun { at, paused: paused.clone() });
        (self.shared.last_run_at, self.shared.paused) = (at, paused);
    }

    async fn free_space(&mut self, _progress: &dyn Progress) -> Result<u64, ArchiveError> {
        Ok(0)
    }

    async fn head(&mut self, id: ConversationId) -> Result<Seq, ArchiveError> {
        Ok(self.engine.head(id).await?)
    }

    async fn accept(&mut self, scope: ErasureScope) -> Result<Request, ArchiveError> {
        self.accept_request(scope).await
    }

    fn scope_of(request: &Request) -> ErasureScope {
        let Request { conversation, sender, through } = request.clone();
        ErasureScope { conversation, sender, through }
    }

    async fn requests(&mut self) -> Result<Vec<Request>, ArchiveError> {
        Ok(self.engine.noted_erasures().await?.requests)
    }

    /// Writes the inbox entries that this node has pending, so that the erasure finds their previews.
    async fn settle(&mut self) -> Result<(), ArchiveError> {
        self.engine.flush_everything().await;
        Ok(())
    }

    async fn find(
        &mut self,
        id: ConversationId,
        scope: &ErasureScope,
    ) -> Result<Search<Erasure>, ArchiveError> {
        self.find_in(id, scope).await
    }

    async fn note(&mut self, request: &Request, found: Vec<Erasure>) -> Result<(), ArchiveError> {
        self.note_all(request, &found).await
    }

    async fn erasures(&mut self) -> Result<Vec<Erasure>, ArchiveError> {
        Ok(self.engine.noted_erasures().await?.erasures)
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

    fn is_erased(erasure: &Erasure) -> bool {
        erasure.is_done()
    }

    /// Every object has a name of its own: [`new_revision`](ArchiveRows::new_revision) raises it.
    async fn begin_erasure(&mut self, _id: ConversationId) -> Result<(), ArchiveError> {
        Ok(())
    }

    async fn erase_in_rows(&mut self, erasure: &Erasure, _reason: Reason) -> Result<u64, ArchiveError> {
        self.erase_rows(erasure).await
    }

    async fn has_objects(&mut self, id: ConversationId) -> Result<bool, ArchiveError> {
        Ok(self.must_exist(id).await?.way.has_cold)
    }

    async fn objects(&mut self, id: ConversationId) -> Result<Vec<(SegmentName, u64)>, ArchiveError> {
        Ok(self.objects_of(id).await?.into_iter().collect())
    }

    async fn erasure_effect(
        &mut self,
        name: &SegmentName,
        erasure: &Erasure,
    ) -> Result<ErasureEffect<RangeRows>, ArchiveError> {
        self.look_at(name, erasure).await
    }

    async fn drop_content(&mut self, _segment: &RangeRows, bytes: u64) -> Result<(), ArchiveError> {
        self.shared.subtract_unread(bytes);
        Ok(())
    }

    async fn salvage(
        &mut self,
        name: &SegmentName,
        segment: RangeRows,
        _erasure: &Erasure,
        object: Bytes,
    ) -> Result<Salvaged<RangeRows>, ArchiveError> {
        Job::salvage_range(name, segment, &object)
    }

    async fn flip_rewritten(
        &mut self,
        rows: RangeRows,
        name: &SegmentName,
        layout: &SegmentLayout,
        old_bytes: u64,
    ) -> Result<RangeRows, ArchiveError> {
        self.flip_range(rows, name, layout, old_bytes).await
    }

    async fn finish_erasure(&mut self, erasure: &Erasure) -> Result<(), ArchiveError> {
        self.mark_done(erasure).await
    }

    async fn recheck(&mut self, erasure: &Erasure) -> Result<(), ArchiveError> {
        self.check_inboxes(erasure).await
    }

    /// The fleet has no files.
    async fn clean_up(&mut self, _progress: &dyn Progress) -> Result<bool, ArchiveError> {
        Ok(false)
    }
}

impl Job<'_> {
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
