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

pub mod archive;
pub mod backup;
mod catch_up;
pub mod check;
pub mod checkpoint;
pub mod codec;
pub mod commit;
pub mod dedupe;
pub mod disk;
pub mod export;
mod inbox;
mod load;
pub mod lock;
pub mod log;
pub mod memory;
mod open;
mod people;
mod probe;
mod read;
mod readers;
pub mod recovery;
mod settings;
mod steps;
mod store;
mod sync;
pub mod tables;

pub use open::{OpenError, StoreParts, WorkMode};
pub use probe::probe;
pub use settings::StoreSettings;
pub use steps::Steps;
pub use store::EmbeddedStore;
