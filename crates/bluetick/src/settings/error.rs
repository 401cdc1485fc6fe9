//! Mistakes in settings. Each message is one sentence that names the key and its source.

use std::fmt;
use std::io;
use std::path::PathBuf;

use bluetick_auth::AuthSetupError;
use thiserror::Error;

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Default,
    File(PathBuf),
    Environment(String),
    Flag(&'static str),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Default => f.write_str("default"),
            Source::File(path) => write!(f, "file {}", path.display()),
            Source::Environment(name) => write!(f, "environment {name}"),
            Source::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// Every mistake in the settings, in the order of discovery. Never empty. Displayed with one line
/// each.
#[derive(Debug, Error)]
pub struct Mistakes(pub Vec<SettingsError>);

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

#[derive(Debug, Error)]
pub enum SettingsError {
    #[error("the settings file {} does not exist (named by {named_by})", path.display())]
    MissingFile { path: PathBuf, named_by: &'static str },
    #[error("cannot read the settings file {}: {source}", path.display())]
    UnreadableFile { path: PathBuf, source: io::Error },
    #[error("{}, line {line}, is not TOML: {reason}", path.display())]
    NotToml { path: PathBuf, line: usize, reason: String },
    #[error("unknown setting {key} ({from}){hint}")]
    UnknownKey { key: String, from: Source, hint: String },
    #[error("the environment variable {name} is not valid UTF-8")]
    NotUtf8 { name: String },
    #[error("{key} cannot be {shown} ({from}): expected {expected}")]
    BadValue { key: String, shown: String, from: Source, expected: String },
    /// The value is valid alone, but not together with the others.
    #[error("{key} ({from}) cannot work: {reason}")]
    Unworkable { key: String, from: Source, reason: String },
    /// A message of the store or the archive, which names the key.
    #[error("{0}")]
    Store(String),
    #[error(transparent)]
    Keys(#[from] AuthSetupError),
}

impl SettingsError {
    /// The setting to change, if the error names exactly one.
    pub fn key(&self) -> Option<&str> {
        match self {
            SettingsError::UnknownKey { key, .. }
            | SettingsError::BadValue { key, .. }
            | SettingsError::Unworkable { key, .. } => Some(key),
            // A store error begins with the key of its setting.
            SettingsError::Store(sentence) => sentence.split(' ').next(),
            SettingsError::Keys(AuthSetupError::BadSetting { setting, .. }) => Some(setting),
            SettingsError::MissingFile { .. }
            | SettingsError::UnreadableFile { .. }
            | SettingsError::NotToml { .. }
            | SettingsError::NotUtf8 { .. }
            | SettingsError::Keys(_) => None,
        }
    }

    /// Whether the error concerns a setting whose key begins with `part`.
    pub fn is_about(&self, part: &str) -> bool {
        self.key().is_some_and(|key| key.starts_with(part))
    }
}
