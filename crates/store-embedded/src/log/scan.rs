//! Reading the log back: what is true, and where it ends.
//!
//! A batch that was torn by a crash can only be the last one, because the next is not written before it is synced.
//! So a frame that cannot be read is the end of the log if nothing newer lies behind it, and damage otherwise; damage
//! is reported with its place, never skipped. A log that ends before a batch that was durable once (`durable.rs`) is
//! damaged too.

use std::path::Path;

use super::durable::newest_claim;
use super::frame::{ALIGNMENT, Frame};
use super::segment::{self, FIRST_FRAME};
use super::{BatchNumber, LogError, SegmentNumber, StoreTag};

/// Where the writer goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanEnd {
    /// Segments and the first batch of each, oldest first.
    pub segments: Vec<(SegmentNumber, BatchNumber)>,
    /// The last segment and the first free byte in it.
    pub resume_at: Option<(SegmentNumber, u64)>,
    /// The last batch and where it lies. The crash may have come before it was synced.
    pub last_frame: Option<LastFrame>,
    pub next_batch: BatchNumber,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastFrame {
    pub segment: SegmentNumber,
    pub offset: u64,
    pub bytes: Vec<u8>,
}

/// Gives every batch after `checkpoint` to `visit`, in order.
pub fn scan<E: From<LogError>>(
    directory: &Path,
    tag: StoreTag,
    checkpoint: BatchNumber,
    mut visit: impl FnMut(Frame<'_>) -> Result<(), E>,
) -> Result<ScanEnd, E> {
    let io_error = |path: &Path, error| LogError::Io { path: path.to_owned(), error };
    let files = segment::list(directory).map_err(|error| io_error(directory, error))?;
    let mut segments = Vec::new();
    let mut unbegun = None;
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
                        format!("the file has lost its end: it had {} bytes and has {length}", header.length);
                    return Err(damaged(path, length, &what).into());
                }
                segments.push((*number, path, header.first_batch));
            }
            // The crash came after it was taken from the spares and before its header was written.
            _ if position + 1 == files.len() => unbegun = Some(path),
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
    let mut last_frame = None;
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
            let frame = bytes.get(offset..).and_then(|rest| Frame::read(rest, tag));
            let Some(frame) = frame.filter(|frame| frame.number == expected) else {
                if next_first.is_some() || newer_frame_behind(&bytes, offset, tag, expected) {
                    let what = format!("batch {} cannot be read", expected.0);
                    return Err(damaged(path, offset as u64, &what).into());
                }
                if bytes.get(offset..).is_some_and(|rest| Frame::begins(rest, tag, expected)) {
                    let file = path.display();
                    tracing::warn!(%file, offset, "an unfinished batch at the end of the log is dropped; nobody was told that it was stored");
                }
                break;
            };
            let checksum = Frame::stored_checksum(&bytes[offset..]);
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
            last_frame = Some(LastFrame { segment: number, offset, bytes: bytes[last].to_vec() });
        }
    }
    if expected <= checkpoint {
        let what = format!("the log ends before batch {}, to which the tables are written", checkpoint.0);
        return Err(damaged(directory, 0, &what).into());
    }
    if let Some(what) = claim.and_then(|claim| claim.missing_from(expected)) {
        let (path, offset) = match (unbegun, resume_at) {
            (Some(path), _) => (path.clone(), 0),
            (None, Some((number, offset))) => (segment::path_of(directory, number), offset),
            (None, None) => (directory.to_owned(), 0),
        };
        return Err(damaged(&path, offset, &what).into());
    }
    if let Some(path) = unbegun {
        // A log that was written to never lets go of its last segment, so one without a header is not new.
        if segments.is_empty() && checkpoint > BatchNumber::NONE {
            return Err(damaged(path, 0, "the header of the segment is damaged").into());
        }
        let bytes = std::fs::read(path).map_err(|error| io_error(path, error))?;
        if newer_frame_behind(&bytes, 0, tag, BatchNumber(expected.0 - 1)) {
            return Err(
                damaged(path, 0, "the segment has no header, but batches that are not elsewhere").into()
            );
        }
        std::fs::remove_file(path).map_err(|error| io_error(path, error))?;
    }
    let segments = segments.iter().map(|&(number, _, first)| (number, first)).collect();
    Ok(ScanEnd { segments, resume_at, last_frame, next_batch: expected })
}

pub(super) fn newer_frame_behind(bytes: &[u8], offset: usize, tag: StoreTag, expected: BatchNumber) -> bool {
    (offset.next_multiple_of(ALIGNMENT)..bytes.len())
        .step_by(ALIGNMENT)
        .filter_map(|at| Frame::read(&bytes[at..], tag))
        .any(|frame| frame.number > expected)
}

fn damaged(path: &Path, offset: u64, what: &str) -> LogError {
    LogError::Damaged { path: path.to_owned(), offset, what: what.to_owned() }
}
