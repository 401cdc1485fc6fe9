//! The ports: traits through which the domain rules reach storage, other nodes and randomness.

mod archive;
mod commit;
mod fleet;
mod observer;
mod store;

pub use archive::{
    Archive, ArchiveCounters, ArchiveError, ArchiveRun, ArchiveStatus, Backup, BackupReport, ColdCount,
    Erase, EraseReport, EraseScope, NoProgress, Progress, RestoreReport, RunReport, Stage, VerifyReport,
};
pub use bluetick_types::{Random, SystemRandom};
pub use commit::{CommitListener, Committed, CommittedChange, NoListener, Origin, ReadStateMoved};
pub use fleet::{Ephemeral, Fleet, FleetCounters, NoFleet};
pub use observer::{CheckpointReport, CommitReport, NoObserver, StoreObserver};
pub use store::{
    Accepted, AddMembers, Append, Appended, Behind, Creation, Health, MemberStatus, Missed, NewConversation,
    OpenedConversation, Position, Receipt, RemoveMember, SetPreferences, Statuses, Store, UserUpdate,
};
