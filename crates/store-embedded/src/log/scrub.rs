//! Removes everything written so far from the log's files, while writes continue.
//!
//! 1. Every spare is deleted and a new one is created.
//! 2. The log continues in the new file. From here on no data is added to a file that must go.
//! 3. Once the tables contain everything before that point, the segments before it are deleted, not
//!    recycled.
//!
//! A crash during a scrub leaves an ordinary log; the caller must request the scrub again. Whether
//! the disk keeps the blocks of a deleted file is outside the control of this program.

use super::{BatchNumber, LogWriter};

/// A running scrub. The committer calls [`Scrub::go_on`] until it ends; writes continue meanwhile.
#[derive(Debug, Default)]
pub struct Scrub {
    stage: ScrubStage,
}

#[derive(Debug, Default)]
enum ScrubStage {
    #[default]
    Begun,
    WaitsForNewFile,
    WaitsForTables {
        through: BatchNumber,
    },
    WaitsForDeletion,
}

impl Scrub {
    /// Returns the batch up to which the tables must be written before the scrub can continue.
    pub fn waits_for_tables(&self) -> Option<BatchNumber> {
        match self.stage {
            ScrubStage::WaitsForTables { through } => Some(through),
            _ => None,
        }
    }

    /// Does all work that is possible without waiting. Returns whether the scrub is complete. An
    /// error ends the scrub; a new one may be started.
    pub fn go_on(&mut self, log: &mut LogWriter, in_tables: BatchNumber) -> Result<bool, String> {
        let outcome = self.next_stages(log, in_tables);
        if !matches!(outcome, Ok(false)) {
            log.spares().reuse_again();
        }
        outcome
    }

    fn next_stages(&mut self, log: &mut LogWriter, in_tables: BatchNumber) -> Result<bool, String> {
        let unlisted = |error| format!("the log's directory cannot be read: {error}");
        loop {
            self.stage = match self.stage {
                ScrubStage::Begun => {
                    log.spares().renew().map_err(unlisted)?;
                    ScrubStage::WaitsForNewFile
                }
                ScrubStage::WaitsForNewFile if log.spares().has_ready()? => {
                    let through = log.roll().map_err(|error| error.to_string())?;
                    ScrubStage::WaitsForTables { through }
                }
                ScrubStage::WaitsForTables { through } if through <= in_tables => {
                    log.delete_through(through).map_err(unlisted)?;
                    ScrubStage::WaitsForDeletion
                }
                ScrubStage::WaitsForDeletion => return log.spares().has_deleted_all(),
                ScrubStage::WaitsForNewFile | ScrubStage::WaitsForTables { .. } => return Ok(false),
            }
        }
    }
}
