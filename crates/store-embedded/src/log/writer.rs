//! Appending batches.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use thiserror::Error;

use super::durable::{Claim, Notes};
use super::frame::{BatchBuffer, Frame};
use super::scan::ScanEnd;
use super::segment::{self, FIRST_FRAME, SegmentHeader};
use super::{BatchNumber, SegmentNumber, Spares, StoreTag};
use crate::disk::Disk;

#[derive(Clone, Debug)]
pub struct WriterSettings {
    pub directory: PathBuf,
    pub segment_bytes: u64,
    pub tag: StoreTag,
    pub disk: Disk,
}

/// The end of the log. There is one, and one thread has it.
pub struct LogWriter {
    settings: WriterSettings,
    spares: Arc<Spares>,
    /// Every segment that still matters, oldest first; the last one is being written.
    segments: VecDeque<(SegmentNumber, BatchNumber)>,
    active: Option<Active>,
    next_batch: BatchNumber,
    /// Written after each sync.
    notes: Notes,
}

/// Why a batch is not durable.
#[derive(Debug, Error)]
pub enum AppendError {
    /// It was not written whole, and will never be read.
    #[error("the log cannot be written: {0}")]
    Write(io::Error),
    /// It may or may not be on the disk. If the process dies before the next batch, a restart may find it.
    #[error("the log cannot be synced: {0}")]
    Sync(io::Error),
}

struct Active {
    file: File,
    offset: u64,
}

impl LogWriter {
    /// Goes on where [`super::scan`] ended. The last batch is written and synced once more: whoever sends one of its
    /// messages again is told that it is stored, so it must be. (Synced alone would not do: after a failed sync the
    /// kernel may hold as clean what never reached the disk.)
    pub fn resume(settings: WriterSettings, spares: Arc<Spares>, end: ScanEnd) -> io::Result<LogWriter> {
        if let Some(last) = &end.last_frame {
            let file = segment::open(&segment::path_of(&settings.directory, last.segment))?;
            settings.disk.write_at(&file, &last.bytes, last.offset)?;
            settings.disk.sync(&file)?;
        }
        let active = match end.resume_at {
            None => None,
            Some((number, offset)) => {
                let file = segment::open(&segment::path_of(&settings.directory, number))?;
                Some(Active { file, offset })
            }
        };
        let mut notes = Notes::open(&settings.directory, &settings.disk, settings.tag);
        if let Some(last) = &end.last_frame {
            let batch = BatchNumber(end.next_batch.0 - 1);
            let frame_checksum = Frame::stored_checksum(&last.bytes);
            notes.note(&Claim { batch, segment: last.segment, frame_checksum });
        }
        let segments = end.segments.into();
        let writer = LogWriter { settings, spares, segments, active, next_batch: end.next_batch, notes };
        writer.spares.note_durable(writer.last_batch());
        Ok(writer)
    }

    /// The largest payload that fits one segment.
    pub fn max_payload_bytes(&self) -> usize {
        let overhead = FIRST_FRAME + super::frame::HEADER_BYTES as u64 + super::frame::ALIGNMENT as u64;
        usize::try_from(self.settings.segment_bytes - overhead).expect("a segment fits into memory")
    }

    /// The newest durable batch.
    pub fn last_batch(&self) -> BatchNumber {
        BatchNumber(self.next_batch.0 - 1)
    }

    /// Makes a batch durable, and says how long the sync took. After an error the batch does not exist: the next
    /// one takes its number in a fresh segment, whose header says that the old one ends before it. (After a failed
    /// sync nobody knows which of the file's pages are on disk, so that file is never written again.)
    pub fn append(&mut self, batch: &mut BatchBuffer) -> Result<Duration, AppendError> {
        batch.seal(self.next_batch, self.settings.tag);
        let length = batch.bytes.len() as u64;
        let fits =
            self.active.as_ref().is_some_and(|active| active.offset + length <= self.settings.segment_bytes);
        if !fits {
            self.active = None;
            self.active = Some(self.start_segment().map_err(AppendError::Write)?);
        }
        let Some(mut active) = self.active.take() else { unreachable!("a segment was just started") };
        let sync = self.write(&active, &batch.bytes).inspect_err(|_| self.abandon_if_unused(&active))?;
        active.offset += length;
        self.active = Some(active);
        self.spares.note_durable(self.next_batch);
        if let Some(&(segment, _)) = self.segments.back() {
            let frame_checksum = Frame::stored_checksum(&batch.bytes);
            self.notes.note(&Claim { batch: self.next_batch, segment, frame_checksum });
        }
        self.next_batch = self.next_batch.next();
        Ok(sync)
    }

    /// Makes the first segment, so that a log that is gone can be told from one that never was.
    pub fn start(&mut self) -> io::Result<()> {
        if self.segments.is_empty() {
            let active = self.start_segment()?;
            self.settings.disk.sync(&active.file)?;
            self.active = Some(active);
        }
        Ok(())
    }

    /// Leaves the segment that is being written for the next one, and says which batch was the last before it. An empty
    /// batch goes first: a segment with a batch in it is not abandoned, so a log that lets go of all earlier ones still
    /// has a file. After an error the log goes on where it was.
    pub(super) fn roll(&mut self) -> Result<BatchNumber, AppendError> {
        let before = self.last_batch();
        let left = self.active.take();
        match self.append(&mut BatchBuffer::with_capacity(0)) {
            Ok(_) => Ok(before),
            Err(error) => {
                // Were its header to come back after a crash, it would end the segment before it here.
                self.active = if self.next_segment_is_surely_absent() { left } else { None };
                Err(error)
            }
        }
    }

    fn next_segment_is_surely_absent(&self) -> bool {
        let path = segment::path_of(&self.settings.directory, self.next_segment());
        matches!(path.try_exists(), Ok(false))
            && self.settings.disk.sync_directory(&self.settings.directory).is_ok()
    }

    fn next_segment(&self) -> SegmentNumber {
        self.segments.back().map_or(SegmentNumber(1), |(last, _)| SegmentNumber(last.0 + 1))
    }

    pub(super) fn spares(&self) -> &Spares {
        &self.spares
    }

    fn write(&self, active: &Active, bytes: &[u8]) -> Result<Duration, AppendError> {
        self.settings.disk.write_at(&active.file, bytes, active.offset).map_err(AppendError::Write)?;
        let before_sync = Instant::now();
        self.settings.disk.sync(&active.file).map_err(AppendError::Sync)?;
        Ok(before_sync.elapsed())
    }

    /// A segment whose very first batch failed holds nothing; else every try on a failing disk would take another one.
    fn abandon_if_unused(&mut self, active: &Active) {
        if active.offset == FIRST_FRAME
            && let Some((number, _)) = self.segments.pop_back()
        {
            let path = segment::path_of(&self.settings.directory, number);
            if let Err(error) = std::fs::remove_file(&path) {
                tracing::warn!(%error, path = %path.display(), "an unused log segment could not be removed");
            }
        }
    }

    fn start_segment(&mut self) -> io::Result<Active> {
        let number = self.next_segment();
        let path = segment::path_of(&self.settings.directory, number);
        self.spares.take(&path)?;
        let length = self.settings.segment_bytes;
        let header = SegmentHeader { number, tag: self.settings.tag, first_batch: self.next_batch, length };
        let started = segment::open(&path).and_then(|file| {
            self.settings.disk.write_at(&file, &header.encode(), 0)?;
            self.settings.disk.sync_directory(&self.settings.directory)?;
            Ok(file)
        });
        let file = started.inspect_err(|_| {
            // It holds nothing; the number is used again.
            let _ = std::fs::remove_file(&path);
        })?;
        self.segments.push_back((number, self.next_batch));
        Ok(Active { file, offset: FIRST_FRAME })
    }

    /// Lets go of segments in which nothing lies after `batch`.
    pub fn recycle_through(&mut self, batch: BatchNumber) -> io::Result<()> {
        while let [_, (_, next_first), ..] = *self.segments.make_contiguous() {
            if next_first > batch.next() {
                break;
            }
            let Some((number, _)) = self.segments.pop_front() else { unreachable!("there are two") };
            self.spares.give_back(&segment::path_of(&self.settings.directory, number))?;
        }
        Ok(())
    }

    /// Has every segment deleted in which nothing lies after `batch`, also one that could not be recycled before.
    pub(super) fn delete_through(&mut self, batch: BatchNumber) -> io::Result<()> {
        self.recycle_through(batch)?;
        let Some(&(oldest, _)) = self.segments.front() else { return Ok(()) };
        let files = segment::list(&self.settings.directory)?;
        self.spares.doom(files.into_iter().filter(|(number, _)| *number < oldest).map(|(_, path)| path));
        Ok(())
    }
}
