//! The commit log: the one place where something becomes durable.
//!
//! A log is a run of *segments*, files of one fixed size; a segment is a header and then *batches*. A batch is
//! written whole, synced, and only then true. Batches are numbered without gaps over the life of the store; that
//! number tells new bytes from the old ones that lie behind them in a recycled segment.
//!
//! What the events in a batch mean is none of this folder's business.

mod copy;
mod durable;
mod frame;
mod look;
mod scan;
mod scrub;
pub(crate) mod segment;
mod spares;
mod writer;

#[cfg(test)]
mod end_tests;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

pub use copy::{CopiedLog, copy, write_segments};
pub use durable::NAME as DURABLE_NOTE;
pub use frame::{BatchBuffer, Frame};
pub use look::{LogCount, LogFinding, look};
pub use scan::{ScanEnd, scan};
pub use scrub::Scrub;
pub use spares::{Held, Spares};
use thiserror::Error;
pub use writer::{AppendError, LogWriter, WriterSettings};

/// For the fuzz targets alone.
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing {
    pub use super::segment::{FIRST_FRAME, SegmentHeader, path_of};
}

/// Which batch, counted from 1 over the life of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct BatchNumber(pub u64);

impl BatchNumber {
    pub const NONE: BatchNumber = BatchNumber(0);

    pub const fn next(self) -> BatchNumber {
        BatchNumber(self.0 + 1)
    }
}

/// Which file, counted from 1 over the life of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentNumber(pub u64);

/// Whether there is any segment.
pub fn look_for_segments(directory: &Path) -> io::Result<bool> {
    segment::list(directory).map(|segments| !segments.is_empty())
}

/// Random bytes that mark what belongs to this store and to no other.
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
