//! Section `[store.dynamodb]`: the engine, the table names and the timeouts.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::redis::masked;

/// Section `[store.dynamodb]`. Credentials are not settings. They come from the standard AWS chain:
/// the environment, a profile, a web identity, or the role of the container or the machine.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DynamoSettings {
    /// The URL of a compatible engine instead of Amazon's. `http://` disables TLS.
    pub endpoint: Option<String>,
    /// The region of the tables. The default comes from the environment or the profile.
    pub region: Option<String>,
    /// The prefix of all table names.
    pub table_prefix: String,
    /// The deadline of one request, including all its attempts.
    pub deadline_ms: u64,
    /// The timeout of one attempt.
    pub attempt_timeout_ms: u64,
    /// The maximum number of concurrent requests. Others wait within their deadline.
    pub requests_at_once: usize,
}

/// Written by hand, so that no password in the endpoint reaches a log.
impl fmt::Debug for DynamoSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynamoSettings")
            .field("endpoint", &self.endpoint.as_deref().map(masked))
            .field("region", &self.region)
            .field("table_prefix", &self.table_prefix)
            .field("deadline_ms", &self.deadline_ms)
            .field("attempt_timeout_ms", &self.attempt_timeout_ms)
            .field("requests_at_once", &self.requests_at_once)
            .finish()
    }
}

impl Default for DynamoSettings {
    fn default() -> Self {
        DynamoSettings {
            endpoint: None,
            region: None,
            table_prefix: "bluetick_".to_owned(),
            deadline_ms: 5000,
            attempt_timeout_ms: 1000,
            requests_at_once: 256,
        }
    }
}

/// Upper bound for the prefix, in bytes. DynamoDB limits a full table name to 255 characters.
const MAX_PREFIX_LENGTH: usize = 200;
/// Upper bound for `deadline_ms`. A longer deadline holds a request longer than any client waits.
const MAX_DEADLINE_MS: u64 = 600_000;
/// Upper bound for `requests_at_once`. Each concurrent request can hold a connection.
const MAX_REQUESTS_AT_ONCE: usize = 10_000;

impl DynamoSettings {
    pub fn deadline(&self) -> Duration {
        Duration::from_millis(self.deadline_ms)
    }

    pub fn attempt_timeout(&self) -> Duration {
        Duration::from_millis(self.attempt_timeout_ms)
    }

    /// Returns a sentence about the first invalid setting, or `None` if all are valid.
    pub fn problem(&self) -> Option<String> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if self.table_prefix.len() > MAX_PREFIX_LENGTH || !self.table_prefix.chars().all(is_plain) {
            return Some(format!(
                "store.dynamodb.table_prefix must be at most {MAX_PREFIX_LENGTH} letters, digits, or _ - ."
            ));
        }
        if !(1..=MAX_DEADLINE_MS).contains(&self.deadline_ms) {
            return Some(format!("store.dynamodb.deadline_ms must be 1 to {MAX_DEADLINE_MS}"));
        }
        if !(1..=self.deadline_ms).contains(&self.attempt_timeout_ms) {
            return Some(
                "store.dynamodb.attempt_timeout_ms must be 1 to store.dynamodb.deadline_ms".to_owned(),
            );
        }
        if !(1..=MAX_REQUESTS_AT_ONCE).contains(&self.requests_at_once) {
            return Some(format!("store.dynamodb.requests_at_once must be 1 to {MAX_REQUESTS_AT_ONCE}"));
        }
        let is_url = |endpoint: &String| endpoint.starts_with("http://") || endpoint.starts_with("https://");
        if self.endpoint.as_ref().is_some_and(|endpoint| !is_url(endpoint)) {
            return Some("store.dynamodb.endpoint must begin with https:// or http://".to_owned());
        }
        if self.region.as_ref().is_some_and(|region| region.is_empty() || !region.chars().all(is_plain)) {
            return Some("store.dynamodb.region must be a name such as eu-central-1".to_owned());
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_valid_and_each_invalid_value_is_reported_by_name() {
        assert_eq!(DynamoSettings::default().problem(), None);
        type Change = fn(&mut DynamoSettings);
        let wrong: [(&str, Change); 6] = [
            ("table_prefix", |settings| settings.table_prefix = "chat/".to_owned()),
            ("deadline_ms", |settings| settings.deadline_ms = 0),
            ("attempt_timeout_ms", |settings| settings.attempt_timeout_ms = 5001),
            ("requests_at_once", |settings| settings.requests_at_once = 0),
            ("endpoint", |settings| settings.endpoint = Some("localhost:8000".to_owned())),
            ("region", |settings| settings.region = Some(String::new())),
        ];
        for (name, change) in wrong {
            let mut settings = DynamoSettings::default();
            change(&mut settings);
            assert!(settings.problem().is_some_and(|sentence| sentence.contains(name)), "{name}");
        }
    }
}
