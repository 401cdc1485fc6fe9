//! Permanent deletion of content, from the durable request to the last object.
//!
//! From acceptance to completion, at least one row records the remaining work, so that an erasure
//! survives a crash at any point:
//!
//! 1. the *request*, durable before the erasure is acknowledged;
//! 2. one *erasure record* for each conversation with content to erase. The records replace the
//!    request.
//!
//! The engine erases in the rows first, because the object archive may be unavailable. A segment
//! also holds messages that stay, so it is rewritten under a new revision. A segment without
//! remaining content is deleted. ([ADR 12](../../../../docs/adr/0012-erasure.md), [ADR
//! 25](../../../../docs/adr/0025-erasure-and-dedupe-by-store-time.md))

use std::time::Instant;

use bluetick_core::ports::{ArchiveError, Erase, EraseReport, EraseScope, NoProgress, Progress, Stage};
use bytes::Bytes;

use super::layout::lay_out_blocking;
use super::port::{ArchiveRows, ArchiveStep, ErasureEffect, ErasureScope, Reason, Salvaged, Visit};
use super::{Walk, is_damage, object_archive};
use crate::{ObjectArchiveError, SegmentName};

/// Erases the requested content. Continues past damage and reports the first error at the end.
pub async fn erase<R: ArchiveRows>(
    rows: &mut R,
    erase: &Erase,
    progress: &dyn Progress,
) -> Result<EraseReport, ArchiveError> {
    let started = Instant::now();
    let (only, sender) = match &erase.scope {
        EraseScope::Conversation(id) => (Some(*id), None),
        EraseScope::User { user, conversation } => (*conversation, Some(user.clone())),
    };
    let mut scope = ErasureScope { conversation: only, sender: sender.clone(), through: erase.through };
    if let Some(id) = only {
        rows.conversation(id).await?;
        // A request for one conversation erases nothing that is sent after this call.
        let head = rows.head(id).await?;
        scope.through = Some(scope.through.map_or(head, |through| through.min(head)));
    }
    rows.proceed(None).await?;
    let request = rows.accept(scope).await?;
    // The first progress report acknowledges the erasure, so it must follow the durable request.
    let total = if only.is_some() { 1 } else { rows.conversation_count().await? };
    progress.advanced(Stage::Erasing, 0, total);
    rows.proceed(Some(ArchiveStep::ErasureAccepted)).await?;
    rows.settle().await?;
    // Damage in one conversation must not block the erasure of the others.
    let mut first_failure = search(rows, &request, progress).await?;
    // Include unfinished earlier erasures with the same sender and scope.
    let mut erasures = rows.erasures().await?;
    erasures.retain(|record| {
        let id = R::conversation_of(record);
        !R::is_erased(record) && R::sender_of(record) == sender.as_ref() && only.is_none_or(|only| only == id)
    });
    let mut report = EraseReport { conversations: erasures.len() as u64, ..EraseReport::default() };
    for erasure in &erasures {
        match rows.erase_in_rows(erasure, Reason::Requested).await {
            Ok(messages) => report.messages += messages,
            Err(error) if is_damage(&error) => {
                first_failure.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    for erasure in &erasures {
        match erase_one(rows, erasure).await {
            Ok(part) => {
                report.messages += part.messages;
                report.segments_rewritten += part.segments_rewritten;
                report.segments_deleted += part.segments_deleted;
            }
            Err(error) if is_damage(&error) => {
                first_failure.get_or_insert(error);
            }
            Err(ArchiveError::Stopped) => return Err(ArchiveError::Stopped),
            // The remaining erasures need the same object archive. Files are still cleaned up.
            Err(error) => {
                first_failure.get_or_insert(error);
                break;
            }
        }
    }
    rows.proceed(Some(ArchiveStep::ErasureDone)).await?;
    let cleaned = rows.clean_up(progress).await;
    report.took = started.elapsed();
    first_failure.map_or(cleaned.map(|_| report), Err)
}

/// Finds the conversations with content to erase, and replaces the request by their erasure
/// records. Returns the error of the first conversation that could not be searched.
async fn search<R: ArchiveRows>(
    rows: &mut R,
    request: &R::Request,
    progress: &dyn Progress,
) -> Result<Option<ArchiveError>, ArchiveError> {
    let scope = R::scope_of(request);
    let (mut found, mut first_damage, mut done) = (Vec::new(), None, 0);
    let total = if scope.conversation.is_some() { 1 } else { rows.conversation_count().await? };
    let visit = scope.sender.clone().map_or(Visit::All, Visit::WrittenBy);
    let mut walk: Walk<R> = Walk::new(None, visit);
    loop {
        let ids = match scope.conversation {
            Some(_) if done > 0 => break,
            Some(id) => vec![id],
            None => match walk.next(rows).await? {
                Some(conversations) => conversations.iter().map(R::id_of).collect(),
                None => break,
            },
        };
        for id in ids {
            rows.proceed(None).await?;
            let search = rows.find(id, &scope).await?;
            found.extend(search.erasure);
            if let Some(error) = search.damage {
                tracing::error!(conversation = %id, %error, "conversation is damaged; its erasure stays pending");
                first_damage.get_or_insert(error);
            }
            done += 1;
            progress.advanced(Stage::Erasing, done, total.max(done));
        }
    }
    rows.note(request, found).await?;
    rows.proceed(Some(ArchiveStep::ErasureSearched)).await?;
    Ok(first_damage)
}

/// The result of resuming earlier erasures.
pub(super) struct Resumed {
    pub messages: u64,
    pub has_work: bool,
}

/// Resumes accepted erasures, up to the steps that need the object archive.
pub(super) async fn resume<R: ArchiveRows>(
    rows: &mut R,
    progress: &dyn Progress,
) -> Result<Resumed, ArchiveError> {
    let requests = rows.requests().await?;
    let mut resumed = Resumed { messages: 0, has_work: !requests.is_empty() };
    if resumed.has_work {
        rows.settle().await?;
    }
    for request in requests {
        match search(rows, &request, progress).await {
            // `search` has already logged each conversation that cannot be searched.
            Ok(_) => {}
            // Keep the request. Damage in one erasure must not block the other work.
            Err(error) if is_damage(&error) => tracing::error!(%error, "erasure cannot be resumed"),
            Err(error) => return Err(error),
        }
    }
    for erasure in rows.erasures().await? {
        resumed.has_work = true;
        if R::is_erased(&erasure) {
            continue;
        }
        match rows.erase_in_rows(&erasure, Reason::Requested).await {
            Ok(messages) => resumed.messages += messages,
            Err(error) if is_damage(&error) => cannot_finish::<R>(&erasure, &error),
            Err(error) => return Err(error),
        }
    }
    match rows.clean_up(progress).await {
        Ok(had_work) => resumed.has_work |= had_work,
        Err(ArchiveError::Stopped) => return Err(ArchiveError::Stopped),
        // The end of the run tries again.
        Err(error) => {
            resumed.has_work = true;
            tracing::warn!(%error, "erased content is still in files");
        }
    }
    Ok(resumed)
}

/// Finishes the erasures in archived segments. Returns the number of erased messages.
pub(super) async fn finish<R: ArchiveRows>(rows: &mut R) -> Result<u64, ArchiveError> {
    let mut messages = 0;
    for erasure in rows.erasures().await? {
        match erase_one(rows, &erasure).await {
            Ok(erased) => messages += erased.messages,
            // Keep the record. One failure must not block the other erasures.
            Err(error) if is_damage(&error) => cannot_finish::<R>(&erasure, &error),
            Err(error) => return Err(error),
        }
    }
    Ok(messages)
}

fn cannot_finish<R: ArchiveRows>(erasure: &R::Erasure, error: &ArchiveError) {
    let conversation = R::conversation_of(erasure);
    tracing::error!(%conversation, %error, "erasure failed; it stays pending");
}

/// Erases the content and completes the record. Idempotent, so it also finishes a partial erasure.
async fn erase_one<R: ArchiveRows>(rows: &mut R, erasure: &R::Erasure) -> Result<EraseReport, ArchiveError> {
    if R::is_erased(erasure) {
        rows.recheck(erasure).await?;
        return Ok(EraseReport::default());
    }
    let report = erase_content(rows, erasure, Reason::Requested).await?;
    rows.finish_erasure(erasure).await?;
    Ok(report)
}

/// Erases in the rows first, which works without the object archive, then in the objects. Reports a
/// damaged segment after all others are done.
pub(super) async fn erase_content<R: ArchiveRows>(
    rows: &mut R,
    erasure: &R::Erasure,
    reason: Reason,
) -> Result<EraseReport, ArchiveError> {
    let id = R::conversation_of(erasure);
    rows.begin_erasure(id).await?;
    let messages = rows.erase_in_rows(erasure, reason).await?;
    let mut report = EraseReport { messages, ..EraseReport::default() };
    let has_objects = rows.has_objects(id).await?;
    let mut first_damage = None;
    if has_objects {
        super::must_be_in_place(rows).await?;
        for (name, bytes) in rows.objects(id).await? {
            if name.first > R::through_of(erasure) {
                continue;
            }
            rows.proceed(None).await?;
            match erase_in_segment(rows, name, bytes, erasure, &mut report).await {
                Err(error) if is_damage(&error) => {
                    first_damage.get_or_insert(error);
                }
                done => done?,
            }
        }
    }
    // Objects of an interrupted attempt may hold the erased content.
    let sweeps = !R::LISTS_ORPHANS && (has_objects || reason == Reason::Requested);
    if sweeps && rows.object_archive().is_some() {
        super::sweep(rows, Some(id), &NoProgress).await?;
    }
    first_damage.map_or(Ok(report), Err)
}

async fn erase_in_segment<R: ArchiveRows>(
    rows: &mut R,
    old: SegmentName,
    bytes: u64,
    erasure: &R::Erasure,
    report: &mut EraseReport,
) -> Result<(), ArchiveError> {
    let segment = match rows.erasure_effect(&old, erasure).await? {
        ErasureEffect::Unaffected => return Ok(()),
        ErasureEffect::NothingLeft { segment, messages } => {
            // The object keeps no content, so it is not read and may be damaged.
            object_archive(rows)?;
            rows.drop_content(&segment, bytes).await?;
            report.segments_deleted += 1;
            report.messages += messages;
            segment
        }
        ErasureEffect::Rewrite { segment, messages } => {
            // Treat unreadable content as lost: an erasure must not wait for a repair that may
            // never happen.
            let object = match object_archive(rows)?.segment(&old).await {
                Ok(object) => object,
                Err(ObjectArchiveError::Missing { .. } | ObjectArchiveError::Damaged { .. }) => Bytes::new(),
                Err(error) => return Err(error.into()),
            };
            let old_bytes = object.len() as u64;
            let Salvaged { records, lost, rows: salvage } =
                rows.salvage(&old, segment, erasure, object).await?;
            if lost > 0 {
                tracing::error!(segment = %old, lost, "messages of a damaged segment are lost permanently");
            }
            let revision = rows.new_revision(old.conversation).await?;
            let name = SegmentName { revision, ..old };
            let layout = lay_out_blocking(name, records).await?;
            rows.proceed(Some(ArchiveStep::BeforePut)).await?;
            rows.put(name, layout.sealed.bytes.clone()).await?;
            rows.proceed(Some(ArchiveStep::AfterPut)).await?;
            let segment = rows.flip_rewritten(salvage, &name, &layout, old_bytes).await?;
            report.segments_rewritten += 1;
            report.messages += messages;
            segment
        }
    };
    rows.proceed(Some(ArchiveStep::AfterFlip)).await?;
    rows.proceed(Some(ArchiveStep::BeforeDelete)).await?;
    rows.retire(&old, Some(&segment)).await?;
    rows.delete(old).await?;
    rows.proceed(Some(ArchiveStep::AfterDelete)).await
}
