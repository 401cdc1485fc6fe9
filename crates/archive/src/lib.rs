//! The object archive: sealed segments of old messages in a directory or an S3 bucket, read one
//! block at a time.
//!
//! [`segment`] defines the byte format. [`Vault`] stores the objects and caches their blocks. The
//! store decides which messages are old, which rows refer to them, and what is an orphan; it also
//! defines the content of a record.

mod depot;
mod engine;
mod error;
mod fetch;
mod frames;
mod marker;
mod name;
mod profile;
pub mod segment;
mod settings;
mod silence;
mod staging;
mod vault;

pub use depot::{Depot, DepotPlace};
pub use error::VaultError;
pub use name::{InvalidSegmentName, SegmentName};
pub use segment::{FRAME_MESSAGES, FRAME_RAW_BYTES, FrameRef};
pub use settings::{ArchiveEngine, ArchiveSettings};
pub use vault::{Put, Vault, VaultCounters};

/// Re-exported for tests that pass their own object store, such as one that fails.
pub use object_store;
