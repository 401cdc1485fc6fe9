//! Errors of keys and key files at startup. Each message names the file or the setting.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

#[derive(Debug, Error)]
pub enum AuthSetupError {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    /// `reason` states what was expected and never contains file content.
    #[error("{} is not usable: {reason}", path.display())]
    BadFile { path: PathBuf, reason: String },
    #[error("{setting} is not usable: {reason}")]
    BadSetting { setting: &'static str, reason: &'static str },
}
