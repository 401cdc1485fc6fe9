//! Ridding the log's files of all that was written so far, while the log goes on.
//!
//! 1. Every spare is deleted and a new one made.
//! 2. The log goes on in it. From here on nothing is added to a file that holds what has to go.
//! 3. When the tables have everything before that point, the segments before it are deleted, not recycled.
//!
//! A crash in between leaves a log as any other; whoever asked has to ask again after it. What the disk keeps of a
//! deleted file is not this program's to say.

use super::{BatchNumber, LogWriter};

/// One scrub under way. To be gone on with until it ends; the log is written meanwhile as ever.
#[derive(Debug, Default)]
pub struct Scrub {
    stage: Stage,
}

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Begun,
    WaitsForNewFile,
    WaitsForTables {
        through: BatchNumber,
    },
    WaitsForDeletion,
}

impl Scrub {
    /// The batch up to which the tables have to be written before it can go on.
    pub fn waits_for_tables(&self) -> Option<BatchNumber> {
        match self.stage {
            Stage::WaitsForTables { through } => Some(through),
            _ => None,
        }
    }

    /// Does what can be done at once, and says whether that was all. After an error it is over, and may be begun anew.
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
                Stage::Begun => {
                    log.spares().renew().map_err(unlisted)?;
                    Stage::WaitsForNewFile
                }
                Stage::WaitsForNewFile if log.spares().has_ready()? => {
                    let through = log.roll().map_err(|error| error.to_string())?;
                    Stage::WaitsForTables { through }
                }
                Stage::WaitsForTables { through } if through <= in_tables => {
                    log.delete_through(through).map_err(unlisted)?;
                    Stage::WaitsForDeletion
                }
                Stage::WaitsForDeletion => return log.spares().has_deleted_all(),
                Stage::WaitsForNewFile | Stage::WaitsForTables { .. } => return Ok(false),
            }
        }
    }
}
