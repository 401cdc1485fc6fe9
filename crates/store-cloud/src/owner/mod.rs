//! The owners of one node: which conversations this node writes, and the calls that wait for each.
//!
//! A node owns a conversation as soon as it gets a call for it. Another node may own it at the same
//! time: the [log](crate::log) keeps both correct. Which node should get a call is decided by the
//! cluster, not here.

mod dedupe_floor;
mod members;
mod pool;
mod read_states;
mod spread;

pub use dedupe_floor::DedupeFloor;
pub use members::{MemberRows, OwnedMembers};
pub use pool::{MembershipPlan, OwnerParts, OwnerPool, OwnerSettings, StoredListener};
pub use read_states::ReadStates;
pub use spread::{SpreadMeter, WRITES_PER_PARTITION};
