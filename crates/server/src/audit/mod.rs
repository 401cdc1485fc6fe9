//! The audit trail of administrative acts: who did what to whom, when, and with which outcome. Each
//! entry is one line of JSON. A request writes its entry durably before it acts, and does not act
//! if that fails. Entries never contain secrets, tokens or message content.
//!
//! Operational logs do not belong here. Neither do the acts of users on their own accounts.

mod entry;
mod failed_keys;
mod settings;
mod trail;

pub(crate) use entry::sanitize;
pub use entry::{Act, AuditEntry, CommandLine, Outcome, Subject, Who};
pub(crate) use failed_keys::FailedKeys;
pub use settings::AuditSettings;
pub use trail::{AuditWriteError, Trail};
