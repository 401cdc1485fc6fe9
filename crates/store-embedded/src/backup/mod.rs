//! Backup of a whole store as a consistent snapshot, and restore into a new data directory.
//!
//! A backup holds the rows of one snapshot of the tables, and the log after the position of that
//! snapshot. Its state is the end of the log at the time of the copy. Recovery after a crash works
//! with the same two parts. Writers continue during a backup.
//!
//! ```text
//! log-000001.part …    batches after the position, as stored on disk
//! rows-000001.part …   every row of every table
//! token.key admin.key  if keys are included
//! MANIFEST.json        the parts and their checksums; written last
//! ```
//!
//! Without `MANIFEST.json` the files are no backup.

mod damage;
mod declare;
mod epoch;
mod manifest;
mod parts;
mod restore;
mod write;

use bluetick_archive::ObjectArchiveError;
use bluetick_core::ports::ArchiveError;
pub use declare::{DeclareError, ReplacedStore};
pub use manifest::{MANIFEST, Manifest, ManifestError, Part, PartKind};
pub use restore::{RESTORING, RestoreError, RestoreParts, Restored, restore};

/// The secret files of a data directory. They allow signing tokens for any user and acting as the
/// operator. A restore refuses any other key file.
pub const KEY_FILES: [&str; 2] = ["token.key", "admin.key"];

/// Maps an error of the backup destination to the error of a backup.
fn at_destination(error: ObjectArchiveError) -> ArchiveError {
    match error {
        ObjectArchiveError::Settings(why) => ArchiveError::Refused(why),
        ObjectArchiveError::Missing { name } => ArchiveError::Unavailable(format!("{name} is missing")),
        ObjectArchiveError::Damaged { name, why } => ArchiveError::Unavailable(format!("{name}: {why}")),
        ObjectArchiveError::Unavailable(why) => ArchiveError::Unavailable(why),
    }
}
