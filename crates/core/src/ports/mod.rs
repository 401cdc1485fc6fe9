//! The few doors through which the rules reach the world.

mod commit;
mod observer;
mod random;
mod store;

pub use commit::{Change, CommitListener, Committed, Moved, NoListener, Origin};
pub use observer::{CheckpointReport, CommitReport, NoObserver, StoreObserver};
pub use random::{Random, SystemRandom};
pub use store::{
    Accepted, AddMembers, Append, Appended, Behind, Creation, Health, Mark, MemberStatus, Missed,
    NewConversation, Opened, Position, Prefer, RemoveMember, Statuses, Store, UserUpdate,
};
