//! What the operator may set, and where each value comes from: defaults < file < environment < flags. What a
//! setting means belongs to the crate that uses it.

mod catalogue;
mod environment;
mod error;
mod example;
mod file;
mod layers;
mod log;
mod show;
mod store;
#[cfg(test)]
mod tests;
mod validate;

use bluetick_auth::{AdminSettings, AuthSettings};
use bluetick_server::audit::AuditSettings;
use bluetick_server::{LimitSettings, ServerSettings};
use serde::{Deserialize, Serialize};

pub use self::error::SettingsError;
pub use self::example::example;
pub use self::layers::{Flags, Inputs, Loaded};
pub use self::log::{LogFormat, LogSettings};
pub use self::store::{Engine, StoreSection};
use bluetick_archive::ArchiveEngine;
pub use bluetick_archive::ArchiveSettings;

/// All of it, a section a field.
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
    /// What works and is unwise, each in a sentence.
    pub fn advice(&self) -> impl Iterator<Item = String> {
        let in_directory =
            self.store.engine == Engine::DynamoDb && self.archive.engine == ArchiveEngine::Directory;
        let archive = in_directory.then(|| {
            "archive.engine is \"directory\": every node of the fleet has to see the same one, such as a mounted file system"
                .to_owned()
        });
        self.auth.advice().into_iter().chain(self.admin.advice()).chain(archive)
    }
}
