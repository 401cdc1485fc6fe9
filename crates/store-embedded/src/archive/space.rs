//! Giving the space back that moved messages took, and leaving nothing of what was erased in a file.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bluetick_core::ports::{ArchiveError, Progress, Stage};

use super::Archivist;
use crate::tables::{Tables, TablesError};

/// Tables are written anew when this much of them is free, and at least that part of the file.
const COMPACT_FROM_BYTES: u64 = 1 << 20;
const COMPACT_FROM_PART: u64 = 4;

impl Archivist {
    /// Returns how many bytes the tables take then.
    pub(super) async fn give_space_back(&self, progress: &dyn Progress) -> Result<u64, ArchiveError> {
        let tables = Arc::clone(&self.tables);
        let looked = self.blocking(move || {
            let engine = tables.current()?;
            Ok((engine.space()?, engine.snapshot()?.has_erased_pages()?))
        });
        let (space, erased) = looked.await?;
        // What cannot be done now is done by the next run.
        let scrubbed = match erased {
            true => self.scrub_log().await.inspect_err(|error| {
                tracing::warn!(%error, "the log still holds what was erased; the next run tries again");
            }),
            false => Ok(()),
        };
        let erased_settled = erased && scrubbed.is_ok();
        let much = space.free_bytes >= COMPACT_FROM_BYTES
            && space.free_bytes >= space.file_bytes / COMPACT_FROM_PART;
        if !self.settings.compact {
            // The operator lets freed pages be.
            if erased_settled {
                let tables = Arc::clone(&self.tables);
                self.blocking(move || Ok(settle_erased(&tables)?)).await?;
            }
            return Ok(space.file_bytes);
        }
        if !(much || erased) {
            return Ok(space.file_bytes);
        }
        let total = space.file_bytes - space.free_bytes;
        progress.advanced(Stage::Compacting, 0, total);
        let (tables, stopping) = (Arc::clone(&self.tables), Arc::clone(&self.state.stopping));
        let after = self.blocking(move || {
            match tables.compact(&|| stopping.load(Ordering::Relaxed)) {
                Ok(()) if erased_settled => settle_erased(&tables)?,
                Ok(()) => {}
                // It costs time and space only; the next run tries again.
                Err(error) => {
                    tracing::warn!(%error, "the space that the archive made free could not be given back yet");
                }
            }
            Ok(tables.current()?.space()?.file_bytes)
        });
        let after = after.await?;
        progress.advanced(Stage::Compacting, total, total);
        Ok(after)
    }
}

/// Nothing of what was erased is left in a file.
fn settle_erased(tables: &Tables) -> Result<(), TablesError> {
    let engine = tables.writing()?;
    let mut update = engine.update()?;
    update.set_erased_pages(false)?;
    update.commit()
}
