//! A copy of everything there is at one moment, in another place; and a data directory made of such a copy.
//!
//! The moment is the end of the log when it is copied: rows of one snapshot of the tables, and the log after the position they
//! stand for, which is what a start after a crash works with too. Writers go on meanwhile.
//!
//! ```text
//! log-000001.part …    batches after the position, as they lie on the disk
//! rows-000001.part …   every row of every table
//! token.key admin.key  where keys go along
//! MANIFEST.json        what the parts are, with their checksums. Written last: without it there is no backup
//! ```

mod damage;
mod declare;
mod epoch;
mod manifest;
mod parts;
mod restore;
mod write;

use bluetick_archive::VaultError;
use bluetick_core::ports::ArchiveError;
pub use declare::{DeclareError, PutBack};
pub use manifest::{MANIFEST, Manifest, ManifestError, Part, PartKind};
pub use restore::{RESTORING, RestoreError, RestoreParts, Restored, restore};

/// The files of a data directory that are secrets: with them anybody can act as anybody.
pub const KEY_FILES: [&str; 2] = ["token.key", "admin.key"];

/// What a failure of the place means for a backup.
fn at_place(error: VaultError) -> ArchiveError {
    match error {
        VaultError::Settings(why) => ArchiveError::Refused(why),
        VaultError::Missing { name } => ArchiveError::Unavailable(format!("{name} is not there any more")),
        VaultError::Damaged { name, why } => ArchiveError::Unavailable(format!("{name}: {why}")),
        VaultError::Unavailable(why) => ArchiveError::Unavailable(why),
    }
}
