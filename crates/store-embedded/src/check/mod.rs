//! Checks a store that no server uses: every batch of the log, every page and row of the tables,
//! and whether they agree. It changes and repairs nothing.
//!
//! Rows derived from a conversation (inbox, order, pending) are checked only if the log after the
//! tables' position does not mention it. Otherwise the next start rewrites those rows. For a
//! mentioned conversation, the check compares only data that one transaction writes: seqs, members,
//! heads.

mod conversations;
mod finding;
mod lookalikes;
mod people;
mod replay;
mod rows;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bluetick_core::ports::{Progress, Stage};
pub use finding::{Finding, Findings};
use lookalikes::Lookalikes;
pub(crate) use rows::first_conversation;
pub use rows::row_problem;
use thiserror::Error;

use crate::lock::{DataLock, LockError};
use crate::log::{self, BatchNumber, LogFinding};
use crate::tables::{Tables, TablesError, pages};

/// The inputs of a check.
pub struct CheckParts {
    pub data_dir: PathBuf,
    pub progress: Arc<dyn Progress>,
}

/// Why a store could not be checked.
#[derive(Debug, Error)]
pub enum CheckError {
    #[error("{}: {error}", directory.display())]
    Lock { directory: PathBuf, error: LockError },
    #[error("{}: there is no store here", .0.display())]
    NoStore(PathBuf),
    #[error("{}: a restore of a backup is unfinished here", .0.display())]
    HalfRestored(PathBuf),
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error(transparent)]
    Tables(TablesError),
}

/// The totals and the findings of a check.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    pub segments: u64,
    pub batches: u64,
    pub has_torn_end: bool,
    pub pages: u64,
    pub rows: u64,
    pub conversations: u64,
    pub messages: u64,
    /// The part of `messages` whose content is in the archive.
    pub archived_messages: u64,
    pub accounts: u64,
    /// Groups of names among users, profiles and members that a reader cannot tell apart. They are
    /// a notice, not a finding.
    pub lookalikes: Vec<Vec<String>>,
    /// The first thousand findings. `finding_count` counts all.
    pub findings: Vec<Finding>,
    pub finding_count: u64,
    pub took: Duration,
}

/// Checks the store in a data directory. Holds its lock for reading. Errors only if the check
/// cannot run; damage is a finding.
pub fn check(parts: CheckParts) -> Result<CheckReport, CheckError> {
    let started = Instant::now();
    let CheckParts { data_dir, progress } = parts;
    let (tables, log) = (data_dir.join("tables"), data_dir.join("log"));
    if data_dir.join(crate::backup::RESTORING).exists() {
        return Err(CheckError::HalfRestored(data_dir));
    }
    if !tables.join("data.mdb").is_file() && !log.is_dir() {
        return Err(CheckError::NoStore(data_dir));
    }
    let lock = DataLock::acquire_for_reading(&data_dir);
    let _lock = lock.map_err(|error| CheckError::Lock { directory: data_dir.clone(), error })?;
    let mut check =
        Check { data_dir, progress, findings: Findings::default(), report: CheckReport::default() };
    check.whole(&tables, &log)?;
    let Check { findings, mut report, .. } = check;
    (report.findings, report.finding_count) = findings.into_parts();
    report.took = started.elapsed();
    Ok(report)
}

struct Check {
    data_dir: PathBuf,
    progress: Arc<dyn Progress>,
    findings: Findings,
    report: CheckReport,
}

impl Check {
    fn whole(&mut self, tables: &Path, log: &Path) -> Result<(), CheckError> {
        self.progress.advanced(Stage::Checking, 0, 0);
        if !self.pages(&tables.join("data.mdb"))? {
            // The engine could crash on damaged pages. The log can still be checked.
            return self.log_alone(log);
        }
        let opened = match Tables::open_sound(tables) {
            Ok(opened) => opened,
            Err(error @ TablesError::NeedsUpgrade) => return Err(CheckError::Tables(error)),
            Err(error) => {
                let file = self.relative(&tables.join("data.mdb"));
                self.findings.add(Finding::file(file, 0, error.to_string()));
                return self.log_alone(log);
            }
        };
        let engine = opened.current().map_err(CheckError::Tables)?;
        let identity = match engine.identity() {
            Ok(Some(identity)) => identity,
            Ok(None) => {
                let file = self.relative(&tables.join("data.mdb"));
                self.findings.add(Finding::file(file, 0, "the tables have no identity row"));
                return self.log_alone(log);
            }
            Err(error @ (TablesError::TooNew { .. } | TablesError::TooOld { .. })) => {
                return Err(CheckError::Tables(error));
            }
            Err(error) => {
                self.findings.add(Finding::row("meta", "identity", error.to_string()));
                return self.log_alone(log);
            }
        };
        let snapshot = engine.snapshot().map_err(CheckError::Tables)?;
        let checkpoint = match snapshot.checkpoint() {
            Ok(checkpoint) => checkpoint,
            Err(error) => {
                self.findings.add(Finding::row("meta", "checkpoint", error.to_string()));
                return self.log_alone(log);
            }
        };
        let mut replay = replay::Replay::new(&snapshot);
        match engine.log_started() {
            Ok(true) if log::has_segments(log).is_ok_and(|any| !any) => {
                self.findings.add(Finding::file("log".to_owned(), 0, "the log is missing"));
            }
            // The check of the rows reports the damaged key.
            Ok(_) | Err(TablesError::Damaged { .. }) => {}
            Err(error) => return Err(CheckError::Tables(error)),
        }
        let data_dir = self.data_dir.clone();
        let mut wrong = Vec::new();
        let verified = log::verify(
            log,
            Some(identity.tag),
            checkpoint,
            &mut |found| wrong.push(found),
            &mut |frame, path, offset| {
                replay.batch(&frame, &relative(&data_dir, path), offset);
            },
        );
        let count = verified.map_err(|error| CheckError::Io { path: log.to_owned(), error })?;
        self.report_log_findings(wrong);
        (self.report.segments, self.report.batches) = (count.segments, count.batches);
        self.report.has_torn_end = count.has_torn_end;
        let unsettled = replay.end(&mut self.findings);
        let names_are_current = match engine.names_are_current() {
            // The check of the rows reports the damaged key.
            Err(TablesError::Damaged { .. }) => false,
            known => known.map_err(CheckError::Tables)?,
        };
        let total = snapshot.row_count().map_err(CheckError::Tables)?;
        let mut lookalikes = Lookalikes::default();
        unsettled.users.iter().chain(&unsettled.others).for_each(|user| lookalikes.add(user));
        let mut verify = conversations::RowCheck {
            lookalikes: &mut lookalikes,
            snapshot: &snapshot,
            fingerprinter: identity.fingerprinter,
            unsettled: &unsettled,
            names_are_current,
            findings: &mut self.findings,
            report: &mut self.report,
            progress: &*self.progress,
            total,
        };
        verify.all_rows().map_err(CheckError::Tables)?;
        verify.all_conversations().map_err(CheckError::Tables)?;
        let cold = engine.cold_count();
        verify.cold_count(cold).map_err(CheckError::Tables)?;
        self.report.lookalikes = lookalikes.into_groups();
        Ok(())
    }

    /// Checks the pages. Returns whether the engine can open the file safely.
    fn pages(&mut self, path: &Path) -> Result<bool, CheckError> {
        let before = self.findings.count();
        let file = self.relative(path);
        let findings = &mut self.findings;
        let verified = pages::verify(path, &mut |finding| {
            findings.add(Finding::file(file.clone(), finding.offset, finding.what));
            true
        });
        match verified {
            Ok(count) => self.report.pages = count.used,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.findings.add(Finding::file(file, 0, "the tables are missing"));
            }
            Err(error) => return Err(CheckError::Io { path: path.to_owned(), error }),
        }
        Ok(self.findings.count() == before)
    }

    /// Checks the log without the tables, if those cannot be used.
    fn log_alone(&mut self, log: &Path) -> Result<(), CheckError> {
        let mut wrong = Vec::new();
        // The position of the tables is unknown, so missing batches at the start are no finding.
        let verified = log::verify(
            log,
            None,
            BatchNumber(u64::MAX - 1),
            &mut |found| wrong.push(found),
            &mut |_, _, _| {},
        );
        match verified {
            Ok(count) => (self.report.segments, self.report.batches) = (count.segments, count.batches),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.findings.add(Finding::file("log".to_owned(), 0, "the log is missing"));
            }
            Err(error) => return Err(CheckError::Io { path: log.to_owned(), error }),
        }
        wrong.retain(|found| found.path != log);
        self.report_log_findings(wrong);
        Ok(())
    }

    fn report_log_findings(&mut self, wrong: Vec<LogFinding>) {
        for LogFinding { path, offset, what } in wrong {
            let file = self.relative(&path);
            self.findings.add(Finding::file(file, offset, what));
        }
    }

    fn relative(&self, path: &Path) -> String {
        relative(&self.data_dir, path)
    }
}

fn relative(data_dir: &Path, path: &Path) -> String {
    path.strip_prefix(data_dir).unwrap_or(path).display().to_string()
}
