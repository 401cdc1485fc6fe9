//! The settings section `[audit]`.

use serde::{Deserialize, Serialize};

/// Settings of the audit trail.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuditSettings {
    /// Path of the file; a relative one is in the data directory. Or `stderr`, or `off`.
    pub file: String,
    /// Maximum size of the file in bytes. The server rotates the file before it would grow beyond
    /// it.
    pub rotate_bytes: u64,
    /// Number of rotated files to keep. The oldest one above it is deleted.
    pub keep_files: u32,
}

impl Default for AuditSettings {
    fn default() -> Self {
        AuditSettings { file: "audit.log".into(), rotate_bytes: 16 * 1024 * 1024, keep_files: 16 }
    }
}

impl AuditSettings {
    /// Returns the first invalid setting and the reason.
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
