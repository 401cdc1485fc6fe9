//! Section `[store.redis]`: the servers, the credentials and the timeouts. It connects to nothing.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RedisMode {
    /// One server, or a provider's failover group behind one name.
    #[default]
    Single,
    /// A primary with replicas. Sentinels name the primary.
    Sentinel,
    Cluster,
}

/// Section `[store.redis]`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RedisSettings {
    /// `redis://[[user]:password@]host:port[/database]`, `rediss://` for TLS, `unix:///path`. One
    /// server, the sentinels, or some servers of the cluster, which name the others.
    pub urls: Vec<String>,
    pub mode: RedisMode,
    /// The name of the primary in the sentinels' configuration.
    pub sentinel_master: String,
    /// The user on the servers. A user in a URL takes precedence. Sentinels use only the user in
    /// their URLs.
    pub username: Option<String>,
    pub password: Option<String>,
    /// Root certificates (PEM) to trust instead of the machine's own.
    pub tls_ca_file: Option<PathBuf>,
    /// The prefix of every key, so that several fleets can share a server.
    pub prefix: String,
    /// The timeout of one call, in milliseconds. The caller then continues without Redis.
    pub timeout_ms: u64,
    /// How long Redis keeps a message id, and a conversation without writes. The window of the
    /// store.
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

/// Replaces the credentials of a URL in logs and errors.
const MASK: &str = "***";
/// Upper bound for `timeout_ms`. A longer timeout lets an unavailable Redis block sends.
const MAX_TIMEOUT_MS: u64 = 60_000;
/// Upper bound for `dedupe_window_seconds`: 90 days. A longer window keeps more message ids in the
/// memory of Redis.
const MAX_DEDUPE_WINDOW_SECONDS: u64 = 90 * 24 * 60 * 60;

/// Written by hand, so that no password reaches a log.
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

/// Returns the URL with a mask instead of the credentials, which a URL without a scheme may also
/// have.
pub fn masked(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{MASK}@{host}"),
        (None, Some((_, host))) => format!("{MASK}@{host}"),
        (_, None) => url.to_owned(),
    }
}

impl RedisSettings {
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    /// Returns a sentence about the first invalid setting, or `None` if all are valid.
    pub fn problem(&self) -> Option<String> {
        let wrong = |sentence: &str| Some(sentence.to_owned());
        if self.urls.is_empty() {
            return wrong("store.redis.urls must name at least one server");
        }
        if self.mode == RedisMode::Single && self.urls.len() > 1 {
            return wrong("store.redis.urls must name one server when store.redis.mode is \"single\"");
        }
        if self.mode == RedisMode::Sentinel && self.sentinel_master.is_empty() {
            return wrong("store.redis.sentinel_master must be set when store.redis.mode is \"sentinel\"");
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
