//! Section `[audit]`.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuditSettings {
    /// A file, in the data directory unless the path is absolute; or `stderr`, or `off`.
    pub file: String,
    /// A file that would grow beyond this is put aside and a new one begun.
    pub rotate_bytes: u64,
    /// Files put aside that are kept; the oldest beyond them is deleted.
    pub keep_files: u32,
}

impl Default for AuditSettings {
    fn default() -> Self {
        AuditSettings { file: "audit.log".into(), rotate_bytes: 16 * 1024 * 1024, keep_files: 16 }
    }
}

impl AuditSettings {
    /// What is wrong with the settings: which one, and why.
    pub fn problem(&self) -> Option<(&'static str, String)> {
        if self.file.trim().is_empty() {
            return Some(("audit.file", "a file name, \"stderr\" or \"off\" is needed".into()));
        }
        if self.rotate_bytes < 4_096 {
            return Some(("audit.rotate_bytes", "it must be at least 4096".into()));
        }
        if !(1..=1_000).contains(&self.keep_files) {
            return Some(("audit.keep_files", "it must be 1 to 1000".into()));
        }
        None
    }
}
