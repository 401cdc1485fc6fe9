//! The store inside the binary: *the commit log is the store; tables are derived from it*.
//!
//! ```text
//!  append ──► queue ──► committer ──► log (one write, one fdatasync a batch) ──► memory ──► listener, answer
//!                                                                                  │
//!  page   ◄── memory tail, then chunks ◄── tables (LMDB) ◄── checkpoint ◄── sealed generation
//! ```
//!
//! Where to look: [`log`] makes bytes durable, [`codec`] says what they mean, [`memory`] holds what the tables do not
//! have yet, [`commit`] is the one thread that writes, [`checkpoint`] turns memory into [`tables`], [`recovery`] does
//! it all again after a crash, [`archive`] moves what is old to an object store, and [`EmbeddedStore`] is the port the rest of the server sees.

pub mod archive;
pub mod backup;
mod behind;
pub mod check;
pub mod checkpoint;
pub mod codec;
pub mod commit;
pub mod dedupe;
pub mod disk;
pub mod export;
mod inbox;
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
pub mod tables;
mod wake;

pub use open::{OpenError, StoreParts, Work};
pub use probe::probe;
pub use settings::StoreSettings;
pub use steps::Steps;
pub use store::EmbeddedStore;
