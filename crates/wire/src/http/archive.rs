//! Requests and reports of the archive, of erasures and of backups. The command line also decodes
//! these types, from a running server, so they own their data.

use std::time::Duration;

use bluetick_core::ports::{
    ArchiveCounters, ArchiveRun, ArchiveStatus, Backup, BackupReport, ColdCount, Erase, EraseReport,
    EraseScope, RestoreReport, RunReport, Stage, VerifyReport,
};
use bluetick_core::{ConversationId, Seq, Timestamp, UserId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::BadInput;

/// The state of the archive and its jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "place": "directory /var/lib/bluetick/archive", "engine_on": true,
    "cold": {"segments": 12, "messages": 11842, "bytes": 1204224, "raw_bytes": 5659853},
    "hot_file_bytes": 50331648, "hot_free_bytes": 12582912, "kept_hot": 0, "unfinished_erasures": 0,
    "paused": null, "last_run_at": 1767225600000i64, "job": null, "last_job": null,
}))]
pub struct ArchiveBody {
    /// The destination of segments, for display. Empty if the archive is disabled.
    pub place: String,
    /// Whether the archive is enabled.
    pub engine_on: bool,
    /// The amount of archived data.
    pub cold: ColdBody,
    /// The size of the table file on disk, in bytes.
    pub hot_file_bytes: u64,
    /// The part of `hot_file_bytes` that is free for reuse, in bytes.
    pub hot_free_bytes: u64,
    /// The number of conversations that a restore keeps out of the archive.
    pub kept_hot: u64,
    /// The number of accepted erasures that are not finished. The server retries them at its next
    /// scheduled run and at its next start.
    pub unfinished_erasures: u64,
    /// Why the last run stopped early; null if it did not.
    #[schema(required)]
    pub paused: Option<String>,
    /// The time of the last run, in milliseconds since the Unix epoch; null if there was none.
    #[schema(required)]
    pub last_run_at: Option<i64>,
    /// The running job; null if there is none.
    #[schema(required)]
    pub job: Option<JobBody>,
    /// The job that ended last; null if none has ended since the server started.
    #[schema(required)]
    pub last_job: Option<JobBody>,
}

impl ArchiveBody {
    pub fn new(
        status: ArchiveStatus,
        counters: ArchiveCounters,
        job: Option<JobBody>,
        last_job: Option<JobBody>,
    ) -> ArchiveBody {
        ArchiveBody {
            engine_on: !status.place.is_empty(),
            place: status.place,
            cold: status.cold.into(),
            hot_file_bytes: status.hot_file_bytes,
            hot_free_bytes: status.hot_free_bytes,
            kept_hot: status.kept_hot,
            unfinished_erasures: status.unfinished_erasures,
            paused: counters.paused,
            last_run_at: counters.last_run_at.map(Timestamp::millis),
            job,
            last_job,
        }
    }
}

/// An amount of archived data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ColdBody {
    /// The number of segments.
    pub segments: u64,
    /// The number of messages in the segments.
    pub messages: u64,
    /// The compressed size in the object store, in bytes.
    pub bytes: u64,
    /// The size before compression, in bytes.
    pub raw_bytes: u64,
}

impl From<ColdCount> for ColdBody {
    fn from(count: ColdCount) -> ColdBody {
        let ColdCount { segments, messages, bytes, raw_bytes } = count;
        ColdBody { segments, messages, bytes, raw_bytes }
    }
}

/// A running or ended job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "job_id": "1767225600000-1", "kind": "restore", "stage": "restoring", "done": 3, "total": 3,
    "started_at": 1767225600000i64, "finished_at": 1767225600420i64, "error": null,
    "report": {"segments": 3, "messages": 2950, "took_ms": 420},
}))]
pub struct JobBody {
    /// The id of the job.
    pub job_id: String,
    /// The kind of the job.
    pub kind: JobKind,
    /// The current stage; null before the first one.
    #[schema(required)]
    pub stage: Option<StageBody>,
    /// How much of the current stage is done, in the unit of the stage.
    pub done: u64,
    /// The size of the current stage as far as it is known, in the unit of the stage.
    pub total: u64,
    /// When the job started, in milliseconds since the Unix epoch.
    pub started_at: i64,
    /// When the job ended, in milliseconds since the Unix epoch; null while it runs.
    #[schema(required)]
    pub finished_at: Option<i64>,
    /// Why the job failed; null if it did not. Completed work is kept, and the same job can be
    /// started again.
    #[schema(required)]
    pub error: Option<String>,
    /// The result of the job; null unless it succeeded.
    #[schema(required)]
    pub report: Option<ReportBody>,
}

/// The kind of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    Run,
    Verify,
    Restore,
    Erase,
    Backup,
}

/// The stage of a job, which sets the unit of `done` and `total`:
///
/// - `moving`, `erasing`: conversations.
/// - `sweeping`: objects.
/// - `compacting`, `copying`: bytes of tables.
/// - `verifying`, `restoring`: segments.
/// - `reading_back`: parts of a backup.
/// - `checking`: rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StageBody {
    Moving,
    Sweeping,
    Compacting,
    Verifying,
    Restoring,
    Erasing,
    Copying,
    ReadingBack,
    Checking,
}

impl From<Stage> for StageBody {
    fn from(stage: Stage) -> StageBody {
        match stage {
            Stage::Moving => StageBody::Moving,
            Stage::Sweeping => StageBody::Sweeping,
            Stage::Compacting => StageBody::Compacting,
            Stage::Verifying => StageBody::Verifying,
            Stage::Restoring => StageBody::Restoring,
            Stage::Erasing => StageBody::Erasing,
            Stage::Copying => StageBody::Copying,
            Stage::ReadingBack => StageBody::ReadingBack,
            Stage::Checking => StageBody::Checking,
        }
    }
}

/// The result of a job. Its shape depends on the kind of the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum ReportBody {
    Backup(BackupReportBody),
    Run(RunReportBody),
    Verify(VerifyReportBody),
    Erase(EraseReportBody),
    Restore(RestoreReportBody),
}

/// The result of an archive run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunReportBody {
    /// The number of conversations from which messages were moved.
    pub conversations: u64,
    /// The amount of data moved to the archive.
    pub moved: ColdBody,
    /// The number of messages erased: past their retention, or left from an interrupted erasure.
    pub erased_messages: u64,
    /// The number of unreferenced objects that were deleted.
    pub orphans_swept: u64,
    /// The size of the table file before the run, in bytes.
    pub hot_file_bytes_before: u64,
    /// The size of the table file after the run, in bytes.
    pub hot_file_bytes_after: u64,
    /// The duration of the job, in milliseconds.
    pub took_ms: u64,
}

/// The result of a verification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VerifyReportBody {
    /// The amount of data checked.
    pub checked: ColdBody,
    /// The number of problems found.
    pub problem_count: u64,
    /// One sentence per problem, at most 1,000.
    pub problems: Vec<String>,
    /// The duration of the job, in milliseconds.
    pub took_ms: u64,
}

impl VerifyReportBody {
    /// Maximum number of entries in `problems`. It bounds the size of the response.
    pub const MAX_PROBLEMS: usize = 1_000;
}

/// The result of a restore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RestoreReportBody {
    /// The number of segments restored.
    pub segments: u64,
    /// The number of messages restored.
    pub messages: u64,
    /// The duration of the job, in milliseconds.
    pub took_ms: u64,
}

/// The result of an erasure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EraseReportBody {
    /// The number of conversations with erased messages.
    pub conversations: u64,
    /// The number of messages erased.
    pub messages: u64,
    /// The number of segments that were rewritten without the erased content.
    pub segments_rewritten: u64,
    /// The number of segments that were deleted.
    pub segments_deleted: u64,
    /// The duration of the job, in milliseconds.
    pub took_ms: u64,
}

/// The result of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BackupReportBody {
    /// The location of the backup.
    pub place: String,
    /// The number of accounts.
    pub accounts: u64,
    /// The number of conversations.
    pub conversations: u64,
    /// The number of messages.
    pub messages: u64,
    /// The part of `messages` whose content is in the archive. The backup does not copy that
    /// content.
    pub archived_messages: u64,
    /// The number of parts, including the manifest.
    pub objects: u64,
    /// The size of the backup, in bytes.
    pub bytes: u64,
    /// Whether the backup includes the keys that the server generated.
    pub with_keys: bool,
    /// The number of rows that were already damaged in the store. `bluetick check` lists them.
    pub damaged_rows: u64,
    /// The duration of the job, in milliseconds.
    pub took_ms: u64,
}

impl From<BackupReport> for ReportBody {
    fn from(report: BackupReport) -> ReportBody {
        ReportBody::Backup(BackupReportBody {
            place: report.place,
            accounts: report.accounts,
            conversations: report.conversations,
            messages: report.messages,
            archived_messages: report.archived_messages,
            objects: report.objects,
            bytes: report.bytes,
            with_keys: report.with_keys,
            damaged_rows: report.damaged_rows,
            took_ms: millis(report.took),
        })
    }
}

/// A request for a backup.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"to": "/var/backups/bluetick/monday"}))]
pub struct BackupRequest {
    /// The destination: the absolute path of a directory on the server, or `s3://bucket/prefix`. 1
    /// to 1,024 bytes. It must be empty.
    #[schema(min_length = 1, max_length = 1024)]
    pub to: String,
    /// Whether to include the keys that the server generated. Default: true for a directory, false
    /// for a bucket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<bool>,
}

impl BackupRequest {
    /// Upper bound on the destination, in bytes. It bounds the size of an audit entry.
    const MAX_BYTES: usize = 1024;

    pub fn backup(&self) -> Result<Backup, BadInput> {
        if self.to.is_empty() || self.to.len() > BackupRequest::MAX_BYTES {
            return Err(BadInput::field("to", "must have 1 to 1024 bytes"));
        }
        Ok(Backup { to: self.to.clone(), keys: self.keys })
    }
}

fn millis(took: Duration) -> u64 {
    u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
}

impl From<RunReport> for ReportBody {
    fn from(report: RunReport) -> ReportBody {
        ReportBody::Run(RunReportBody {
            conversations: report.conversations,
            moved: report.moved.into(),
            erased_messages: report.erased_messages,
            orphans_swept: report.orphans_swept,
            hot_file_bytes_before: report.hot_file_bytes_before,
            hot_file_bytes_after: report.hot_file_bytes_after,
            took_ms: millis(report.took),
        })
    }
}

impl From<VerifyReport> for ReportBody {
    fn from(report: VerifyReport) -> ReportBody {
        let mut problems = report.problems;
        let problem_count = problems.len() as u64;
        problems.truncate(VerifyReportBody::MAX_PROBLEMS);
        let took_ms = millis(report.took);
        ReportBody::Verify(VerifyReportBody {
            checked: report.checked.into(),
            problem_count,
            problems,
            took_ms,
        })
    }
}

impl From<RestoreReport> for ReportBody {
    fn from(report: RestoreReport) -> ReportBody {
        let RestoreReport { segments, messages, took } = report;
        ReportBody::Restore(RestoreReportBody { segments, messages, took_ms: millis(took) })
    }
}

impl From<EraseReport> for ReportBody {
    fn from(report: EraseReport) -> ReportBody {
        ReportBody::Erase(EraseReportBody {
            conversations: report.conversations,
            messages: report.messages,
            segments_rewritten: report.segments_rewritten,
            segments_deleted: report.segments_deleted,
            took_ms: millis(report.took),
        })
    }
}

/// A started job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"job_id": "1767225600000-1"}))]
pub struct JobBegunBody {
    /// The id of the job, for `GET /v1/archive/jobs/{job_id}`.
    pub job_id: String,
}

/// The scope of an archive run. Default: all messages that are old enough.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"partial": true}))]
pub struct ArchiveRunRequest {
    /// Archive only this conversation, even if a restore keeps it out of the archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[dg][0-9a-hjkmnp-tv-z]{24}$")]
    pub conversation_id: Option<String>,
    /// Whether to archive messages that do not fill a segment yet. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<bool>,
}

impl ArchiveRunRequest {
    pub fn run(&self) -> Result<ArchiveRun, BadInput> {
        let only = self.conversation_id.as_deref().map(parse_conversation).transpose()?;
        Ok(ArchiveRun { only, partial: self.partial.unwrap_or_default() })
    }
}

/// The scope of a restore: either `conversation_id` or `all`, not both.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"conversation_id": "d0123456789abcdefghjkmnpq"}))]
pub struct RestoreRequest {
    /// Restore only this conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[dg][0-9a-hjkmnp-tv-z]{24}$")]
    pub conversation_id: Option<String>,
    /// True restores all archived conversations, which empties the archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all: Option<bool>,
}

impl RestoreRequest {
    /// Returns the conversation to restore, or `None` for all.
    pub fn conversation(&self) -> Result<Option<ConversationId>, BadInput> {
        match (&self.conversation_id, self.all.unwrap_or_default()) {
            (Some(id), false) => parse_conversation(id).map(Some),
            (None, true) => Ok(None),
            _ => Err(BadInput::new("either conversation_id or all is needed, and not both")),
        }
    }
}

/// The scope of an erasure: all messages of a conversation, all messages of a user, or with both
/// fields the messages of that user in that conversation.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"conversation_id": "d0123456789abcdefghjkmnpq", "through_seq": 480}))]
pub struct ErasureRequest {
    /// Erase messages of this conversation only. Required unless `user_id` is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[dg][0-9a-hjkmnp-tv-z]{24}$")]
    pub conversation_id: Option<String>,
    /// Erase messages from this sender only. Required unless `conversation_id` is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 128, pattern = r"^\S+$")]
    pub user_id: Option<String>,
    /// Erase only up to this seq, which needs `conversation_id`. Default: the head at the time of
    /// the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub through_seq: Option<u64>,
}

impl ErasureRequest {
    pub fn erase(&self) -> Result<Erase, BadInput> {
        let conversation = self.conversation_id.as_deref().map(parse_conversation).transpose()?;
        // Earlier versions accepted ids that today's rules refuse. Their messages must be erasable
        // too.
        let user = self.user_id.as_deref().map(UserId::from_stored).transpose();
        let user = user.map_err(|invalid| BadInput::field("user_id", invalid))?;
        let scope = match (user, conversation) {
            (Some(user), conversation) => EraseScope::User { user, conversation },
            (None, Some(conversation)) => EraseScope::Conversation(conversation),
            (None, None) => {
                return Err(BadInput::new("either conversation_id or user_id is needed, or both"));
            }
        };
        let through = match self.through_seq {
            Some(_) if conversation.is_none() => {
                return Err(BadInput::field("through_seq", "requires conversation_id"));
            }
            Some(seq) if !(1..=Seq::MAX.get()).contains(&seq) => {
                let most = Seq::MAX.get();
                return Err(BadInput::field(
                    "through_seq",
                    format_args!("must be a whole number from 1 to {most}"),
                ));
            }
            through => through.map(Seq::new),
        };
        Ok(Erase { scope, through })
    }
}

fn parse_conversation(text: &str) -> Result<ConversationId, BadInput> {
    text.parse().map_err(|invalid| BadInput::field("conversation_id", invalid))
}
