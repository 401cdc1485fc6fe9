//! Deletes orphans: objects that no row refers to, left by interrupted jobs.

use std::sync::Arc;

use bluetick_archive::SegmentName;
use bluetick_core::ConversationId;
use bluetick_core::ports::{ArchiveError, Progress, Stage};
use futures_util::StreamExt;

use super::{ArchiveStep, Archiver};
use crate::codec::archive::SegmentRow;
use crate::tables::ChunkKey;

/// Objects that are compared with the rows at a time.
const BATCH: usize = 1_000;

impl Archiver {
    /// Deletes the orphans of one conversation or of the whole store, and returns their number.
    /// Must run within a job, so that no other job puts objects at the same time.
    pub(super) async fn sweep(
        &self,
        only: Option<ConversationId>,
        progress: &dyn Progress,
    ) -> Result<u64, ArchiveError> {
        let object_archive = self.object_archive()?;
        let (mut looked_at, mut swept) = (0, 0);
        let mut objects = object_archive.list(self.identity.tag.0, only).chunks(BATCH);
        while let Some(batch) = objects.next().await {
            let mut names = Vec::with_capacity(batch.len());
            for object in batch {
                names.push(object.map_err(ArchiveError::from)?.0);
            }
            looked_at += names.len() as u64;
            for (name, row) in self.orphans(names).await? {
                self.go_on(ArchiveStep::BeforeDelete)?;
                if let Some(wanted) = row
                    && !self.is_there(&wanted).await?
                {
                    // The rows are from a backup, and the segment they name was rewritten since.
                    // This object may be the only copy left.
                    tracing::error!(segment = %name, %wanted, "an object is kept because the one that is wanted is not there");
                    continue;
                }
                self.delete(name).await?;
                tracing::info!(segment = %name, "deleted an object of the archive that nothing refers to");
                swept += 1;
                self.go_on(ArchiveStep::AfterDelete)?;
            }
            progress.advanced(Stage::Sweeping, looked_at, looked_at);
        }
        if only.is_none() {
            // Interrupted uploads leave data that no listing shows.
            swept +=
                object_archive.sweep_unfinished(self.identity.tag.0).await.map_err(ArchiveError::from)?;
            *self.swept() = Some(std::time::Instant::now());
        }
        Ok(swept)
    }

    async fn is_there(&self, wanted: &SegmentName) -> Result<bool, ArchiveError> {
        let mut objects = self.object_archive()?.list(self.identity.tag.0, Some(wanted.conversation));
        while let Some(object) = objects.next().await {
            if object.map_err(ArchiveError::from)?.0 == *wanted {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the objects that no row refers to. With each, the object that the row with its first
    /// seq refers to instead.
    async fn orphans(
        &self,
        mut names: Vec<SegmentName>,
    ) -> Result<Vec<(SegmentName, Option<SegmentName>)>, ArchiveError> {
        let (tables, store) = (Arc::clone(&self.tables), self.identity.tag.0);
        self.blocking(move || {
            let engine = tables.current()?;
            let snapshot = engine.snapshot()?;
            let mut orphans = Vec::new();
            for name in names.drain(..) {
                let key = ChunkKey { conversation: name.conversation, first: name.first };
                let wanted = snapshot.segment(key)?.map(|SegmentRow { last, revision, .. }| SegmentName {
                    store,
                    last,
                    revision,
                    ..name
                });
                if wanted != Some(name) {
                    orphans.push((name, wanted));
                }
            }
            Ok(orphans)
        })
        .await
    }
}
