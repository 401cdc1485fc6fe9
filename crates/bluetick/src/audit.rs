//! Writes the audit trail of commands that work without a server. A running server writes the
//! entries of the requests it handles itself.

use std::path::Path;

use bluetick_core::time::{Clock, SystemClock};
use bluetick_server::audit::{Act, AuditEntry, Outcome, Subject, Trail, Who};
use serde_json::Value;

use crate::failure::Failure;
use crate::settings::{Settings, StoreEngine};

/// Records a completed act. For commands that create the data directory, and with it the trail.
pub fn note_done(settings: &Settings, act: Act) -> Result<(), Failure> {
    trail(settings).write_now(&entry(act, Outcome::Done, None)).map_err(Failure::failed)
}

/// The audit trail of this command. A fleet command may run on a machine without a data directory.
/// It then writes the trail to standard error and creates no directory.
fn trail(settings: &Settings) -> Trail {
    let (mut audit, data_dir) = (settings.audit.clone(), &settings.store.data_dir);
    let is_fleet = settings.store.engine == StoreEngine::DynamoDb;
    if is_fleet && audit.file != "off" && Path::new(&audit.file).is_relative() && !data_dir.is_dir() {
        audit.file = "stderr".to_owned();
    }
    Trail::new(&audit, data_dir)
}

fn entry(act: Act, outcome: Outcome, subject: Option<Subject>) -> AuditEntry {
    let now = SystemClock.now();
    AuditEntry {
        at: now,
        act,
        outcome,
        subject,
        who: Who::at_the_command_line(),
        request_id: format!("{:x}-{:x}", now.millis(), std::process::id()),
        reason: None,
        detail: Value::Null,
    }
}

/// Runs `work` and records its start and its outcome. If recording the start fails, it returns the
/// error and does not run `work`.
pub fn audited<T>(
    settings: &Settings,
    act: Act,
    subject: Option<Subject>,
    work: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let trail = trail(settings);
    let begun = entry(act, Outcome::Begun, subject);
    trail.write_now(&begun).map_err(Failure::failed)?;
    let result = work();
    let (outcome, reason) = match &result {
        Ok(_) => (Outcome::Done, None),
        Err(failure) => (Outcome::Failed, Some(failure.to_string())),
    };
    let ended = AuditEntry { at: SystemClock.now(), outcome, reason, ..begun };
    // The trail has the start of the act, so a failure to record the outcome is only reported.
    if let Err(error) = trail.write_now(&ended) {
        eprintln!("bluetick: {error}");
    }
    result
}
