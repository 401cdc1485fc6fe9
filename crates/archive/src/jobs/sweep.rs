//! Deletes orphans: objects that no row refers to, left by interrupted jobs.

use std::collections::HashSet;

use bluetick_core::ConversationId;
use bluetick_core::ports::{ArchiveError, Progress, Stage};
use futures_util::StreamExt;

use super::port::{ArchiveRows, ArchiveStep};
use crate::{ObjectArchive, SegmentName};

/// Deletes the orphans of one conversation or of the whole store, and returns their number.
pub async fn sweep<R: ArchiveRows>(
    rows: &mut R,
    only: Option<ConversationId>,
    progress: &dyn Progress,
) -> Result<u64, ArchiveError> {
    let archive = super::object_archive(rows)?;
    let (mut examined, mut swept, mut orphans) = (0, 0, HashSet::new());
    let mut objects = archive.list(rows.store(), only);
    while let Some(object) = objects.next().await {
        let (name, _) = object?;
        rows.proceed(None).await?;
        examined += 1;
        if !rows.is_referenced(&name).await? {
            orphans.insert(name);
            if rows.may_sweep(&name).await? {
                swept += u64::from(sweep_one(rows, &archive, &name).await?);
            }
        }
        progress.advanced(Stage::Sweeping, examined, examined);
    }
    if only.is_none() {
        // Interrupted uploads leave data that no listing shows.
        swept += archive.sweep_unfinished(rows.store()).await?;
        rows.swept(&orphans).await?;
    }
    Ok(swept)
}

/// Deletes one orphan. Keeps it if rows in its range refer to a missing object. The rows are then
/// from a backup, and the missing object was rewritten since. This one may be the only copy left.
/// Returns whether the object was deleted.
async fn sweep_one<R: ArchiveRows>(
    rows: &mut R,
    archive: &ObjectArchive,
    name: &SegmentName,
) -> Result<bool, ArchiveError> {
    rows.proceed(Some(ArchiveStep::BeforeDelete)).await?;
    let referenced = rows.referenced_in(name).await?;
    if !referenced.is_empty()
        && let Some(wanted) = missing(rows, archive, name.conversation, referenced).await?
    {
        tracing::error!(segment = %name, %wanted, "orphan kept, because a referenced object is missing");
        return Ok(false);
    }
    rows.retire(name, None).await?;
    rows.delete(*name).await?;
    tracing::info!(segment = %name, "orphan deleted");
    rows.proceed(Some(ArchiveStep::AfterDelete)).await?;
    Ok(true)
}

/// Returns one of these objects that does not exist.
async fn missing<R: ArchiveRows>(
    rows: &R,
    archive: &ObjectArchive,
    conversation: ConversationId,
    mut wanted: HashSet<SegmentName>,
) -> Result<Option<SegmentName>, ArchiveError> {
    let mut objects = archive.list(rows.store(), Some(conversation));
    while let Some(object) = objects.next().await {
        wanted.remove(&object?.0);
        if wanted.is_empty() {
            return Ok(None);
        }
    }
    Ok(wanted.into_iter().next())
}
