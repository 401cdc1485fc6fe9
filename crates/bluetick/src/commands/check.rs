//! `bluetick check`: checks a data directory that no server uses for damage.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use bluetick_store_embedded::LockError;
use bluetick_store_embedded::check::{CheckError, CheckParts, CheckReport, check};
use rustix::fs::{Access, access};
use rustix::io::Errno;
use serde_json::json;

use super::archive::{carry_out_unjudged, judge};
use crate::archive::{ArchiveTask, JobMeter};
use crate::cli::CheckArgs;
use crate::failure::Failure;
use crate::figures::{count, counted, time};
use crate::output::print;
use crate::settings::{Inputs, Loaded, StoreEngine};

pub fn run(arguments: &CheckArgs) -> Result<(), Failure> {
    let settings = Loaded::load(&Inputs::of_this_process(arguments.places.flags()))?.settings;
    if settings.store.engine != StoreEngine::Embedded {
        return Err(Failure::usage(
            "this command checks the data directory of the embedded store; for a fleet, run `bluetick tables check` \
             and `bluetick archive verify`",
        ));
    }
    let meter = Arc::new(JobMeter::new(arguments.output.json));
    let data_dir = settings.store.data_dir.clone();
    let looked = check(CheckParts { data_dir, progress: Arc::clone(&meter) as _ });
    meter.clear();
    let report = looked.map_err(not_looked_through)?;
    print(&if arguments.output.json { in_json(&report) } else { in_words(&report) })?;
    if report.finding_count > 0 {
        return Err(Failure::failed(format!(
            "the store is damaged: {}",
            counted(report.finding_count, "finding")
        )));
    }
    if arguments.archive { check_archive(arguments, &settings.store.data_dir) } else { Ok(()) }
}

/// Verifies the segments in the archive. Failing to read them is a usage error, because exit code 1
/// means damage.
fn check_archive(arguments: &CheckArgs, data_dir: &Path) -> Result<(), Failure> {
    if access(data_dir, Access::WRITE_OK) == Err(Errno::ROFS) {
        return Err(Failure::usage(format!(
            "the archive was not checked: --archive opens the store, and {} is mounted read-only",
            data_dir.display()
        )));
    }
    let report = carry_out_unjudged(&ArchiveTask::Verify, &arguments.places, arguments.output)
        .map_err(|error| Failure::usage(format!("the archive was not checked: {error}")))?;
    judge(&report)
}

/// Maps an error of the check to a usage error: the store was not checked, so damage is unknown.
fn not_looked_through(error: CheckError) -> Failure {
    match error {
        CheckError::Lock { error: LockError::InUse(_), .. } => Failure::usage(format!(
            "{error}; stop the server first, or restore a backup of it, which checks the copy"
        )),
        other => Failure::usage(other),
    }
}

fn in_json(report: &CheckReport) -> String {
    let body = json!({
        "sound": report.finding_count == 0,
        "segments": report.segments,
        "batches": report.batches,
        "pages": report.pages,
        "rows": report.rows,
        "conversations": report.conversations,
        "messages": report.messages,
        "archived_messages": report.archived_messages,
        "accounts": report.accounts,
        "lookalikes": report.lookalikes,
        "finding_count": report.finding_count,
        "findings": report.findings,
        "took_ms": u64::try_from(report.took.as_millis()).unwrap_or(u64::MAX),
    });
    serde_json::to_string_pretty(&body).expect("a report holds strings and numbers only") + "\n"
}

fn in_words(report: &CheckReport) -> String {
    let mut text = String::new();
    let mut line = |name: &str, about: String| {
        let _infallible = writeln!(text, "{name:<14} {about}");
    };
    let torn = if report.has_torn_end { ", the last one incomplete after a crash" } else { "" };
    let batches =
        if report.batches == 1 { "1 batch".to_owned() } else { format!("{} batches", count(report.batches)) };
    line("Log", format!("{batches} in {}{torn}", counted(report.segments, "segment")));
    line("Tables", format!("{} on {}", counted(report.rows, "row"), counted(report.pages, "page")));
    let (messages, conversations) =
        (counted(report.messages, "message"), counted(report.conversations, "conversation"));
    let accounts = counted(report.accounts, "account");
    line(
        "In them",
        format!("{messages} in {conversations}, {accounts}; batches only in the log are not counted"),
    );
    if report.archived_messages > 0 {
        line("In the archive", counted(report.archived_messages, "message") + ", not checked here");
    }
    if !report.lookalikes.is_empty() {
        let groups = counted(report.lookalikes.len() as u64, "group");
        line("Names", format!("{groups} of look-alike names (not damage)"));
    }
    let found = if report.finding_count == 0 {
        "none; the store is sound".to_owned()
    } else {
        count(report.finding_count)
    };
    line("Damage", found);
    line("Took", time(report.took));
    for finding in &report.findings {
        let _infallible = writeln!(text, "- {finding}");
    }
    let untold = report.finding_count.saturating_sub(report.findings.len() as u64);
    if untold > 0 {
        let _infallible = writeln!(text, "- and {} more", count(untold));
    }
    for names in &report.lookalikes {
        let _infallible = writeln!(text, "- these names look alike: {}", names.join(", "));
    }
    text
}
