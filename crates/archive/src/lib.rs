//! The object archive: sealed segments of old messages in a directory or an S3 bucket, read one
//! block at a time.
//!
//! [`segment`] defines the byte format. [`ObjectArchive`] stores the objects and caches their
//! blocks. [`jobs`] moves messages to the archive and back, over a port that each store implements.
//! The store defines its rows and the content of a record.

mod backup;
mod block_cache;
mod engine;
mod error;
mod fetch;
pub mod jobs;
mod marker;
mod name;
mod object_archive;
mod profile;
pub mod segment;
mod segment_ref;
mod settings;
mod silence;
mod staging;

pub use backup::{BackupDestination, BackupLocation};
pub use error::{ObjectArchiveError, is_damage};
pub use name::{InvalidSegmentName, SegmentName};
pub use object_archive::{ObjectArchive, ObjectArchiveCounters, Put};
pub use segment::{BLOCK_MESSAGES, BLOCK_RAW_BYTES, BlockRef};
pub use segment_ref::{InvalidSegmentRef, SegmentRef};
pub use settings::{ArchiveEngine, ArchiveSettings};

/// Re-exported for tests that pass their own object store, such as one that fails.
pub use object_store;
