//! The port between the job engine and a store.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use bluetick_core::ports::{ArchiveError, ColdCount, Progress};
use bluetick_core::{ConversationId, Seq, Timestamp, UserId};
use bytes::Bytes;

use super::layout::SegmentLayout;
use super::selection::Rules;
use super::state::ArchiverState;
use crate::segment::DecodedSegment;
use crate::{ArchiveSettings, ObjectArchive, SegmentName};

/// A point between two steps of a job. Tests stop a job there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArchiveStep {
    BeforePut,
    AfterPut,
    BeforeFlip,
    AfterFlip,
    BeforeDelete,
    AfterDelete,
    /// The erasure request is durable, and its search has not begun.
    ErasureAccepted,
    /// The erasure records of all conversations are durable.
    ErasureSearched,
    /// No row and no object holds erased content. Files may still hold it.
    ErasureDone,
    /// No log file holds erased content.
    LogScrubbed,
    /// No page of the tables holds erased content.
    TablesRewritten,
}

/// Which conversations a job visits. A store may return others too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Visit {
    All,
    /// The conversations that may have objects.
    Archived,
    /// The conversations that may contain messages of this user.
    WrittenBy(UserId),
}

/// A part of all conversations, and the position after it.
pub struct ConversationPage<C, P> {
    pub conversations: Vec<C>,
    /// `None`: this is the last page.
    pub next: Option<P>,
}

/// The rows that refer to one object.
pub struct SegmentRows<S> {
    pub name: SegmentName,
    /// The seq of the first row that refers to the object.
    pub first: Seq,
    /// The seq from which a search finds the next object. It is inside this segment if rows that
    /// refer to another object lie between the rows of this one.
    pub resume_from: Seq,
    pub rows: S,
}

/// The size of a readable object. All zero for an object that cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectSize {
    pub bytes: u64,
    pub raw_bytes: u64,
}

/// The messages of the next segment.
pub struct SegmentPlan<T> {
    pub first: Seq,
    pub last: Seq,
    /// The encoded records of consecutive messages. The records of one group share a reference.
    pub records: Vec<Vec<Vec<u8>>>,
    /// The rows, as read.
    pub rows: T,
}

/// The result of [`ArchiveRows::flip`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flip {
    /// No row refers to the object, and no late write can make one refer to it.
    Unchanged,
    /// This many messages have their content in the object now. Zero if all rows changed before.
    Changed(u64),
}

/// Why content is erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The operator requested the erasure: no file may keep any byte of the content.
    Requested,
    /// The retention period has ended. Freed disk space is reused, not overwritten at once.
    Expired,
}

/// The scope of an erasure, as the operator requested it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErasureScope {
    /// `None`: every conversation.
    pub conversation: Option<ConversationId>,
    /// `None`: every sender.
    pub sender: Option<UserId>,
    /// `None`: up to the head at the time of the search.
    pub through: Option<Seq>,
}

/// The result of searching one conversation for content to erase.
pub struct Search<E> {
    /// `None`: the conversation has no content to erase.
    pub erasure: Option<E>,
    /// The conversation could not be searched. `erasure` then keeps the erasure pending.
    pub damage: Option<ArchiveError>,
}

/// The effect of an erasure on one object.
pub enum ErasureEffect<S> {
    Unaffected,
    /// No content of the object remains. `messages` of them lose their content when the caller
    /// drops it; messages that lost it before do not count.
    NothingLeft {
        segment: S,
        messages: u64,
    },
    /// Some content remains, so the object is rewritten.
    Rewrite {
        segment: S,
        messages: u64,
    },
}

/// The records of a segment that is rewritten.
pub struct Salvaged<T> {
    /// As in [`SegmentPlan::records`], without the erased content.
    pub records: Vec<Vec<Vec<u8>>>,
    /// The number of messages whose content cannot be read any more.
    pub lost: u64,
    /// The rows, as read.
    pub rows: T,
}

/// The rows of a store, as one running job uses them. The jobs of this crate decide what happens
/// and in which order. The store implements each step on its rows.
///
/// **Exclusive.** A value exists only while its job is the only one of the store, on all nodes. A
/// store with several nodes holds a lease. A method that finds the lease lost errors with
/// [`ArchiveError::Busy`] before it writes.
///
/// **Conditional.** Rows in an associated type are as they were read. A method that changes them
/// changes no row that differs from what was read.
///
/// **Repeatable.** A job may end after any call, also by a crash. The next job finds each row with
/// its content either in the row or in a complete object that the row refers to.
///
/// **Errors.** [`ArchiveError::Stopped`] ends the job during shutdown. Damage (see
/// [`is_damage`](crate::is_damage)) concerns one conversation or one segment, and the job continues
/// with the others. All other errors end the job.
#[async_trait]
pub trait ArchiveRows: Send {
    /// A conversation, with the progress that the store keeps for it.
    type Conversation: Send + Sync;
    /// A position between two conversations.
    type Position: Clone + Send + Sync;
    /// The rows in the range of one object, as read.
    type Segment: Send + Sync;
    /// Rows with their content, as read.
    type Run: Send + Sync;
    /// The rows of a segment that is rewritten, as read.
    type Salvage: Send + Sync;
    /// A durable erasure request.
    type Request: Send + Sync;
    /// The erasure of one conversation.
    type Erasure: Send + Sync;

    /// Whether [`objects`](ArchiveRows::objects) also lists objects that no row refers to. If not,
    /// an erasure sweeps the conversation. A wrong `true` leaves erased content in orphans.
    const LISTS_ORPHANS: bool;

    /// Returns the id of the store in object names.
    fn store(&self) -> [u8; 8];

    fn state(&self) -> &ArchiverState;

    fn settings(&self) -> &ArchiveSettings;

    fn now(&self) -> Timestamp;

    /// Returns the object archive; `None` if the settings name none.
    fn object_archive(&self) -> Option<&Arc<ObjectArchive>>;

    /// Called between two steps, and often enough that a lease does not end. Errors with `Stopped`
    /// or `Busy` if the job must end. A test can stop the job at a named step.
    async fn proceed(&mut self, step: Option<ArchiveStep>) -> Result<(), ArchiveError>;

    /// Puts an object. On return it is complete and durable. A request that was sent runs to its
    /// end before the next job begins, or its name is never used again.
    async fn put(&mut self, name: SegmentName, object: Bytes) -> Result<(), ArchiveError>;

    /// Deletes an object. The caller has called [`retire`](ArchiveRows::retire) before. A request
    /// that was sent runs to its end before the next job begins, or its name is never used again.
    async fn delete(&mut self, name: SegmentName) -> Result<(), ArchiveError>;

    /// Returns the number of segments that rows refer to, or an estimate. It is zero only if there
    /// is none, or if the count of a crashed job was lost.
    async fn segment_count(&mut self) -> Result<u64, ArchiveError>;

    /// Errors with `NoSuchConversation`.
    async fn conversation(&mut self, id: ConversationId) -> Result<Self::Conversation, ArchiveError>;

    fn id_of(conversation: &Self::Conversation) -> ConversationId;

    /// Returns conversations in a fixed order. Logs and skips a row that cannot be read.
    async fn conversations(
        &mut self,
        visit: &Visit,
        after: Option<Self::Position>,
    ) -> Result<ConversationPage<Self::Conversation, Self::Position>, ArchiveError>;

    /// Returns the number of all conversations, or an estimate for progress reports.
    async fn conversation_count(&mut self) -> Result<u64, ArchiveError>;

    /// Returns the first object from `from` on that rows refer to, except these, with its rows.
    /// Errors with damage if a row cannot be read.
    async fn next_segment(
        &mut self,
        conversation: &Self::Conversation,
        from: Seq,
        except: &HashSet<SegmentName>,
    ) -> Result<Option<SegmentRows<Self::Segment>>, ArchiveError>;

    /// Returns the count that a verification adds for this segment.
    fn count(&self, segment: &SegmentRows<Self::Segment>, size: ObjectSize) -> ColdCount;

    /// Compares each row with its record. Returns a description of the first difference. Changes
    /// nothing.
    async fn compare(
        &mut self,
        segment: &SegmentRows<Self::Segment>,
        opened: &Arc<DecodedSegment>,
        size: ObjectSize,
    ) -> Result<Option<String>, ArchiveError>;

    /// Describes rows that refer to a segment which [`next_segment`](ArchiveRows::next_segment)
    /// does not return.
    async fn stray_references(
        &mut self,
        conversation: &Self::Conversation,
    ) -> Result<Vec<String>, ArchiveError>;

    /// Receives the totals of a complete verification.
    async fn verified(&mut self, checked: &ColdCount) -> Result<(), ArchiveError>;

    /// Stores the content of the object in the rows that refer to it, and keeps the conversation
    /// hot. Returns the number of changed rows, and whether all of them were changed. Errors with
    /// damage, without a change, if a row and its record differ.
    async fn put_back(
        &mut self,
        segment: &SegmentRows<Self::Segment>,
        opened: &Arc<DecodedSegment>,
        size: ObjectSize,
    ) -> Result<PutBack, ArchiveError>;

    /// Keeps the conversation hot until a run names it.
    async fn keep_hot(&mut self, conversation: &Self::Conversation) -> Result<(), ArchiveError>;

    /// Called after all segments of a conversation were restored. No row refers to an object.
    async fn all_restored(&mut self, conversation: &Self::Conversation) -> Result<(), ArchiveError>;

    /// Returns whether any row refers to the object.
    async fn is_referenced(&mut self, name: &SegmentName) -> Result<bool, ArchiveError>;

    /// Returns the objects that rows in the range of this one refer to.
    async fn referenced_in(&mut self, name: &SegmentName) -> Result<HashSet<SegmentName>, ArchiveError>;

    /// Returns whether an orphan may be deleted now. A store with several nodes records the first
    /// sighting, and returns `false` until a grace period has ended. A node that lost its lease may
    /// have put the object just now.
    async fn may_sweep(&mut self, name: &SegmentName) -> Result<bool, ArchiveError>;

    /// Called after a sweep of the whole store, with all orphans that it saw.
    async fn swept(&mut self, orphans: &HashSet<SegmentName>) -> Result<(), ArchiveError>;

    /// Makes a late conditional write fail that would refer to this object. Then errors if a row
    /// refers to it. `segment` holds the rows in its range as read before; `None` reads them now. A
    /// store on which no late write is possible does nothing.
    async fn retire(
        &mut self,
        name: &SegmentName,
        segment: Option<&Self::Segment>,
    ) -> Result<(), ArchiveError>;

    /// Returns the last seq that is past its retention and not yet erased. An archived segment
    /// expires as a whole.
    async fn expired(
        &mut self,
        conversation: &Self::Conversation,
        before: Timestamp,
        now: Timestamp,
    ) -> Result<Option<Seq>, ArchiveError>;

    /// Returns the erasure of everything up to `through`. It is not durable.
    fn expiry(&self, conversation: &Self::Conversation, through: Seq) -> Self::Erasure;

    /// Records that everything up to `through` is erased, in rows and objects.
    async fn note_expired(&mut self, id: ConversationId, through: Seq) -> Result<(), ArchiveError>;

    // Moving.

    /// Prepares a run. Afterwards the rows contain every message that was acknowledged before the
    /// call. Returns the size of the table file in bytes, or zero if the store has none.
    async fn begin_run(&mut self) -> Result<u64, ArchiveError>;

    /// Allows a restored conversation to be archived again.
    async fn release(&mut self, conversation: Self::Conversation)
    -> Result<Self::Conversation, ArchiveError>;

    /// Returns whether the conversation may have messages to move. It is called for each
    /// conversation, so it reads nothing.
    fn is_due(&self, conversation: &Self::Conversation, rules: &Rules) -> bool;

    /// Returns the position at which an interrupted run stopped.
    fn interrupted_at(&self) -> Option<Self::Position>;

    /// Records the position of the run; `None` at the end.
    fn note_position(&mut self, position: Option<Self::Position>);

    /// Records the number of conversations that a complete run visited.
    fn note_conversation_count(&mut self, count: u64);

    /// Returns the oldest messages above `after` that are old enough, if they make a segment.
    /// `None` if nothing is due, or if a restore keeps the conversation hot. Errors with damage if
    /// a row cannot be read.
    async fn plan(
        &mut self,
        conversation: &Self::Conversation,
        after: Seq,
        rules: &Rules,
    ) -> Result<Option<SegmentPlan<Self::Run>>, ArchiveError>;

    /// Returns a revision for objects that this job puts. No object that an earlier job put, for
    /// the same range but with other content, has this revision. Objects of one range that one job
    /// puts have different revisions or equal content.
    async fn new_revision(&mut self, id: ConversationId) -> Result<u32, ArchiveError>;

    /// Makes the rows refer to the object, each only if it is unchanged. All rows change in one
    /// transaction, or each row on its own. The object is complete and durable.
    async fn flip(
        &mut self,
        rows: Self::Run,
        name: &SegmentName,
        layout: &SegmentLayout,
    ) -> Result<Flip, ArchiveError>;

    fn is_time_to_sweep(&self) -> bool;

    /// Records the end of a run, and why it ended early. Logs an error.
    async fn remember(&mut self, paused: Option<String>);

    /// Returns the disk space of moved messages, and then removes erased content from all files.
    /// Returns the size of the table file in bytes, or zero if the store has none.
    async fn free_space(&mut self, progress: &dyn Progress) -> Result<u64, ArchiveError>;

    // Erasing.

    /// Returns the newest durable seq.
    async fn head(&mut self, id: ConversationId) -> Result<Seq, ArchiveError>;

    /// Makes the request durable.
    async fn accept(&mut self, scope: ErasureScope) -> Result<Self::Request, ArchiveError>;

    fn scope_of(request: &Self::Request) -> ErasureScope;

    /// Returns the requests whose search has not ended.
    async fn requests(&mut self) -> Result<Vec<Self::Request>, ArchiveError>;

    /// Waits until a search finds all content that was acknowledged before the call, previews
    /// included.
    async fn settle(&mut self) -> Result<(), ArchiveError>;

    /// Searches one conversation. Changes nothing.
    async fn find(
        &mut self,
        id: ConversationId,
        scope: &ErasureScope,
    ) -> Result<Search<Self::Erasure>, ArchiveError>;

    /// Makes the erasure records durable, then deletes the request. A crash in between leaves both.
    async fn note(&mut self, request: &Self::Request, found: Vec<Self::Erasure>) -> Result<(), ArchiveError>;

    /// Returns the durable erasure records.
    async fn erasures(&mut self) -> Result<Vec<Self::Erasure>, ArchiveError>;

    fn conversation_of(erasure: &Self::Erasure) -> ConversationId;

    fn sender_of(erasure: &Self::Erasure) -> Option<&UserId>;

    fn through_of(erasure: &Self::Erasure) -> Seq;

    /// Returns whether all content is erased, and only a later check remains.
    fn is_erased(erasure: &Self::Erasure) -> bool;

    /// Called before the first row of a conversation changes. Objects that are put later have names
    /// that no object with the erased content has.
    async fn begin_erasure(&mut self, id: ConversationId) -> Result<(), ArchiveError>;

    /// Erases in rows and previews, without the object archive. Idempotent. Returns the number of
    /// erased messages. Continues past a damaged row and returns its error at the end.
    async fn erase_in_rows(&mut self, erasure: &Self::Erasure, reason: Reason) -> Result<u64, ArchiveError>;

    /// Returns whether the conversation may have objects.
    async fn has_objects(&mut self, id: ConversationId) -> Result<bool, ArchiveError>;

    /// Returns the objects of the conversation, each with its size in bytes.
    async fn objects(&mut self, id: ConversationId) -> Result<Vec<(SegmentName, u64)>, ArchiveError>;

    /// Returns the effect of the erasure on one object. Called after
    /// [`erase_in_rows`](ArchiveRows::erase_in_rows). Changes nothing.
    async fn erasure_effect(
        &mut self,
        name: &SegmentName,
        erasure: &Self::Erasure,
    ) -> Result<ErasureEffect<Self::Segment>, ArchiveError>;

    /// Makes the rows refer to the object no longer. None of its content remains. `bytes` is the
    /// size of the object.
    async fn drop_content(&mut self, segment: &Self::Segment, bytes: u64) -> Result<(), ArchiveError>;

    /// Reads the records that remain. An empty `object` stands for one that cannot be read. Changes
    /// nothing.
    async fn salvage(
        &mut self,
        name: &SegmentName,
        segment: Self::Segment,
        erasure: &Self::Erasure,
        object: Bytes,
    ) -> Result<Salvaged<Self::Salvage>, ArchiveError>;

    /// Makes the rows refer to the rewritten object, which is complete and durable. Errors if a row
    /// has changed since it was read. `old_bytes` is the size of the old object. Returns the rows
    /// that [`retire`](ArchiveRows::retire) needs for the old object.
    async fn flip_rewritten(
        &mut self,
        rows: Self::Salvage,
        name: &SegmentName,
        layout: &SegmentLayout,
        old_bytes: u64,
    ) -> Result<Self::Segment, ArchiveError>;

    /// Completes the record: deletes it, or keeps it for a [`recheck`](ArchiveRows::recheck).
    async fn finish_erasure(&mut self, erasure: &Self::Erasure) -> Result<(), ArchiveError>;

    /// Erases again what a slow node may have written after the erasure, once enough time has
    /// passed, and deletes the record.
    async fn recheck(&mut self, erasure: &Self::Erasure) -> Result<(), ArchiveError>;

    /// Removes erased content from all files. Returns whether a file may have held any.
    async fn clean_up(&mut self, progress: &dyn Progress) -> Result<bool, ArchiveError>;
}

/// The result of [`ArchiveRows::put_back`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutBack {
    /// The number of rows that have their content again.
    pub messages: u64,
    /// Whether no row refers to the object any more.
    pub is_complete: bool,
}
