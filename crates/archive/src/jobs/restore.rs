//! Restores one conversation or all of them from the archive to the hot store.

use std::collections::HashSet;
use std::time::Instant;

use bluetick_core::ports::{ArchiveError, Progress, RestoreReport, Stage};
use bluetick_core::{ConversationId, Seq};

use super::port::{ArchiveRows, ArchiveStep, PutBack, SegmentRows, Visit};
use super::{Walk, is_damage};
use crate::ObjectArchive;

/// Restores all segments of `only`, or of every conversation. Restored conversations stay hot until
/// a run names them. Continues past a damaged segment and reports it at the end.
pub async fn restore<R: ArchiveRows>(
    rows: &mut R,
    only: Option<ConversationId>,
    progress: &dyn Progress,
) -> Result<RestoreReport, ArchiveError> {
    let started = Instant::now();
    let archive = super::object_archive(rows)?;
    if let Some(id) = only {
        rows.conversation(id).await?;
    }
    super::must_be_in_place(rows).await?;
    let total = match only {
        Some(_) => 0,
        None => rows.segment_count().await?,
    };
    let mut restore = RunningRestore { total, ..RunningRestore::new(&archive, progress) };
    let mut walk = Walk::new(only, Visit::Archived);
    while let Some(conversations) = walk.next(rows).await? {
        for conversation in conversations {
            let done = restore.done;
            restore.conversation(rows, &conversation).await?;
            if only.is_some() && restore.done == done {
                rows.keep_hot(&conversation).await?;
            }
        }
    }
    let RunningRestore { mut report, damaged, first_damage, .. } = restore;
    report.took = started.elapsed();
    match first_damage {
        None => Ok(report),
        Some(first) => Err(partly(&report, damaged, first)),
    }
}

/// The state of a running restore.
struct RunningRestore<'a> {
    archive: &'a ObjectArchive,
    progress: &'a dyn Progress,
    report: RestoreReport,
    total: u64,
    done: u64,
    damaged: u64,
    first_damage: Option<ArchiveError>,
}

impl<'a> RunningRestore<'a> {
    fn new(archive: &'a ObjectArchive, progress: &'a dyn Progress) -> RunningRestore<'a> {
        let report = RestoreReport::default();
        RunningRestore { archive, progress, report, total: 0, done: 0, damaged: 0, first_damage: None }
    }

    async fn conversation<R: ArchiveRows>(
        &mut self,
        rows: &mut R,
        conversation: &R::Conversation,
    ) -> Result<(), ArchiveError> {
        let (mut from, mut damaged) = (Seq::FIRST, HashSet::new());
        loop {
            let segment = match rows.next_segment(conversation, from, &damaged).await {
                Ok(Some(segment)) => segment,
                Ok(None) => break,
                // Rows that cannot be read keep the rest of the conversation in the archive.
                Err(error) if is_damage(&error) => {
                    let conversation = R::id_of(conversation);
                    tracing::error!(%conversation, %error, "conversation cannot be restored");
                    self.damaged += 1;
                    self.done += 1;
                    self.first_damage.get_or_insert(error);
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            rows.proceed(None).await?;
            match self.segment(rows, &segment).await {
                Ok(PutBack { messages, is_complete }) => {
                    self.report.segments += 1;
                    self.report.messages += messages;
                    // Rows that changed meanwhile still refer to the object, so search them again.
                    from = if is_complete { segment.resume_from } else { segment.first.next() };
                }
                Err(error) if is_damage(&error) => {
                    tracing::error!(segment = %segment.name, %error, "segment cannot be restored");
                    self.damaged += 1;
                    self.first_damage.get_or_insert(error);
                    damaged.insert(segment.name);
                    from = segment.resume_from;
                }
                Err(error) => return Err(error),
            }
            self.done += 1;
            self.progress.advanced(Stage::Restoring, self.done, self.total.max(self.done));
        }
        if damaged.is_empty() && rows.next_segment(conversation, Seq::FIRST, &damaged).await?.is_none() {
            rows.all_restored(conversation).await?;
        }
        Ok(())
    }

    async fn segment<R: ArchiveRows>(
        &self,
        rows: &mut R,
        segment: &SegmentRows<R::Segment>,
    ) -> Result<PutBack, ArchiveError> {
        let name = segment.name;
        let object = self.archive.segment(&name).await?;
        let opened = super::open(name, object.clone()).await?;
        let opened = opened.map_err(|why| ArchiveError::Damaged(format!("{name}: {why}")))?;
        rows.proceed(Some(ArchiveStep::BeforeFlip)).await?;
        let put_back = rows.put_back(segment, &opened, super::size_of(&object, &opened)).await?;
        rows.proceed(Some(ArchiveStep::AfterFlip)).await?;
        if put_back.is_complete {
            rows.proceed(Some(ArchiveStep::BeforeDelete)).await?;
            rows.retire(&name, Some(&segment.rows)).await?;
            rows.delete(name).await?;
            rows.proceed(Some(ArchiveStep::AfterDelete)).await?;
        }
        Ok(put_back)
    }
}

/// Error: some segments were restored and some were not.
fn partly(report: &RestoreReport, damaged: u64, first: ArchiveError) -> ArchiveError {
    let first = match first {
        ArchiveError::Damaged(why) => why,
        other => other.to_string(),
    };
    ArchiveError::Damaged(format!(
        "restored {} segments with {} messages; {damaged} segments could not be restored and stay archived, the first: {first}",
        report.segments, report.messages
    ))
}
