//! Returns the disk space of moved messages, and removes erased content from all files.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bluetick_core::StoreError;
use bluetick_core::ports::{ArchiveError, Progress, Stage};

use super::{ArchiveStep, Archiver};
use crate::tables::{FileSpace, TablesError};

/// Minimum number of free bytes in the tables for a compaction. Below it, a rewrite costs more than
/// it returns.
const COMPACT_FROM_BYTES: u64 = 1 << 20;
/// Minimum of free space for a compaction, as a divisor of the file size: 4 means a quarter of the
/// file. A larger divisor rewrites the tables more often.
const COMPACT_FROM_PART: u64 = 4;
/// Upper bound on the attempts to clean up files before the job reports that erased content
/// remains. Continuous readers block the swap of the tables, and a full disk blocks a new log file.
const CLEANING_ATTEMPTS: u32 = 3;

/// Returns whether a retry may help. It does not help during shutdown, or on a disk without space
/// for the copy.
fn is_worth_a_retry(error: &ArchiveError) -> bool {
    !matches!(error, ArchiveError::Stopped | ArchiveError::Store(StoreError::ReadOnly(_)))
}

impl Archiver {
    /// Cleans up erased content, and compacts the tables if they have enough free space. Returns
    /// the size of their file.
    pub(super) async fn give_space_back(&self, progress: &dyn Progress) -> Result<u64, ArchiveError> {
        self.clean_up(progress).await?;
        let space = self.space().await?;
        let much = space.free_bytes >= COMPACT_FROM_BYTES
            && space.free_bytes >= space.file_bytes / COMPACT_FROM_PART;
        if !(self.settings.compact && much) {
            return Ok(space.file_bytes);
        }
        match self.compact(progress).await {
            Ok(()) => {}
            // A failed compaction costs only disk space. The next run retries.
            Err(error) => {
                tracing::warn!(%error, "table compaction failed; the next archive run retries it");
            }
        }
        Ok(self.space().await?.file_bytes)
    }

    /// Scrubs the log and rewrites the tables if either may hold erased content, regardless of
    /// `archive.compact`. After success, no file of the data directory holds erased content. After
    /// an error the mark stays, so that the next run or the next start tries again.
    pub(super) async fn clean_up(&self, progress: &dyn Progress) -> Result<(), ArchiveError> {
        if !self.has_erased_pages().await? {
            return Ok(());
        }
        let mut attempt = 1;
        loop {
            match self.clean_up_once(progress).await {
                Err(error) if attempt < CLEANING_ATTEMPTS && is_worth_a_retry(&error) => {
                    tracing::warn!(%error, attempt, "erased content is still in files; trying again");
                    attempt += 1;
                }
                outcome => return outcome,
            }
        }
    }

    async fn clean_up_once(&self, progress: &dyn Progress) -> Result<(), ArchiveError> {
        self.must_not_stop()?;
        self.scrub_log().await?;
        self.go_on(ArchiveStep::LogScrubbed)?;
        self.compact(progress).await?;
        self.go_on(ArchiveStep::TablesRewritten)?;
        let tables = Arc::clone(&self.tables);
        let cleared = self.blocking(move || {
            let engine = tables.writing()?;
            let mut update = engine.update()?;
            update.clear_marks_of_pages()?;
            Ok(update.commit()?)
        });
        cleared.await
    }

    pub(super) async fn has_erased_pages(&self) -> Result<bool, ArchiveError> {
        let tables = Arc::clone(&self.tables);
        self.blocking(move || Ok(tables.current()?.snapshot()?.has_erased_pages()?)).await
    }

    pub(super) async fn space(&self) -> Result<FileSpace, ArchiveError> {
        let tables = Arc::clone(&self.tables);
        self.blocking(move || Ok(tables.current()?.space()?)).await
    }

    async fn compact(&self, progress: &dyn Progress) -> Result<(), ArchiveError> {
        let space = self.space().await?;
        let total = space.file_bytes - space.free_bytes;
        progress.advanced(Stage::Compacting, 0, total);
        let (tables, stopping) = (Arc::clone(&self.tables), Arc::clone(&self.state.stopping));
        let compacted = self.blocking(move || match tables.compact(&|| stopping.load(Ordering::Relaxed)) {
            Err(TablesError::Stopped) => Err(ArchiveError::Stopped),
            other => Ok(other?),
        });
        compacted.await?;
        progress.advanced(Stage::Compacting, total, total);
        Ok(())
    }
}
