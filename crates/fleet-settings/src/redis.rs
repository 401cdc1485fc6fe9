//! Section `[store.redis]`: the servers, the credentials and the timeouts. It connects to nothing.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RedisMode {
    /// One server; also what a provider's own failover hides behind one name.
    #[default]
    Single,
    /// A primary with replicas, found by asking sentinels.
    Sentinel,
    Cluster,
}

/// Section `[store.redis]`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RedisSettings {
    /// `redis://[[user]:password@]host:port[/database]`, `rediss://` for TLS, `unix:///path`. One
    /// server; the sentinels; or some servers of the cluster, which name the others.
    pub urls: Vec<String>,
    pub mode: RedisMode,
    /// What the sentinels call the primary.
    pub sentinel_master: String,
    /// Of the servers. What stands in a URL comes first; sentinels take theirs from their URLs
    /// only.
    pub username: Option<String>,
    pub password: Option<String>,
    /// Certificates (PEM) to trust in place of the machine's own.
    pub tls_ca_file: Option<PathBuf>,
    /// What every key starts with, so that several fleets can share a server.
    pub prefix: String,
    /// How long one call may take. Who waits longer does without.
    pub timeout_ms: u64,
    /// How long a message id is known here, and a conversation that nobody writes to. The store's
    /// own window.
    #[serde(skip)]
    pub dedupe_window_seconds: u64,
}

impl Default for RedisSettings {
    fn default() -> Self {
        RedisSettings {
            urls: vec!["redis://127.0.0.1:6379".to_owned()],
            mode: RedisMode::Single,
            sentinel_master: "bluetick".to_owned(),
            username: None,
            password: None,
            tls_ca_file: None,
            prefix: "bt".to_owned(),
            timeout_ms: 250,
            dedupe_window_seconds: 604_800,
        }
    }
}

const MASK: &str = "***";
const MAX_TIMEOUT_MS: u64 = 60_000;
const MAX_DEDUPE_WINDOW_SECONDS: u64 = 90 * 24 * 60 * 60;

/// By hand, so that no password ever reaches a log.
impl fmt::Debug for RedisSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisSettings")
            .field("urls", &self.urls.iter().map(|url| masked(url)).collect::<Vec<_>>())
            .field("mode", &self.mode)
            .field("sentinel_master", &self.sentinel_master)
            .field("username", &self.username)
            .field("password", &self.password.as_ref().map(|_| MASK))
            .field("tls_ca_file", &self.tls_ca_file)
            .field("prefix", &self.prefix)
            .field("timeout_ms", &self.timeout_ms)
            .field("dedupe_window_seconds", &self.dedupe_window_seconds)
            .finish()
    }
}

/// The URL without its password, for whoever shows settings.
pub fn masked(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{MASK}@{host}"),
        _ => url.to_owned(),
    }
}

impl RedisSettings {
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    /// What is wrong with the settings, in a sentence.
    pub fn problem(&self) -> Option<String> {
        let wrong = |sentence: &str| Some(sentence.to_owned());
        if self.urls.is_empty() {
            return wrong("store.redis.urls must name at least one server");
        }
        if self.mode == RedisMode::Single && self.urls.len() > 1 {
            return wrong("store.redis.urls must name one server when store.redis.mode is \"single\"");
        }
        if self.mode == RedisMode::Sentinel && self.sentinel_master.is_empty() {
            return wrong("store.redis.sentinel_master must be given when store.redis.mode is \"sentinel\"");
        }
        if self.prefix.is_empty()
            || !self.prefix.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        {
            return wrong(
                "store.redis.prefix must have at least one letter, and only letters, digits, and any of -_.",
            );
        }
        if !(1..=MAX_TIMEOUT_MS).contains(&self.timeout_ms) {
            return Some(format!("store.redis.timeout_ms must be 1 to {MAX_TIMEOUT_MS}"));
        }
        if !(1..=MAX_DEDUPE_WINDOW_SECONDS).contains(&self.dedupe_window_seconds) {
            return Some(format!(
                "store.redis.dedupe_window_seconds must be 1 to {MAX_DEDUPE_WINDOW_SECONDS}"
            ));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(url: &str) -> RedisSettings {
        RedisSettings { urls: vec![url.to_owned()], ..RedisSettings::default() }
    }

    #[test]
    fn debug_output_and_problems_hide_passwords() {
        let mut settings = at("rediss://somebody:hush@redis.example:6380/1");
        settings.password = Some("hush too".to_owned());
        let shown = format!("{settings:?} {:?}", settings.problem());
        assert!(!shown.contains("hush"), "{shown}");
        assert!(shown.contains("redis.example:6380"), "{shown}");
    }

    #[test]
    fn invalid_value_is_reported_by_setting_name() {
        let default = RedisSettings::default;
        let two = vec!["redis://a".to_owned(), "redis://b".to_owned()];
        assert_eq!(default().problem(), None);
        for (wrong, named) in [
            (RedisSettings { urls: vec![], ..default() }, "store.redis.urls"),
            (RedisSettings { urls: two, ..default() }, "store.redis.urls"),
            (RedisSettings { prefix: "a{b".to_owned(), ..default() }, "store.redis.prefix"),
            (RedisSettings { timeout_ms: 0, ..default() }, "store.redis.timeout_ms"),
            (RedisSettings { dedupe_window_seconds: 0, ..default() }, "store.redis.dedupe_window_seconds"),
        ] {
            assert!(wrong.problem().is_some_and(|problem| problem.contains(named)), "{wrong:?}");
        }
    }
}
