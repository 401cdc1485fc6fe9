//! Conversations that are too busy for one partition of the messages' table: where a place lies, who decides that, and
//! how what lies in several partitions is read as one. The argument why nobody ever disagrees is in ARCHITECTURE.md, "Hot
//! conversations".
//!
//! What a message is and how it gets its place does not belong here; everything here knows conversations, seqs and rows.

pub mod epochs;
pub mod keeper;
pub mod limiter;
pub mod listing;
pub mod place;
pub mod plan;
pub mod rate;
pub mod reader;
mod shared;

pub use epochs::{Registry, SaltEpoch};
pub use keeper::Keeper;
pub(crate) use place::SIGNPOST;
pub use place::{Layout, Partition};
pub use reader::Reader;
