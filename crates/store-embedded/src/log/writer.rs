//! Appending batches.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use thiserror::Error;

use super::durable::{Claim, ClaimFile};
use super::frame::{BatchBuffer, LogFrame};
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

/// Appends batches to the log. Each log has one writer, owned by one thread.
pub struct LogWriter {
    settings: WriterSettings,
    spares: Arc<Spares>,
    /// The segments that are still needed, oldest first. The last one is being written.
    segments: VecDeque<(SegmentNumber, BatchNumber)>,
    active: Option<ActiveSegment>,
    next_batch: BatchNumber,
    /// Records each batch after its sync.
    notes: ClaimFile,
}

/// Why a batch is not durable.
#[derive(Debug, Error)]
pub enum AppendError {
    /// The batch was not written completely, so no scan will accept it.
    #[error("the log cannot be written: {0}")]
    Write(io::Error),
    /// The batch may or may not be on disk. If the process dies before the next batch, a restart
    /// may find it.
    #[error("the log cannot be synced: {0}")]
    Sync(io::Error),
}

struct ActiveSegment {
    file: File,
    offset: u64,
}

impl LogWriter {
    /// Continues where [`super::scan`] ended. Writes and syncs the last batch again: a client that
    /// resends one of its messages gets an acknowledgement, so the batch must be durable. A sync
    /// alone is not enough. After a failed sync the kernel may treat pages as clean that never
    /// reached the disk.
    pub fn resume(settings: WriterSettings, spares: Arc<Spares>, end: ScanEnd) -> io::Result<LogWriter> {
        if let Some(last) = &end.last_batch_bytes {
            let file = segment::open(&segment::path_of(&settings.directory, last.segment))?;
            settings.disk.write_at(&file, &last.bytes, last.offset)?;
            settings.disk.sync(&file)?;
        }
        let active = match end.resume_at {
            None => None,
            Some((number, offset)) => {
                let file = segment::open(&segment::path_of(&settings.directory, number))?;
                Some(ActiveSegment { file, offset })
            }
        };
        let mut notes = ClaimFile::open(&settings.directory, &settings.disk, settings.tag);
        if let Some(last) = &end.last_batch_bytes {
            let batch = BatchNumber(end.next_batch.0 - 1);
            let frame_checksum = LogFrame::stored_checksum(&last.bytes);
            notes.note(&Claim { batch, segment: last.segment, frame_checksum });
        }
        let segments = end.segments.into();
        let writer = LogWriter { settings, spares, segments, active, next_batch: end.next_batch, notes };
        writer.spares.note_durable(writer.last_batch());
        Ok(writer)
    }

    /// Returns the largest payload in bytes that fits into one segment.
    pub fn max_payload_bytes(&self) -> usize {
        let overhead = FIRST_FRAME + super::frame::HEADER_BYTES as u64 + super::frame::ALIGNMENT as u64;
        usize::try_from(self.settings.segment_bytes - overhead).expect("a segment fits into memory")
    }

    /// Returns the newest durable batch.
    pub fn last_batch(&self) -> BatchNumber {
        BatchNumber(self.next_batch.0 - 1)
    }

    /// Makes a batch durable and returns how long the sync took.
    ///
    /// After an error the batch does not exist. The next batch takes its number in a new segment,
    /// whose header marks the end of the old one. After a failed sync it is unknown which pages of
    /// the file are on disk, so that file is never written again.
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
            let frame_checksum = LogFrame::stored_checksum(&batch.bytes);
            self.notes.note(&Claim { batch: self.next_batch, segment, frame_checksum });
        }
        self.next_batch = self.next_batch.next();
        Ok(sync)
    }

    /// Creates the first segment of a new log, so that a lost log can be distinguished from a new
    /// one.
    pub fn start(&mut self) -> io::Result<()> {
        if self.segments.is_empty() {
            let active = self.start_segment()?;
            self.settings.disk.sync(&active.file)?;
            self.active = Some(active);
        }
        Ok(())
    }

    /// Switches to the next segment and returns the last batch before it.
    ///
    /// Starts the new segment with an empty batch. `abandon_if_unused` keeps a segment with a batch
    /// in it, so the log still has a file after all earlier segments are deleted. After an error
    /// the log continues in the old segment if the new one is certainly absent, and in a fresh one
    /// otherwise.
    pub(super) fn roll(&mut self) -> Result<BatchNumber, AppendError> {
        let before = self.last_batch();
        let left = self.active.take();
        match self.append(&mut BatchBuffer::with_capacity(0)) {
            Ok(_) => Ok(before),
            Err(error) => {
                // If the new segment's header reappeared after a crash, it would end the old
                // segment here.
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

    fn write(&self, active: &ActiveSegment, bytes: &[u8]) -> Result<Duration, AppendError> {
        self.settings.disk.write_at(&active.file, bytes, active.offset).map_err(AppendError::Write)?;
        let before_sync = Instant::now();
        self.settings.disk.sync(&active.file).map_err(AppendError::Sync)?;
        Ok(before_sync.elapsed())
    }

    /// Removes a segment whose first batch failed; it contains nothing. Otherwise every attempt on
    /// a failing disk would consume another segment.
    fn abandon_if_unused(&mut self, active: &ActiveSegment) {
        if active.offset == FIRST_FRAME
            && let Some((number, _)) = self.segments.pop_back()
        {
            let path = segment::path_of(&self.settings.directory, number);
            if let Err(error) = std::fs::remove_file(&path) {
                tracing::warn!(%error, path = %path.display(), "removing an unused log segment failed");
            }
        }
    }

    fn start_segment(&mut self) -> io::Result<ActiveSegment> {
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
            // The file contains no batches, and its number is used again.
            let _ = std::fs::remove_file(&path);
        })?;
        self.segments.push_back((number, self.next_batch));
        Ok(ActiveSegment { file, offset: FIRST_FRAME })
    }

    /// Returns the segments that contain no batch after `batch` to the spares.
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

    /// Schedules every segment without a batch after `batch` for deletion, including those that
    /// could not be recycled before. During a scrub, `recycle_through` deletes as well.
    pub(super) fn delete_through(&mut self, batch: BatchNumber) -> io::Result<()> {
        self.recycle_through(batch)?;
        let Some(&(oldest, _)) = self.segments.front() else { return Ok(()) };
        let files = segment::list(&self.settings.directory)?;
        self.spares.schedule_deletion(
            files.into_iter().filter(|(number, _)| *number < oldest).map(|(_, path)| path),
        );
        Ok(())
    }
}
