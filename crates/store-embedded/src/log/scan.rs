//! Reads the log back and finds its end.
//!
//! A crash can only tear the last batch, because the next one is not written before the sync of the
//! last returned. An unreadable frame is therefore the end of the log if no newer frame follows,
//! and damage otherwise. Damage is reported with file and offset, never skipped. A log that ends
//! before a batch that was durable once (`durable.rs`) is damaged too.

use std::path::Path;

use super::durable::newest_claim;
use super::frame::{ALIGNMENT, LogFrame};
use super::segment::{self, FIRST_FRAME};
use super::{BatchNumber, LogError, SegmentNumber, StoreTag};

/// Where the writer continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanEnd {
    /// The segments and the first batch of each, oldest first.
    pub segments: Vec<(SegmentNumber, BatchNumber)>,
    /// The last segment and the offset of its first free byte.
    pub resume_at: Option<(SegmentNumber, u64)>,
    /// The last batch and its location. A crash may have hit before its sync.
    pub last_batch_bytes: Option<LastBatch>,
    pub next_batch: BatchNumber,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastBatch {
    pub segment: SegmentNumber,
    pub offset: u64,
    pub bytes: Vec<u8>,
}

/// Passes every batch after `checkpoint` to `visit`, in order. Deletes a last segment that has no
/// header and no newer batches. Returns [`LogError::Damaged`] if a durable batch is lost or
/// unreadable.
pub fn scan<E: From<LogError>>(
    directory: &Path,
    tag: StoreTag,
    checkpoint: BatchNumber,
    mut visit: impl FnMut(LogFrame<'_>) -> Result<(), E>,
) -> Result<ScanEnd, E> {
    let io_error = |path: &Path, error| LogError::Io { path: path.to_owned(), error };
    let files = segment::list(directory).map_err(|error| io_error(directory, error))?;
    let mut segments = Vec::new();
    let mut headerless = None;
    for (position, (number, path)) in files.iter().enumerate() {
        let header = segment::read_header(path)?;
        match header {
            Some(header) if header.tag != tag => {
                return Err(damaged(path, 0, "the segment belongs to another store").into());
            }
            Some(header) if header.number == *number => {
                let length = path.metadata().map_err(|error| io_error(path, error))?.len();
                if length < header.length {
                    let what =
                        format!("the file is truncated: it had {} bytes and has {length}", header.length);
                    return Err(damaged(path, length, &what).into());
                }
                segments.push((*number, path, header.first_batch));
            }
            // A crash hit after the file was taken from the spares, before its header was written.
            _ if position + 1 == files.len() => headerless = Some(path),
            _ => return Err(damaged(path, 0, "the segment has no header").into()),
        }
    }

    let mut expected = match segments.first() {
        None => checkpoint.next(),
        Some((_, path, first)) if *first > checkpoint.next() => {
            let what = format!("batches {} to {} are missing before it", checkpoint.0 + 1, first.0 - 1);
            return Err(damaged(path, 0, &what).into());
        }
        Some((_, _, first)) => *first,
    };
    let claim = newest_claim(directory, tag);
    let mut resume_at = None;
    let mut last_batch_bytes = None;
    for (position, &(number, path, _)) in segments.iter().enumerate() {
        let next_first = segments.get(position + 1).map(|&(_, _, first)| first);
        if next_first.is_some_and(|first| first <= checkpoint.next()) {
            expected = next_first.unwrap_or(expected);
            continue;
        }
        let bytes = std::fs::read(path).map_err(|error| io_error(path, error))?;
        let mut offset = FIRST_FRAME as usize;
        let mut last = 0..0;
        while next_first != Some(expected) {
            let frame = bytes.get(offset..).and_then(|rest| LogFrame::read(rest, tag));
            let Some(frame) = frame.filter(|frame| frame.number == expected) else {
                if next_first.is_some() || newer_frame_follows(&bytes, offset, tag, expected) {
                    let what = format!("batch {} cannot be read", expected.0);
                    return Err(damaged(path, offset as u64, &what).into());
                }
                if bytes.get(offset..).is_some_and(|rest| LogFrame::begins(rest, tag, expected)) {
                    let file = path.display();
                    tracing::warn!(%file, offset, "unfinished batch at the end of the log dropped; it was never acknowledged");
                }
                break;
            };
            let checksum = LogFrame::stored_checksum(&bytes[offset..]);
            if let Some(what) = claim.and_then(|claim| claim.contradicts(frame.number, number, checksum)) {
                return Err(damaged(path, offset as u64, &what).into());
            }
            if frame.number > checkpoint {
                visit(frame)?;
            }
            last = offset..offset + frame.length_on_disk();
            offset = last.end;
            expected = expected.next();
        }
        resume_at = Some((number, offset as u64));
        if !last.is_empty() {
            let offset = last.start as u64;
            last_batch_bytes = Some(LastBatch { segment: number, offset, bytes: bytes[last].to_vec() });
        }
    }
    if expected <= checkpoint {
        let what = format!("the log ends before batch {}, to which the tables are written", checkpoint.0);
        return Err(damaged(directory, 0, &what).into());
    }
    if let Some(what) = claim.and_then(|claim| claim.missing_from(expected)) {
        let (path, offset) = match (headerless, resume_at) {
            (Some(path), _) => (path.clone(), 0),
            (None, Some((number, offset))) => (segment::path_of(directory, number), offset),
            (None, None) => (directory.to_owned(), 0),
        };
        return Err(damaged(&path, offset, &what).into());
    }
    if let Some(path) = headerless {
        // Once written, a log always keeps a segment with a header. This one is damaged, not new.
        if segments.is_empty() && checkpoint > BatchNumber::NONE {
            return Err(damaged(path, 0, "the header of the segment is damaged").into());
        }
        let bytes = std::fs::read(path).map_err(|error| io_error(path, error))?;
        if newer_frame_follows(&bytes, 0, tag, BatchNumber(expected.0 - 1)) {
            return Err(damaged(path, 0, "the segment has no header, but newer batches").into());
        }
        std::fs::remove_file(path).map_err(|error| io_error(path, error))?;
    }
    let segments = segments.iter().map(|&(number, _, first)| (number, first)).collect();
    Ok(ScanEnd { segments, resume_at, last_batch_bytes, next_batch: expected })
}

pub(super) fn newer_frame_follows(bytes: &[u8], offset: usize, tag: StoreTag, expected: BatchNumber) -> bool {
    (offset.next_multiple_of(ALIGNMENT)..bytes.len())
        .step_by(ALIGNMENT)
        .filter_map(|at| LogFrame::read(&bytes[at..], tag))
        .any(|frame| frame.number > expected)
}

fn damaged(path: &Path, offset: u64, what: &str) -> LogError {
    LogError::Damaged { path: path.to_owned(), offset, what: what.to_owned() }
}
