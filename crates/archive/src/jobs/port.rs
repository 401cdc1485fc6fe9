//! The port between the job engine and a store.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use bluetick_core::ports::{ArchiveError, ColdCount};
use bluetick_core::{ConversationId, Seq, Timestamp};

use crate::segment::Opened;
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

/// Which conversations a job visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    All,
    /// The conversations that may have objects. A store may return others too.
    Archived,
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

    /// Returns the id of the store in object names.
    fn store(&self) -> [u8; 8];

    fn settings(&self) -> &ArchiveSettings;

    fn now(&self) -> Timestamp;

    /// Returns the object archive; `None` if the settings name none.
    fn object_archive(&self) -> Option<&Arc<ObjectArchive>>;

    /// Called between two steps, and often enough that a lease does not end. Errors with `Stopped`
    /// or `Busy` if the job must end. A test can stop the job at a named step.
    async fn proceed(&mut self, step: Option<ArchiveStep>) -> Result<(), ArchiveError>;

    /// Deletes an object. The caller has called [`retire`](ArchiveRows::retire) before. A request
    /// that was sent runs to its end before the next job begins, even if this job is dropped.
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
        visit: Visit,
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
        opened: &Arc<Opened>,
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
        opened: &Arc<Opened>,
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
    /// sighting, and returns `false` until a grace period has ended: a node that lost its lease may
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

    /// Erases everything up to `through`. With `rows_only`, does not use the object archive, and a
    /// later call finds the same range. Otherwise records the range as expired. Returns the number of
    /// erased messages.
    async fn expire_through(
        &mut self,
        conversation: &Self::Conversation,
        through: Seq,
        rows_only: bool,
    ) -> Result<u64, ArchiveError>;
}

/// The result of [`ArchiveRows::put_back`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutBack {
    /// The number of rows that have their content again.
    pub messages: u64,
    /// Whether no row refers to the object any more.
    pub is_complete: bool,
}
