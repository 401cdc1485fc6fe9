//! Copies the batches after a given one while the writer may append, and writes a log from such a
//! copy.
//!
//! The caller must hold the segments ([`super::Spares::hold`]) before it reads the position.

use std::path::Path;

use super::frame::LogFrame;
use super::segment::{self, FIRST_FRAME, SegmentHeader};
use super::{BatchNumber, LogError, SegmentNumber, StoreTag};
use crate::disk::Disk;

/// How far a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopiedLog {
    /// The last batch in the copy. If the copy is empty, the batch it starts after.
    pub through: BatchNumber,
}

/// Passes every durable batch after `after` to `visit`, with its bytes as stored on disk.
///
/// `visit` may also get one batch that is still being written; a restart would find it too.
/// `durable` is the newest batch that the writer reported as durable. If the log ends before it,
/// the log is damaged. The last segment alone cannot distinguish damage from its end.
pub fn copy<E: From<LogError>>(
    directory: &Path,
    tag: StoreTag,
    after: BatchNumber,
    durable: BatchNumber,
    mut visit: impl FnMut(LogFrame<'_>, &[u8]) -> Result<(), E>,
) -> Result<CopiedLog, E> {
    let io_error = |path: &Path, error| LogError::Io { path: path.to_owned(), error };
    let damaged =
        |path: &Path, offset: u64, what: String| LogError::Damaged { path: path.to_owned(), offset, what };
    let mut segments = Vec::new();
    for (number, path) in segment::list(directory).map_err(|error| io_error(directory, error))? {
        // A segment without a header was just created and contains no batches.
        if let Some(header) = segment::read_header(&path)?.filter(|header| header.number == number) {
            segments.push((path, header));
        }
    }
    let mut expected = after.next();
    let mut end = (directory.to_owned(), 0);
    for (position, (path, header)) in segments.iter().enumerate() {
        let next_first = segments.get(position + 1).map(|(_, header)| header.first_batch);
        if next_first.is_some_and(|first| first <= expected) {
            continue;
        }
        if header.tag != tag {
            return Err(damaged(path, 0, "the segment belongs to another store".to_owned()).into());
        }
        let mut number = header.first_batch;
        if number > expected {
            let what = format!("batches {} to {} are missing before it", expected.0, number.0 - 1);
            return Err(damaged(path, 0, what).into());
        }
        let bytes = std::fs::read(path).map_err(|error| io_error(path, error))?;
        let mut offset = usize::try_from(FIRST_FRAME).expect("FIRST_FRAME is 4096");
        while next_first != Some(number) {
            let frame = bytes.get(offset..).and_then(|rest| LogFrame::read(rest, tag));
            let Some(frame) = frame.filter(|frame| frame.number == number) else {
                if next_first.is_some() {
                    let what = format!("batch {} cannot be read", number.0);
                    return Err(damaged(path, offset as u64, what).into());
                }
                break;
            };
            let next = (offset + frame.length_on_disk()).min(bytes.len());
            if number >= expected {
                visit(frame, &bytes[offset..next])?;
                expected = number.next();
            }
            offset = next;
            number = number.next();
        }
        end = (path.clone(), offset as u64);
    }
    if expected <= durable {
        let what = format!("batches {} to {} cannot be read", expected.0, durable.0);
        return Err(damaged(&end.0, end.1, what).into());
    }
    Ok(CopiedLog { through: BatchNumber(expected.0 - 1) })
}

/// Writes a log from batches in the form that [`copy`] passes to `visit`. `directory` must exist
/// and be empty. The log is durable when this function returns.
pub fn write_segments<E: From<LogError>>(
    directory: &Path,
    tag: StoreTag,
    after: BatchNumber,
    segment_bytes: u64,
    batches: impl Iterator<Item = Result<Vec<u8>, E>>,
) -> Result<CopiedLog, E> {
    let disk = Disk::default();
    let io_error = |path: &Path| {
        let path = path.to_owned();
        move |error| LogError::Io { path, error }
    };
    let mut open: Option<(std::fs::File, std::path::PathBuf, u64, u64)> = None;
    let (mut number, mut expected) = (SegmentNumber(1), after.next());
    let start = |number: SegmentNumber, first_batch: BatchNumber, room_for: u64| -> Result<_, LogError> {
        let path = segment::path_of(directory, number);
        let length = segment_bytes.max(FIRST_FRAME + room_for);
        let file = disk.create_zeroed(&path, length).map_err(io_error(&path))?;
        let header = SegmentHeader { number, tag, first_batch, length };
        disk.write_at(&file, &header.encode(), 0).map_err(io_error(&path))?;
        Ok((file, path, FIRST_FRAME, length))
    };
    for batch in batches {
        let batch = batch?;
        let frame = LogFrame::read(&batch, tag).filter(|frame| frame.number == expected);
        if frame.is_none_or(|frame| frame.length_on_disk() != batch.len()) {
            let what = format!("batch {} of the copy is damaged", expected.0);
            return Err(LogError::Damaged { path: directory.to_owned(), offset: 0, what }.into());
        }
        let bytes = batch.len() as u64;
        let full = open.as_ref().is_none_or(|(_, _, offset, length)| offset + bytes > *length);
        if full {
            if let Some((file, path, _, _)) = open.take() {
                disk.sync(&file).map_err(io_error(&path))?;
                number = SegmentNumber(number.0 + 1);
            }
            open = Some(start(number, expected, bytes)?);
        }
        let Some((file, path, offset, _)) = &mut open else { unreachable!("a segment was just started") };
        disk.write_at(file, &batch, *offset).map_err(io_error(path))?;
        *offset += bytes;
        expected = expected.next();
    }
    let (file, path, ..) = match open {
        Some(open) => open,
        None => start(number, expected, 0)?,
    };
    disk.sync(&file).map_err(io_error(&path))?;
    disk.sync_directory(directory).map_err(io_error(directory))?;
    Ok(CopiedLog { through: BatchNumber(expected.0 - 1) })
}
