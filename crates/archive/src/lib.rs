//! Where old messages lie: sealed segments in a directory or an S3 bucket, read a part at a time.
//!
//! [`segment`] knows the bytes, [`Vault`] knows where they are kept and what of them is in memory. Which messages are
//! old, which rows refer to them and what is an orphan belongs to the store; what a record says, too.

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

/// For tests that bring their own object store, such as one that fails.
pub use object_store;
