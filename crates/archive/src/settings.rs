//! The settings section `[archive]`: destination, schedule and speed of the archive.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The kind of archive destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ArchiveEngine {
    #[default]
    Off,
    Directory,
    S3,
}

/// Settings of the archive. S3 credentials are not settings. They come from the environment
/// (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`), a web identity, the AWS
/// credentials file, or the role of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ArchiveSettings {
    pub engine: ArchiveEngine,
    /// For `directory`: the path. A relative one is below the data directory; the default is
    /// `archive`.
    pub directory: Option<PathBuf>,
    /// For `s3`: the bucket. It must exist.
    pub bucket: String,
    pub region: String,
    /// URL of an S3 server other than AWS, with its scheme. `http://` disables TLS.
    pub endpoint: Option<String>,
    /// Prefix of every key in the bucket.
    pub prefix: String,
    /// Timeout of one request to the object store, retries included.
    pub timeout_seconds: u64,
    /// Age at which a message moves to the archive, measured from its receipt.
    pub age_seconds: u64,
    /// Extra age at which messages move even if they do not fill a segment.
    pub patience_seconds: u64,
    /// Number of messages in a full segment.
    pub segment_messages: u64,
    /// Maximum number of messages moved per second; 0 disables the limit.
    pub messages_per_second: u64,
    /// Interval of scheduled runs; 0 disables them.
    pub every_seconds: u64,
    /// Daily time window (UTC) in which scheduled runs start, such as "02:00-05:00". This crate
    /// does not parse it; the scheduler does.
    pub between: Option<String>,
    /// Age at which the content of a message is erased, measured from its receipt; 0 disables it.
    pub retention_seconds: u64,
    /// Size of the block cache.
    pub cache_bytes: u64,
    /// Whether a run compacts the tables when much of their file is free.
    pub compact: bool,
}

/// One day in seconds.
const DAY_SECONDS: u64 = 24 * 60 * 60;

impl Default for ArchiveSettings {
    fn default() -> Self {
        ArchiveSettings {
            engine: ArchiveEngine::Off,
            directory: None,
            bucket: String::new(),
            region: "us-east-1".to_owned(),
            endpoint: None,
            prefix: "bluetick".to_owned(),
            timeout_seconds: 10,
            age_seconds: 90 * DAY_SECONDS,
            patience_seconds: 30 * DAY_SECONDS,
            segment_messages: 1000,
            messages_per_second: 20_000,
            every_seconds: 3600,
            between: None,
            retention_seconds: 0,
            cache_bytes: 64 << 20,
            compact: true,
        }
    }
}

impl ArchiveSettings {
    /// Upper bound on `segment_messages`. A whole segment is in memory when it is sealed, checked
    /// or restored, so a larger bound can exhaust memory.
    pub const MAX_SEGMENT_MESSAGES: u64 = 100_000;
    /// Upper bound on `timeout_seconds`. A stalled request holds up its job for that long.
    const MAX_TIMEOUT_SECONDS: u64 = 600;

    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds)
    }

    /// Returns a sentence about the first invalid setting; `None` if all are valid.
    pub fn problem(&self) -> Option<String> {
        let wrong = |sentence: &str| Some(sentence.to_owned());
        if self.timeout_seconds == 0 || self.timeout_seconds > ArchiveSettings::MAX_TIMEOUT_SECONDS {
            return Some(format!(
                "archive.timeout_seconds must be 1 to {}",
                ArchiveSettings::MAX_TIMEOUT_SECONDS
            ));
        }
        if self.segment_messages == 0 || self.segment_messages > ArchiveSettings::MAX_SEGMENT_MESSAGES {
            return Some(format!(
                "archive.segment_messages must be 1 to {}",
                ArchiveSettings::MAX_SEGMENT_MESSAGES
            ));
        }
        if self.directory.as_ref().is_some_and(|directory| directory.as_os_str().is_empty()) {
            return wrong("archive.directory must not be empty");
        }
        let first = self.directory.as_ref().and_then(|directory| directory.components().next());
        if first.is_some_and(|first| [".", "log", "tables"].iter().any(|own| first.as_os_str() == *own)) {
            return wrong("archive.directory must not be where the store keeps its own files");
        }
        if self.engine == ArchiveEngine::S3 { self.problem_of_s3() } else { None }
    }

    fn problem_of_s3(&self) -> Option<String> {
        let wrong = |sentence: &str| Some(sentence.to_owned());
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if self.bucket.is_empty() {
            return wrong("archive.bucket must be given when archive.engine is \"s3\"");
        }
        if !self.bucket.chars().all(is_plain) {
            return wrong("archive.bucket may hold letters, digits, '-', '_' and '.' only");
        }
        if self.region.is_empty() || !self.region.chars().all(is_plain) {
            return wrong("archive.region must be the name of a region, such as \"us-east-1\"");
        }
        let is_part =
            |part: &str| !part.is_empty() && part.chars().all(is_plain) && part != "." && part != "..";
        if !self.prefix.is_empty() && !self.prefix.split('/').all(is_part) {
            return wrong(
                "archive.prefix may hold letters, digits, '-', '_' and '.' only, in parts separated by single slashes",
            );
        }
        let host = match &self.endpoint {
            None => return None,
            Some(endpoint) => endpoint.strip_prefix("http://").or(endpoint.strip_prefix("https://")),
        };
        match host {
            Some(host) if host.contains('@') => wrong("archive.endpoint must not hold a name or a password"),
            Some(host) if !host.is_empty() && host.chars().all(|c| is_plain(c) || "[]:/".contains(c)) => None,
            _ => wrong("archive.endpoint must be an address such as \"https://s3.example.org\""),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s3() -> ArchiveSettings {
        ArchiveSettings {
            engine: ArchiveEngine::S3,
            bucket: "old-messages".to_owned(),
            ..ArchiveSettings::default()
        }
    }

    #[test]
    fn archive_is_disabled_by_default() {
        let settings = ArchiveSettings::default();
        assert_eq!((settings.engine, settings.problem()), (ArchiveEngine::Off, None));
        assert_eq!(s3().problem(), None);
    }

    #[test]
    fn every_settings_problem_names_its_key() {
        let wrong = [
            ("bucket", ArchiveSettings { bucket: String::new(), ..s3() }),
            ("bucket", ArchiveSettings { bucket: "a/b".to_owned(), ..s3() }),
            ("region", ArchiveSettings { region: String::new(), ..s3() }),
            ("prefix", ArchiveSettings { prefix: "a//b".to_owned(), ..s3() }),
            ("prefix", ArchiveSettings { prefix: "/a".to_owned(), ..s3() }),
            ("prefix", ArchiveSettings { prefix: "a/..".to_owned(), ..s3() }),
            ("endpoint", ArchiveSettings { endpoint: Some("s3.example.org".to_owned()), ..s3() }),
            ("endpoint", ArchiveSettings { endpoint: Some("https://".to_owned()), ..s3() }),
            (
                "endpoint",
                ArchiveSettings { endpoint: Some("https://me:sesame@example.org".to_owned()), ..s3() },
            ),
            ("timeout_seconds", ArchiveSettings { timeout_seconds: 0, ..s3() }),
            ("segment_messages", ArchiveSettings { segment_messages: 0, ..s3() }),
            ("directory", ArchiveSettings { directory: Some(PathBuf::new()), ..s3() }),
        ];
        for (key, settings) in wrong {
            let problem = settings.problem().unwrap_or_else(|| panic!("nothing wrong with {settings:?}"));
            assert!(problem.contains(&format!("archive.{key}")), "{problem}");
            assert!(!problem.contains("sesame"), "{problem}");
        }
    }

    #[test]
    fn endpoint_of_another_s3_server_is_accepted() {
        for endpoint in
            ["http://127.0.0.1:9000", "https://s3.example.org/", "http://[::1]:9000", "https://a/b"]
        {
            assert_eq!(
                ArchiveSettings { endpoint: Some(endpoint.to_owned()), ..s3() }.problem(),
                None,
                "{endpoint}"
            );
        }
    }
}
