//! The commit log. A write becomes durable here, before it is acknowledged.
//!
//! A log is a sequence of *segments*, files of a fixed size. A segment is a header followed by
//! *batches*. A batch is written as a whole and synced, and takes effect only then. Batch numbers
//! are contiguous over the life of the store. They distinguish new bytes from the stale ones behind
//! them in a recycled segment.
//!
//! The meaning of the events in a batch does not belong here; see [`crate::codec`].

mod copy;
mod durable;
mod frame;
mod scan;
mod scrub;
pub(crate) mod segment;
mod spares;
mod verify;
mod writer;

#[cfg(test)]
mod end_tests;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

pub use copy::{copy, write_segments};
#[cfg(any(test, feature = "test-internals"))]
pub use durable::NAME as DURABLE_FILE;
pub use frame::{BatchBuffer, LogFrame};
pub use scan::{ScanEnd, scan};
pub use scrub::Scrub;
pub use spares::Spares;
use thiserror::Error;
pub use verify::{LogFinding, verify};
pub use writer::{AppendError, LogWriter, WriterSettings};

/// Only for the fuzz targets.
#[cfg(feature = "test-internals")]
#[doc(hidden)]
pub mod fuzzing {
    pub use super::segment::{FIRST_FRAME, SegmentHeader, path_of};
}

/// The number of a batch, counted from 1 over the life of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct BatchNumber(pub u64);

impl BatchNumber {
    /// The number before the first batch.
    pub const NONE: BatchNumber = BatchNumber(0);

    pub const fn next(self) -> BatchNumber {
        BatchNumber(self.0 + 1)
    }
}

/// The number of a segment file, counted from 1 over the life of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentNumber(pub u64);

/// Returns whether the directory contains any segment.
pub fn has_segments(directory: &Path) -> io::Result<bool> {
    segment::list(directory).map(|segments| !segments.is_empty())
}

/// Random bytes that identify the store to which a file or frame belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreTag(pub [u8; 8]);

#[derive(Debug, Error)]
pub enum LogError {
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error("{}: damaged at byte {offset}: {what}", path.display())]
    Damaged { path: PathBuf, offset: u64, what: String },
    #[error("{}: written in format version {found}, this program knows {known}; use a newer bluetick", path.display())]
    TooNew { path: PathBuf, found: u32, known: u32 },
}
