//! The cold tier: where old messages go, and what an operator does with it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use thiserror::Error;

use crate::{ConversationId, Seq, StoreError, Timestamp, UserId};

/// Moves old messages out of the hot store and back. Readers see no difference: [`Store::page`](super::Store::page)
/// serves both. Every job can be stopped at any moment, by a crash too, and done again: nothing is lost, nothing
/// happens twice, and what a job left behind is swept by the next run. One job runs at a time; another one is refused
/// with [`ArchiveError::Busy`].
#[async_trait]
pub trait Archive: Send + Sync + 'static {
    /// What lies where, at little cost.
    async fn status(&self) -> Result<ArchiveStatus, ArchiveError>;

    /// Finishes erasures that were interrupted, erases what is past its retention, moves what is old enough, sweeps
    /// what nobody refers to, and gives the space back.
    async fn run(&self, request: ArchiveRun, progress: Arc<dyn Progress>) -> Result<RunReport, ArchiveError>;

    /// Reads every segment and compares it with the rows, counts and checksums.
    async fn verify(&self, progress: Arc<dyn Progress>) -> Result<VerifyReport, ArchiveError>;

    /// Brings a conversation back to the hot store, where it stays until a run names it; `None`: all that lie in the
    /// archive. One of which nothing came back goes on as before.
    async fn restore(
        &self,
        conversation: Option<ConversationId>,
        progress: Arc<dyn Progress>,
    ) -> Result<RestoreReport, ArchiveError>;

    /// Deletes the content of messages for good, hot and cold alike. The places stay, with who wrote when: a message
    /// without its content, of the type `erased`. When it returns, no call returns the content any
    /// more, and no file of an embedded store holds it.
    ///
    /// The request is durable before the first call of `progress`. From then on it survives a
    /// crash, and the next [`Archive::run`] finishes it.
    async fn erase(&self, erase: Erase, progress: Arc<dyn Progress>) -> Result<EraseReport, ArchiveError>;

    /// Writes everything there is at one moment to another place, from which it can be restored, and reads it back.
    /// Writers go on meanwhile. What lies in the archive is referred to and not copied.
    async fn backup(
        &self,
        _backup: Backup,
        _progress: Arc<dyn Progress>,
    ) -> Result<BackupReport, ArchiveError> {
        Err(ArchiveError::Refused("a backup is made of the embedded store; tables have their own".to_owned()))
    }

    /// Counters for metrics, without touching the disk.
    fn counters(&self) -> ArchiveCounters;
}

/// Told how far a job has come. Called often; must be quick.
pub trait Progress: Send + Sync + 'static {
    fn advanced(&self, stage: Stage, done: u64, total: u64);
}

/// For whoever does not look.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn advanced(&self, _stage: Stage, _done: u64, _total: u64) {}
}

/// What a job is at. What is counted is said with each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Conversations looked through.
    Moving,
    /// Objects looked at.
    Sweeping,
    /// Bytes of tables written anew.
    Compacting,
    /// Segments read.
    Verifying,
    /// Segments brought back.
    Restoring,
    /// Conversations gone through.
    Erasing,
    /// Bytes of rows and log copied.
    Copying,
    /// Parts of a backup read back.
    ReadingBack,
    /// Rows looked through.
    Checking,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveRun {
    /// This conversation alone, also where it was brought back to stay.
    pub only: Option<ConversationId>,
    /// Also what does not fill a segment yet.
    pub partial: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Erase {
    pub scope: EraseScope,
    /// Only up to here; `None`: all there is when the call is made.
    pub through: Option<Seq>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EraseScope {
    /// Everything anybody wrote there.
    Conversation(ConversationId),
    /// What one user wrote, in one conversation or in all.
    User { user: UserId, conversation: Option<ConversationId> },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveStatus {
    /// Where segments go, in words; empty when the archive is off.
    pub place: String,
    pub cold: ColdCount,
    /// What the tables take on the disk, and how much of that is free for reuse.
    pub hot_file_bytes: u64,
    pub hot_free_bytes: u64,
    /// Conversations that were brought back to stay.
    pub kept_hot: u64,
    /// Erasures that were accepted and are not finished: interrupted, waiting for the object store,
    /// or with content left in files.
    pub unfinished_erasures: u64,
}

/// What lies in the archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ColdCount {
    pub segments: u64,
    pub messages: u64,
    /// In the object store.
    pub bytes: u64,
    /// Before compression.
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
    /// One sentence for each segment that is not as it should be, naming it.
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// A directory, or `s3://bucket/prefix`. Nothing may be there yet.
    pub to: String,
    /// Whether the keys that the server made for itself go along; `None`: into a directory, and not into a bucket.
    pub keys: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupReport {
    pub place: String,
    pub accounts: u64,
    pub conversations: u64,
    pub messages: u64,
    /// Of these, those whose content lies in the archive, which is not copied.
    pub archived_messages: u64,
    pub objects: u64,
    pub bytes: u64,
    pub with_keys: bool,
    /// Rows that were damaged before they were copied, and still are.
    pub damaged_rows: u64,
    pub took: Duration,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveCounters {
    pub moved_messages: u64,
    pub moved_segments: u64,
    /// Requests for a part of a segment, and how many of them were answered from memory or shared with one under way.
    pub frame_reads: u64,
    pub frame_reads_from_memory: u64,
    pub fetches: u64,
    pub fetched_bytes: u64,
    pub failed_fetches: u64,
    pub damaged_frames: u64,
    pub runs: u64,
    pub failed_runs: u64,
    /// Why the last run stopped before its end; `None` when it did not.
    pub paused: Option<String>,
    pub last_run_at: Option<Timestamp>,
}

#[derive(Clone, Debug, Error)]
pub enum ArchiveError {
    #[error("the archive is off; set archive.engine to \"directory\" or \"s3\"")]
    Off,
    #[error("another job of the archive is under way")]
    Busy,
    #[error("no such conversation")]
    NoSuchConversation,
    /// The object store does not answer, or refuses. What was done so far stays; the same job can be given again.
    #[error("the object store cannot be used now: {0}")]
    Unavailable(String),
    /// A segment is not what was written. It is left as it is.
    #[error("the archive is damaged: {0}")]
    Damaged(String),
    /// What was asked for cannot be done, for a reason that will stay.
    #[error("{0}")]
    Refused(String),
    #[error("stopped, because the store is closing")]
    Stopped,
    #[error(transparent)]
    Store(#[from] StoreError),
}
