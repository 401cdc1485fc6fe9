//! The embedded store: *the commit log is the store; tables are derived from it*.
//!
//! ```text
//! append ──► queue ──► committer ──► log (one write, one fdatasync per batch) ──► memory
//! memory ──► listener, then the answer
//! memory ──► sealed generation ──► checkpoint ──► tables (LMDB)
//! page   ◄── memory tail, then the chunks of the tables
//! ```
//!
//! - [`log`] makes bytes durable, and [`codec`] defines their meaning.
//! - [`memory`] holds the state that the tables do not contain yet.
//! - [`commit`] runs the committer, the only thread that appends to the log.
//! - [`checkpoint`] writes memory to the [`tables`], and [`recovery`] replays the log at a start.
//! - [`archive`] moves old content to an object store.
//! - [`EmbeddedStore`] implements the port that the rest of the server uses.

/// Declares modules that are private in a product. The feature `test-internals` makes them public,
/// for tests, the simulation and the fuzzer.
macro_rules! internal_modules {
    ($($name:ident),* $(,)?) => {
        $(
            #[cfg(feature = "test-internals")]
            pub mod $name;
            #[cfg(not(feature = "test-internals"))]
            mod $name;
        )*
    };
}

internal_modules!(archive, checkpoint, codec, commit, dedupe, disk, lock, log, memory, recovery, tables);

pub mod backup;
mod catch_up;
pub mod check;
pub mod export;
mod footprint;
mod inbox;
mod load;
mod open;
mod people;
mod probe;
mod read;
mod readers;
mod settings;
mod steps;
mod store;
mod sync;

pub use footprint::{Footprint, footprint};
pub use lock::LockError;
pub use open::{OpenError, StoreParts, WorkMode};
pub use probe::probe;
pub use settings::StoreSettings;
pub use steps::Steps;
pub use store::EmbeddedStore;
