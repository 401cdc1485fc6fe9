//! Verifies every frame of every segment. It continues after damage, so its report is complete.

use std::io;
use std::path::{Path, PathBuf};

use super::durable::newest_claim;
use super::frame::LogFrame;
use super::scan::newer_frame_follows;
use super::segment::{self, FIRST_FRAME, SegmentHeader};
use super::{BatchNumber, LogError, SegmentNumber, StoreTag};

/// One deviation from what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFinding {
    pub path: PathBuf,
    pub offset: u64,
    pub what: String,
}

/// The segments and batches that were verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCount {
    pub segments: u64,
    pub batches: u64,
    /// The log ends in an unfinished batch, which was never acknowledged.
    pub has_torn_end: bool,
}

/// Reports all damage to `report`, and passes the batches after `checkpoint` to `visit` with their
/// file and offset. Changes nothing. Without a `tag`, the tag of the first readable header is used.
pub fn verify(
    directory: &Path,
    tag: Option<StoreTag>,
    checkpoint: BatchNumber,
    report: &mut dyn FnMut(LogFinding),
    visit: &mut dyn FnMut(LogFrame<'_>, &Path, u64),
) -> io::Result<LogCount> {
    let mut count = LogCount::default();
    let mut finding =
        |path: &Path, offset: u64, what: String| report(LogFinding { path: path.to_owned(), offset, what });
    let files = segment::list(directory)?;
    let mut headers: Vec<(&Path, SegmentNumber, Option<SegmentHeader>)> = Vec::new();
    for (number, path) in &files {
        let header = match segment::read_header(path) {
            Ok(header) => header.filter(|header| header.number == *number),
            Err(LogError::Io { error, .. }) => return Err(error),
            Err(error) => {
                finding(path, 0, error.to_string());
                continue;
            }
        };
        headers.push((path, *number, header));
    }
    let tag = tag.or_else(|| headers.iter().find_map(|(_, _, header)| header.map(|header| header.tag)));
    let Some(tag) = tag else {
        for (path, ..) in &headers {
            finding(path, 0, "the header of the segment is damaged".to_owned());
        }
        return Ok(count);
    };
    let mut expected = BatchNumber::NONE;
    let was_written_to =
        checkpoint > BatchNumber::NONE && headers.iter().all(|(_, _, header)| header.is_none());
    let claim = newest_claim(directory, tag);
    let mut end = (directory, 0);
    for (position, (path, number, header)) in headers.iter().enumerate() {
        let bytes = std::fs::read(path)?;
        count.segments += 1;
        let Some(header) = header else {
            let is_last = position + 1 == headers.len();
            // A crash may hit after the file was taken from the spares, before its header was
            // written.
            if !is_last
                || was_written_to
                || newer_frame_follows(&bytes, 0, tag, BatchNumber(expected.0.saturating_sub(1)))
            {
                finding(path, 0, "the header of the segment is damaged".to_owned());
            }
            continue;
        };
        if header.tag != tag {
            finding(path, 0, "the segment belongs to another store".to_owned());
            continue;
        }
        if (bytes.len() as u64) < header.length {
            let what =
                format!("the file is truncated: it had {} bytes and has {}", header.length, bytes.len());
            finding(path, bytes.len() as u64, what);
        }
        let first = header.first_batch;
        let needed = expected.max(checkpoint.next());
        if expected != BatchNumber::NONE && first != expected
            || expected == BatchNumber::NONE && first > needed
        {
            let from = if expected == BatchNumber::NONE { needed } else { expected };
            finding(path, 0, format!("it begins with batch {} instead of {}", first.0, from.0));
        }
        expected = first;
        let next_first =
            headers[position + 1..].iter().find_map(|(.., header)| header.map(|next| next.first_batch));
        let mut offset = usize::try_from(FIRST_FRAME).expect("FIRST_FRAME is 4096");
        while next_first != Some(expected) {
            let frame = bytes.get(offset..).and_then(|rest| LogFrame::read(rest, tag));
            let Some(frame) = frame.filter(|frame| frame.number == expected) else {
                if next_first.is_some() || newer_frame_follows(&bytes, offset, tag, expected) {
                    let known = if expected <= checkpoint { "; the tables have its effects" } else { "" };
                    finding(path, offset as u64, format!("batch {} cannot be read{known}", expected.0));
                    expected = next_first.unwrap_or(expected);
                } else {
                    count.has_torn_end =
                        bytes.get(offset..).is_some_and(|rest| LogFrame::begins(rest, tag, expected));
                }
                break;
            };
            count.batches += 1;
            let checksum = LogFrame::stored_checksum(&bytes[offset..]);
            if let Some(what) = claim.and_then(|claim| claim.contradicts(frame.number, *number, checksum)) {
                finding(path, offset as u64, what);
            }
            if frame.number > checkpoint {
                visit(frame, path, offset as u64);
            }
            offset += frame.length_on_disk();
            expected = expected.next();
        }
        end = (path, offset as u64);
    }
    if let Some(what) = claim.and_then(|claim| claim.missing_from(expected)) {
        finding(end.0, end.1, what);
    }
    if expected <= checkpoint {
        let what = format!("the log ends before batch {}, to which the tables are written", checkpoint.0);
        finding(directory, 0, what);
    }
    Ok(count)
}
