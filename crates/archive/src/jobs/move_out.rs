//! Moves old messages to the archive: plan a segment, seal it, put it, flip its rows.

use bluetick_core::Seq;
use bluetick_core::ports::{ArchiveError, ArchiveRun, ColdCount, Progress, RunReport, Stage};

use super::is_damage;
use super::layout::lay_out_blocking;
use super::pace::Pace;
use super::port::{ArchiveRows, ArchiveStep, Flip, Visit};
use super::selection::Rules;
use super::state::add;
use crate::SegmentName;

/// Upper bound on the attempts to move a conversation that is written at the same time. It bounds
/// wasted puts. After it, the next run tries again.
const ATTEMPTS: u32 = 3;

/// Moves all segments that are due, of one conversation or of all. A run continues after the
/// position at which an interrupted one stopped, then visits all conversations from the start.
pub(super) async fn move_out<R: ArchiveRows>(
    rows: &mut R,
    request: &ArchiveRun,
    progress: &dyn Progress,
    report: &mut RunReport,
) -> Result<(), ArchiveError> {
    let rules = Rules::new(rows.settings(), rows.now(), request.partial);
    let mut pace = Pace::new(rows.settings().messages_per_second);
    if let Some(id) = request.only {
        let conversation = rows.conversation(id).await?;
        let conversation = rows.release(conversation).await?;
        let moved = move_conversation(rows, &conversation, &rules, &mut pace, report).await?;
        report.conversations += u64::from(moved);
        progress.advanced(Stage::Moving, 1, 1);
        return Ok(());
    }
    let total = rows.conversation_count().await?;
    let mut done = 0;
    for start in rows.interrupted_at().map(Some).into_iter().chain([None]) {
        let mut after = start;
        done = 0;
        loop {
            let page = rows.conversations(&Visit::All, after).await?;
            for conversation in page.conversations {
                rows.proceed(None).await?;
                done += 1;
                if rows.is_due(&conversation, &rules)
                    && move_conversation(rows, &conversation, &rules, &mut pace, report).await?
                {
                    report.conversations += 1;
                }
                progress.advanced(Stage::Moving, done, total.max(done));
            }
            rows.note_position(page.next.clone());
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
    }
    rows.note_conversation_count(done);
    Ok(())
}

/// Moves all segments of a conversation that are due. Returns whether anything moved. Logs and
/// skips a conversation with a damaged row.
async fn move_conversation<R: ArchiveRows>(
    rows: &mut R,
    conversation: &R::Conversation,
    rules: &Rules,
    pace: &mut Pace,
    report: &mut RunReport,
) -> Result<bool, ArchiveError> {
    let id = R::id_of(conversation);
    let (mut revision, mut after) = (None, Seq::ZERO);
    let (mut moved, mut overtaken) = (false, 0);
    loop {
        let plan = match rows.plan(conversation, after, rules).await {
            Ok(Some(plan)) => plan,
            Ok(None) => return Ok(moved),
            Err(error) if is_damage(&error) => {
                tracing::error!(conversation = %id, %error, "conversation cannot be archived");
                return Ok(moved);
            }
            Err(error) => return Err(error),
        };
        let new = match revision {
            Some(known) => known,
            None => rows.new_revision(id).await?,
        };
        revision = Some(new);
        let name = SegmentName {
            store: rows.store(),
            conversation: id,
            first: plan.first,
            last: plan.last,
            revision: new,
        };
        let messages = name.count();
        let layout = lay_out_blocking(name, plan.records).await?;
        rows.proceed(Some(ArchiveStep::BeforePut)).await?;
        rows.put(name, layout.sealed.bytes.clone()).await?;
        rows.proceed(Some(ArchiveStep::AfterPut)).await?;
        let flipped = match rows.flip(plan.rows, &name, &layout).await? {
            Flip::Unchanged => {
                // A message was written to the last rows at the same time. Plan again.
                rows.delete(name).await?;
                overtaken += 1;
                if overtaken == ATTEMPTS {
                    return Ok(moved);
                }
                continue;
            }
            Flip::Changed(flipped) => flipped,
        };
        let count = ColdCount {
            segments: u64::from(flipped > 0),
            messages: flipped,
            bytes: layout.sealed.bytes.len() as u64,
            raw_bytes: layout.sealed.raw_bytes,
        };
        rows.state().count_moved(&count);
        add(&mut report.moved, &count);
        moved |= flipped > 0;
        if flipped < messages {
            // Other rows changed at the same time. The next run moves them.
            return Ok(moved);
        }
        after = plan.last;
        rows.proceed(Some(ArchiveStep::AfterFlip)).await?;
        pace.count(flipped);
        while let Some(pause) = pace.pause() {
            tokio::time::sleep(pause).await;
            rows.proceed(Some(ArchiveStep::AfterFlip)).await?;
        }
    }
}
