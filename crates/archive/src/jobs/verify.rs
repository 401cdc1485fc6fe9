//! Reads every segment and compares it with the rows that refer to it.

use std::collections::HashSet;
use std::time::Instant;

use bluetick_core::Seq;
use bluetick_core::ports::{ArchiveError, Progress, Stage, VerifyReport};

use super::port::{ArchiveRows, ArchiveStep, ObjectSize, SegmentRows, Visit};
use super::state::add;
use super::{Walk, is_damage};
use crate::ObjectArchive;

/// Verifies all segments. Errors if the object archive is off, unavailable or the wrong one. Damage
/// is not an error: the report describes it, once for each segment.
pub async fn verify<R: ArchiveRows>(
    rows: &mut R,
    progress: &dyn Progress,
) -> Result<VerifyReport, ArchiveError> {
    let started = Instant::now();
    let archive = super::object_archive(rows)?;
    super::must_be_in_place(rows).await?;
    let mut report = VerifyReport::default();
    let (total, mut done) = (rows.segment_count().await?, 0);
    let mut walk = Walk::new(None, Visit::Archived);
    while let Some(conversations) = walk.next(rows).await? {
        for conversation in conversations {
            let (mut from, mut seen) = (Seq::FIRST, HashSet::new());
            loop {
                rows.proceed(Some(ArchiveStep::AfterFlip)).await?;
                let segment = match rows.next_segment(&conversation, from, &seen).await {
                    Err(error) if is_damage(&error) => {
                        report.problems.push(format!("{}: {error}", R::id_of(&conversation)));
                        break;
                    }
                    segment => segment?,
                };
                let Some(segment) = segment else { break };
                let (problem, size) = verify_segment(rows, &archive, &segment).await?;
                report.problems.extend(problem.map(|problem| format!("{}: {problem}", segment.name)));
                add(&mut report.checked, &rows.count(&segment, size));
                done += 1;
                progress.advanced(Stage::Verifying, done, total.max(done));
                seen.insert(segment.name);
                from = segment.resume_from;
            }
            report.problems.extend(rows.stray_references(&conversation).await?);
        }
    }
    rows.verified(&report.checked).await?;
    report.took = started.elapsed();
    Ok(report)
}

/// Returns a description of the problem, if any, and the size of the object.
async fn verify_segment<R: ArchiveRows>(
    rows: &mut R,
    archive: &ObjectArchive,
    segment: &SegmentRows<R::Segment>,
) -> Result<(Option<String>, ObjectSize), ArchiveError> {
    use crate::ObjectArchiveError::{Damaged, Missing};
    let object = match archive.segment(&segment.name).await {
        Ok(object) => object,
        Err(Missing { .. }) => return Ok((Some("the object does not exist".into()), ObjectSize::default())),
        Err(Damaged { why, .. }) => return Ok((Some(why), ObjectSize::default())),
        Err(error) => return Err(error.into()),
    };
    let opened = match super::open(segment.name, object.clone()).await? {
        Ok(opened) => opened,
        Err(why) => return Ok((Some(why), ObjectSize::default())),
    };
    let size = super::size_of(&object, &opened);
    Ok((rows.compare(segment, &opened, size).await?, size))
}
