//! The settings of the operator and the source of each value: defaults < file < environment <
//! flags. The crate that uses a setting defines its meaning.

mod catalogue;
mod environment;
mod error;
mod example;
mod file;
mod layers;
mod log;
mod show;
mod store;
mod suggest;
#[cfg(test)]
mod tests;
mod validate;

use std::path::{Path, PathBuf};

use bluetick_auth::{AdminSettings, AuthSettings};
use bluetick_server::audit::AuditSettings;
use bluetick_server::{LimitSettings, ServerSettings};
use serde::{Deserialize, Serialize};

pub use self::error::Mistakes;
pub use self::example::example;
pub use self::layers::{Flags, Inputs, Loaded};
pub use self::log::{LogFormat, LogSettings};
#[cfg(not(feature = "fleet"))]
pub use self::store::NO_FLEET_ENGINE;
pub use self::store::{StoreEngine, StoreSection};
use bluetick_archive::ArchiveEngine;
pub use bluetick_archive::ArchiveSettings;

/// All settings, one field per section.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    pub server: ServerSettings,
    pub limits: LimitSettings,
    pub auth: AuthSettings,
    pub admin: AdminSettings,
    pub store: StoreSection,
    pub archive: ArchiveSettings,
    pub audit: AuditSettings,
    pub log: LogSettings,
}

impl Settings {
    /// The archive directory, if the archive is a directory that does not exist on this machine.
    pub fn missing_archive(&self) -> Option<PathBuf> {
        let given = self.archive.directory.as_deref().unwrap_or(Path::new("archive"));
        let directory = self.store.data_dir.join(given);
        (self.archive.engine == ArchiveEngine::Directory && !directory.is_dir()).then_some(directory)
    }

    /// Settings that work but are unwise, one sentence each.
    pub fn advice(&self) -> impl Iterator<Item = String> {
        let in_directory =
            self.store.engine == StoreEngine::DynamoDb && self.archive.engine == ArchiveEngine::Directory;
        let archive = in_directory.then(|| {
            "archive.engine is \"directory\": every node of the fleet must mount the same directory, such as a network file system"
                .to_owned()
        });
        archive.into_iter()
    }
}
