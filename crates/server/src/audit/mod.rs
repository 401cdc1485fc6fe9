//! The trail of administrative acts: who did what to whom, when, and how it ended. One line of JSON each, durable before the
//! act is done, so that nothing is done that is not written down. Never a secret, a token or what people wrote.
//!
//! What a program logs about itself does not belong here, and neither does what people do with their own accounts.

mod entry;
mod failed_keys;
mod settings;
mod trail;

pub(crate) use entry::tame;
pub use entry::{Act, CommandLine, Entry, Outcome, Subject, Who};
pub(crate) use failed_keys::FailedKeys;
pub use settings::AuditSettings;
pub use trail::{Trail, Unwritten};
