//! The archive port: moving old messages to cold storage, and the operator's jobs on it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use thiserror::Error;

use crate::{ConversationId, Seq, StoreError, Timestamp, UserId};

/// Moves old messages from the hot store to the archive and back. Readers see no difference:
/// [`Store::page`](super::Store::page) serves both.
///
/// Every job can be interrupted at any time, including by a crash, and run again. It loses no
/// message and applies no change twice; the next run sweeps its leftovers. Only one job runs at a
/// time. A second one fails with [`ArchiveError::Busy`].
#[async_trait]
pub trait Archive: Send + Sync + 'static {
    /// Returns the size and the state of the archive, without a request to the object store.
    async fn status(&self) -> Result<ArchiveStatus, ArchiveError>;

    /// Finishes interrupted erasures, erases messages past their retention, and moves messages that
    /// are old enough. Then it sweeps unreferenced objects and frees disk space.
    async fn run(&self, request: ArchiveRun, progress: Arc<dyn Progress>) -> Result<RunReport, ArchiveError>;

    /// Reads every segment and compares it with its rows, counts and checksums.
    async fn verify(&self, progress: Arc<dyn Progress>) -> Result<VerifyReport, ArchiveError>;

    /// Moves a conversation back to the hot store, where it stays until a run names it; `None`
    /// restores all archived conversations. A named conversation without segments is kept hot as
    /// well. A conversation whose segments all fail to restore is not.
    async fn restore(
        &self,
        conversation: Option<ConversationId>,
        progress: Arc<dyn Progress>,
    ) -> Result<RestoreReport, ArchiveError>;

    /// Erases the content of messages permanently, hot and archived alike. Each message keeps its
    /// seq, sender and times, and gets the content type `erased`. After the call returns, no API
    /// returns the content, and no file of an embedded store contains it.
    ///
    /// The request is durable before the first call of `progress`. From then on it survives a
    /// crash, and the next [`Archive::run`] finishes it.
    async fn erase(&self, erase: Erase, progress: Arc<dyn Progress>) -> Result<EraseReport, ArchiveError>;

    /// Writes a snapshot of the store to another destination, from which it can be restored, and
    /// verifies it. Writes continue meanwhile. The snapshot references archived content and does
    /// not copy it.
    ///
    /// Fails with [`ArchiveError::Refused`] for stores without backup support.
    async fn backup(
        &self,
        _backup: Backup,
        _progress: Arc<dyn Progress>,
    ) -> Result<BackupReport, ArchiveError> {
        Err(ArchiveError::Refused("this store has no backup; use the backup of its database".to_owned()))
    }

    /// Returns counters for metrics, without reading the disk.
    fn counters(&self) -> ArchiveCounters;
}

/// Receives the progress of a job. Jobs call it often, so an implementation must not block.
pub trait Progress: Send + Sync + 'static {
    fn advanced(&self, stage: Stage, done: u64, total: u64);
}

/// Ignores all progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn advanced(&self, _stage: Stage, _done: u64, _total: u64) {}
}

/// The stage of a job. Each variant documents the unit that [`Progress::advanced`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Conversations examined.
    Moving,
    /// Objects examined.
    Sweeping,
    /// Bytes of tables rewritten.
    Compacting,
    /// Segments read.
    Verifying,
    /// Segments restored.
    Restoring,
    /// Conversations processed.
    Erasing,
    /// Bytes of rows and log copied.
    Copying,
    /// Parts of a backup verified.
    ReadingBack,
    /// Rows examined.
    Checking,
}

/// The scope of an archive run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveRun {
    /// Archive only this conversation, even if a restore keeps it hot.
    pub only: Option<ConversationId>,
    /// Also archive messages that do not fill a segment yet.
    pub partial: bool,
}

/// A request to erase content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Erase {
    pub scope: EraseScope,
    /// Erase only up to this seq; `None` erases up to the head at the time of the call.
    pub through: Option<Seq>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EraseScope {
    /// All messages of a conversation.
    Conversation(ConversationId),
    /// All messages of one user, in one conversation or in all.
    User { user: UserId, conversation: Option<ConversationId> },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveStatus {
    /// The destination of segments, for display. Empty when the archive is disabled.
    pub place: String,
    pub cold: ColdCount,
    /// The size of the table file on disk, in bytes.
    pub hot_file_bytes: u64,
    /// The part of `hot_file_bytes` that is free for reuse.
    pub hot_free_bytes: u64,
    /// The number of conversations that a restore keeps hot.
    pub kept_hot: u64,
    /// The number of accepted erasures that are not finished: interrupted, waiting for the object
    /// store, or with content left in files.
    pub unfinished_erasures: u64,
}

/// The amount of archived data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ColdCount {
    pub segments: u64,
    pub messages: u64,
    /// Compressed size in the object store.
    pub bytes: u64,
    /// Size before compression.
    pub raw_bytes: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunReport {
    pub conversations: u64,
    pub moved: ColdCount,
    pub erased_messages: u64,
    pub orphans_swept: u64,
    pub hot_file_bytes_before: u64,
    pub hot_file_bytes_after: u64,
    pub took: Duration,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    pub checked: ColdCount,
    /// One message for each faulty segment, with the segment's name.
    pub problems: Vec<String>,
    pub took: Duration,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreReport {
    pub segments: u64,
    pub messages: u64,
    pub took: Duration,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EraseReport {
    pub conversations: u64,
    pub messages: u64,
    pub segments_rewritten: u64,
    pub segments_deleted: u64,
    pub took: Duration,
}

/// A request for a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// A directory, or `s3://bucket/prefix`. It must be empty.
    pub to: String,
    /// Whether the backup includes the keys that the server generated. `None` includes them in a
    /// directory, but not in a bucket.
    pub keys: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupReport {
    pub place: String,
    pub accounts: u64,
    pub conversations: u64,
    pub messages: u64,
    /// The part of `messages` whose content is in the archive and is not copied.
    pub archived_messages: u64,
    pub objects: u64,
    pub bytes: u64,
    pub with_keys: bool,
    /// Damaged rows in the store, which the backup copied as they are.
    pub damaged_rows: u64,
    pub took: Duration,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveCounters {
    pub moved_messages: u64,
    pub moved_segments: u64,
    /// Requests for a block of a segment.
    pub frame_reads: u64,
    /// The part of `frame_reads` that the cache or a fetch in progress answered.
    pub frame_reads_from_memory: u64,
    pub fetches: u64,
    pub fetched_bytes: u64,
    pub failed_fetches: u64,
    pub damaged_frames: u64,
    pub runs: u64,
    pub failed_runs: u64,
    /// Why the last run ended early; `None` if it completed.
    pub paused: Option<String>,
    pub last_run_at: Option<Timestamp>,
}

#[derive(Clone, Debug, Error)]
pub enum ArchiveError {
    #[error("the archive is off; set archive.engine to \"directory\" or \"s3\"")]
    Off,
    #[error("another archive job is running")]
    Busy,
    #[error("no such conversation")]
    NoSuchConversation,
    /// The object store does not answer, or rejects requests. Completed work stays; the same job
    /// can be run again.
    #[error("the object store cannot be used now: {0}")]
    Unavailable(String),
    /// A segment does not match what was written. The job leaves it unchanged.
    #[error("the archive is damaged: {0}")]
    Damaged(String),
    /// The request cannot be done, and a retry does not help.
    #[error("{0}")]
    Refused(String),
    #[error("stopped, because the store is closing")]
    Stopped,
    #[error(transparent)]
    Store(#[from] StoreError),
}
