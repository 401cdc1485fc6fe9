//! What the operator asks of the archive, and what it says of itself. Also read back, by the command line that asks a
//! running server, so these are whole in themselves and borrow nothing.

use std::time::Duration;

use bluetick_core::ports::{
    ArchiveCounters, ArchiveRun, ArchiveStatus, Backup, BackupReport, ColdCount, Erase, EraseReport,
    EraseScope, RestoreReport, RunReport, Stage, VerifyReport,
};
use bluetick_core::{ConversationId, Seq, Timestamp, UserId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::BadInput;

/// What lies where, and what is being done about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "place": "directory /var/lib/bluetick/archive", "engine_on": true,
    "cold": {"segments": 12, "messages": 11842, "bytes": 1204224, "raw_bytes": 5659853},
    "hot_file_bytes": 50331648, "hot_free_bytes": 12582912, "kept_hot": 0, "unfinished_erasures": 0,
    "paused": null, "last_run_at": 1767225600000i64, "job": null, "last_job": null,
}))]
pub struct ArchiveBody {
    /// Where segments go, in words; empty when the archive is off.
    pub place: String,
    /// Whether there is an archive to move messages to.
    pub engine_on: bool,
    pub cold: ColdBody,
    /// What the tables take on the disk.
    pub hot_file_bytes: u64,
    /// How much of that is free for reuse.
    pub hot_free_bytes: u64,
    /// Conversations that were brought back to stay.
    pub kept_hot: u64,
    /// Erasures that were accepted and are not finished: the server tries again at its next
    /// scheduled run and at its next start.
    pub unfinished_erasures: u64,
    /// Why the last run stopped before its end; null when it did not.
    #[schema(required)]
    pub paused: Option<String>,
    /// Milliseconds since the Unix epoch.
    #[schema(required)]
    pub last_run_at: Option<i64>,
    /// The job that is under way.
    #[schema(required)]
    pub job: Option<JobBody>,
    /// The job that ended last, since the server was started.
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

/// What lies in the archive, or was moved there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ColdBody {
    pub segments: u64,
    pub messages: u64,
    /// In the object store.
    pub bytes: u64,
    /// Before compression.
    pub raw_bytes: u64,
}

impl From<ColdCount> for ColdBody {
    fn from(count: ColdCount) -> ColdBody {
        let ColdCount { segments, messages, bytes, raw_bytes } = count;
        ColdBody { segments, messages, bytes, raw_bytes }
    }
}

/// A job of the archive, from its start on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "job_id": "1767225600000-1", "kind": "restore", "stage": "restoring", "done": 3, "total": 3,
    "started_at": 1767225600000i64, "finished_at": 1767225600420i64, "error": null,
    "report": {"segments": 3, "messages": 2950, "took_ms": 420},
}))]
pub struct JobBody {
    pub job_id: String,
    pub kind: JobKind,
    /// What it is at; null before it has begun.
    #[schema(required)]
    pub stage: Option<StageBody>,
    /// How far it has come in this stage.
    pub done: u64,
    /// How much there is in this stage, as far as that is known.
    pub total: u64,
    /// Milliseconds since the Unix epoch.
    pub started_at: i64,
    /// Milliseconds since the Unix epoch; null while it is under way.
    #[schema(required)]
    pub finished_at: Option<i64>,
    /// Why it ended before it was done. What it did so far stays; the same job can be given again.
    #[schema(required)]
    pub error: Option<String>,
    /// What it did; null unless it is done.
    #[schema(required)]
    pub report: Option<ReportBody>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    Run,
    Verify,
    Restore,
    Erase,
    Backup,
}

/// What is counted in each stage: conversations while moving and erasing, objects while sweeping, bytes of tables
/// while compacting and copying, segments while verifying and restoring, parts of a backup while reading back, rows while
/// checking.
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

/// What a job did, each kind in its own words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum ReportBody {
    Backup(BackupReportBody),
    Run(RunReportBody),
    Verify(VerifyReportBody),
    Erase(EraseReportBody),
    Restore(RestoreReportBody),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunReportBody {
    /// How many conversations something was moved out of.
    pub conversations: u64,
    pub moved: ColdBody,
    /// Messages erased: past their retention, or left over from an erasure that was interrupted.
    pub erased_messages: u64,
    pub orphans_swept: u64,
    pub hot_file_bytes_before: u64,
    pub hot_file_bytes_after: u64,
    pub took_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VerifyReportBody {
    pub checked: ColdBody,
    /// How many segments are not as they should be.
    pub problem_count: u64,
    /// A sentence for each of them, the first thousand.
    pub problems: Vec<String>,
    pub took_ms: u64,
}

impl VerifyReportBody {
    pub const MAX_PROBLEMS: usize = 1_000;
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RestoreReportBody {
    pub segments: u64,
    pub messages: u64,
    pub took_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EraseReportBody {
    pub conversations: u64,
    pub messages: u64,
    pub segments_rewritten: u64,
    pub segments_deleted: u64,
    pub took_ms: u64,
}

/// What a backup holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BackupReportBody {
    /// Where it is.
    pub place: String,
    pub accounts: u64,
    pub conversations: u64,
    pub messages: u64,
    /// Of these, those whose content lies in the archive, which is not copied.
    pub archived_messages: u64,
    /// Parts, the manifest included.
    pub objects: u64,
    pub bytes: u64,
    /// Whether the keys that the server made for itself are in it.
    pub with_keys: bool,
    /// Rows that were damaged before they were copied; `bluetick check` names them.
    pub damaged_rows: u64,
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

/// Where a backup goes.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"to": "/var/backups/bluetick/monday"}))]
pub struct BackupRequest {
    /// A directory on the server's machine, by its whole path, or `s3://bucket/prefix`. Nothing may be there yet.
    #[schema(min_length = 1, max_length = 1024)]
    pub to: String,
    /// Whether the keys that the server made for itself go along; into a directory and not into a bucket where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<bool>,
}

impl BackupRequest {
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

/// The job that was begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"job_id": "1767225600000-1"}))]
pub struct JobBegunBody {
    /// For `GET /v1/archive/jobs/{job_id}`.
    pub job_id: String,
}

/// What to move. Everything old enough, where nothing is said.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"partial": true}))]
pub struct ArchiveRunRequest {
    /// This conversation alone, also where it was brought back to stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[dg][0-9a-hjkmnp-tv-z]{24}$")]
    pub conversation_id: Option<String>,
    /// Also what does not fill a segment yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<bool>,
}

impl ArchiveRunRequest {
    pub fn run(&self) -> Result<ArchiveRun, BadInput> {
        let only = self.conversation_id.as_deref().map(parse_conversation).transpose()?;
        Ok(ArchiveRun { only, partial: self.partial.unwrap_or_default() })
    }
}

/// What to bring back to the hot store: one conversation, or all that lie in the archive.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"conversation_id": "d0123456789abcdefghjkmnpq"}))]
pub struct RestoreRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[dg][0-9a-hjkmnp-tv-z]{24}$")]
    pub conversation_id: Option<String>,
    /// All of them, which empties the archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all: Option<bool>,
}

impl RestoreRequest {
    /// `None`: all of them.
    pub fn conversation(&self) -> Result<Option<ConversationId>, BadInput> {
        match (&self.conversation_id, self.all.unwrap_or_default()) {
            (Some(id), false) => parse_conversation(id).map(Some),
            (None, true) => Ok(None),
            _ => Err(BadInput::new("either conversation_id or all is needed, and not both")),
        }
    }
}

/// What to delete for good: all that a conversation holds, all that a user wrote, or with both what that user wrote in
/// that conversation.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"conversation_id": "d0123456789abcdefghjkmnpq", "through_seq": 480}))]
pub struct ErasureRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[dg][0-9a-hjkmnp-tv-z]{24}$")]
    pub conversation_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 128, pattern = r"^\S+$")]
    pub user_id: Option<String>,
    /// Only up to this place of the conversation; all there is where it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub through_seq: Option<u64>,
}

impl ErasureRequest {
    pub fn erase(&self) -> Result<Erase, BadInput> {
        let conversation = self.conversation_id.as_deref().map(parse_conversation).transpose()?;
        // Earlier versions accepted ids that today's rules refuse; their messages can be erased too.
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
                return Err(BadInput::field(
                    "through_seq",
                    "means a place of a conversation, and none is named",
                ));
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
