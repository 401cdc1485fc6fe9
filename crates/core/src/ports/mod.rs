//! The few doors through which the rules reach the world.

mod commit;
mod observer;
mod random;
mod store;

pub use commit::{CommitListener, Committed, NoListener, Origin};
pub use observer::{CheckpointReport, CommitReport, NoObserver, StoreObserver};
pub use random::{Random, SystemRandom};
pub use store::{
    Accepted, AddMembers, Append, Appended, Creation, Health, NewConversation, Opened, RemoveMember, Store,
    UserUpdate,
};
