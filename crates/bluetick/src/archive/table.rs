//! Formats the status of the archive and the report of a job as text.

use std::fmt::Write;
use std::time::Duration;

use bluetick_core::Timestamp;
use bluetick_wire::http::{
    ArchiveBody, BackupReportBody, ColdBody, EraseReportBody, ErasureRequest, JobBody, JobKind, ReportBody,
    RestoreReportBody, RunReportBody, StageBody, VerifyReportBody,
};

use super::ArchiveTask;
use crate::figures::{count, counted, size, time, utc};

/// Text with one line per name and value.
#[derive(Default)]
struct TextTable(String);

impl TextTable {
    fn line(&mut self, name: &str, about: impl AsRef<str>) {
        let _infallible = writeln!(self.0, "{name:<14} {}", about.as_ref());
    }
}

pub fn status(archive: &ArchiveBody) -> String {
    let mut table = TextTable::default();
    let place = if archive.engine_on { &archive.place } else { "off (archive.engine in the settings)" };
    table.line("Archive", place);
    table.line("Archived", amount(&archive.cold));
    let free = if archive.hot_free_bytes > 0 {
        format!(", {} of it free for reuse", size(archive.hot_free_bytes))
    } else {
        String::new()
    };
    // A fleet reports no size of its tables.
    if archive.hot_file_bytes > 0 {
        table.line("Hot tables", size(archive.hot_file_bytes) + &free);
    }
    if archive.kept_hot > 0 {
        table.line("Kept hot", counted(archive.kept_hot, "conversation") + ", restored from the archive");
    }
    if archive.unfinished_erasures > 0 {
        let erasures = counted(archive.unfinished_erasures, "erasure");
        table.line("To be erased", erasures + " unfinished; the next run continues");
    }
    let last_run = archive.last_run_at.map(|at| utc(Timestamp::from_millis(at)));
    table.line("Last run", last_run.as_deref().unwrap_or("none yet"));
    if let Some(reason) = &archive.paused {
        table.line("Paused", format!("{reason}; the next scheduled run tries again"));
    }
    if let Some(job) = &archive.job {
        table.line("Under way", under_way(job));
    }
    if let Some(job) = &archive.last_job {
        table.line("Last job", last_job(job));
    }
    table.0
}

fn amount(cold: &ColdBody) -> String {
    if cold.segments == 0 {
        return "nothing".into();
    }
    format!(
        "{} in {}, {}",
        counted(cold.messages, "message"),
        counted(cold.segments, "segment"),
        stored(cold)
    )
}

fn stored(cold: &ColdBody) -> String {
    let ratio = cold.raw_bytes as f64 / cold.bytes.max(1) as f64;
    format!("{} ({} before compression, {ratio:.1} : 1)", size(cold.bytes), size(cold.raw_bytes))
}

fn kind(kind: JobKind) -> &'static str {
    match kind {
        JobKind::Run => "run",
        JobKind::Verify => "verify",
        JobKind::Restore => "restore",
        JobKind::Erase => "erase",
        JobKind::Backup => "backup",
    }
}

fn under_way(job: &JobBody) -> String {
    let kind = kind(job.kind);
    let since = utc(Timestamp::from_millis(job.started_at));
    let Some(stage) = job.stage else { return format!("{kind}, since {since}") };
    let in_bytes = matches!(stage, StageBody::Compacting | StageBody::Copying);
    let amount = |number| if in_bytes { size(number) } else { count(number) };
    let stage = format!("{stage:?}").to_lowercase();
    format!("{kind}, {stage}: {} of {}, since {since}", amount(job.done), amount(job.total.max(job.done)))
}

fn last_job(job: &JobBody) -> String {
    let at = utc(Timestamp::from_millis(job.finished_at.unwrap_or(job.started_at)));
    let kind = kind(job.kind);
    let about = match (&job.error, &job.report) {
        (Some(error), _) => format!("failed: {error}"),
        (None, Some(ReportBody::Verify(report))) if report.problem_count > 0 => {
            format!("found {}", counted(report.problem_count, "problem"))
        }
        (None, _) => "done".into(),
    };
    format!("{kind}, {at}, {about}")
}

pub fn reported(task: &ArchiveTask, report: &ReportBody) -> String {
    match report {
        ReportBody::Run(report) => run(report),
        ReportBody::Verify(report) => verify(report),
        ReportBody::Restore(report) => restore(report),
        ReportBody::Erase(report) => erase(task, report),
        ReportBody::Backup(report) => backup(report),
    }
}

fn took(took_ms: u64) -> String {
    time(Duration::from_millis(took_ms))
}

fn run(report: &RunReportBody) -> String {
    let mut table = TextTable::default();
    let moved = &report.moved;
    if moved.messages == 0 {
        table.line("Moved", "nothing; no messages are old enough, or too few for a segment (--partial)");
    } else {
        let messages = counted(moved.messages, "message");
        let conversations = counted(report.conversations, "conversation");
        let segments = counted(moved.segments, "segment");
        table.line("Moved", format!("{messages} of {conversations}, in {segments}"));
        table.line("In the archive", stored(moved));
    }
    if report.erased_messages > 0 {
        table.line("Erased", counted(report.erased_messages, "message"));
    }
    if report.orphans_swept > 0 {
        table.line("Deleted", counted(report.orphans_swept, "object") + " without a reference");
    }
    let (before, after) = (report.hot_file_bytes_before, report.hot_file_bytes_after);
    let change = match before.checked_sub(after) {
        Some(0) => String::new(),
        Some(less) => format!(" ({} returned to the disk)", size(less)),
        None => format!(" ({} more)", size(after - before)),
    };
    if (before, after) != (0, 0) {
        table.line("Hot tables", format!("{} before, {} after{change}", size(before), size(after)));
    }
    table.line("Took", took(report.took_ms));
    table.0
}

fn verify(report: &VerifyReportBody) -> String {
    let mut table = TextTable::default();
    table.line("Read", amount(&report.checked));
    let found = match report.problem_count {
        0 => "none; every segment matches the store".to_owned(),
        problems => count(problems),
    };
    table.line("Problems", found);
    table.line("Took", took(report.took_ms));
    for problem in &report.problems {
        let _infallible = writeln!(table.0, "- {problem}");
    }
    let untold = report.problem_count.saturating_sub(report.problems.len() as u64);
    if untold > 0 {
        let _infallible = writeln!(table.0, "- and {} more", count(untold));
    }
    table.0
}

fn restore(report: &RestoreReportBody) -> String {
    let mut table = TextTable::default();
    let messages = counted(report.messages, "message");
    let back = match report.segments {
        0 => "nothing; all messages were in the store".to_owned(),
        segments => format!("{messages} from {}", counted(segments, "segment")),
    };
    table.line("Restored", back);
    table.line("Took", took(report.took_ms));
    table.0
}

fn backup(report: &BackupReportBody) -> String {
    let mut table = TextTable::default();
    table.line("Backup", &report.place);
    let messages = counted(report.messages, "message");
    let conversations = counted(report.conversations, "conversation");
    let accounts = counted(report.accounts, "account");
    table.line("Contains", format!("{messages} in {conversations}, {accounts}"));
    if report.archived_messages > 0 {
        let archived = counted(report.archived_messages, "message");
        table.line("Not included", format!("the content of {archived} in the archive, which is not copied"));
    }
    let keys = match report.with_keys {
        true => "included: protect the backup like a secret",
        false => "not included: keep token.key and admin.key elsewhere, or issued tokens become invalid",
    };
    table.line("Keys", keys);
    table.line("Size", format!("{} in {}, read back", size(report.bytes), counted(report.objects, "object")));
    table.line("Took", took(report.took_ms));
    table.0
}

fn erase(task: &ArchiveTask, report: &EraseReportBody) -> String {
    let mut table = TextTable::default();
    let messages = counted(report.messages, "message");
    let erased = match (task, report.conversations) {
        (ArchiveTask::Erase(ErasureRequest { user_id: Some(user), .. }), 0) => {
            format!("nothing; no messages by {user} were found, or all were erased before")
        }
        (_, 0) => "nothing; there are no messages, or all were erased before".to_owned(),
        (_, conversations) => format!("{messages} in {}", counted(conversations, "conversation")),
    };
    table.line("Erased", erased);
    if report.segments_rewritten + report.segments_deleted > 0 {
        let rewritten = counted(report.segments_rewritten, "segment");
        table.line("Archive", format!("{rewritten} rewritten, {} deleted", count(report.segments_deleted)));
    }
    table.line("Took", took(report.took_ms));
    table.0
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
