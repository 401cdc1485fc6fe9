//! Section `[store.redis]`: where it is, how to be let in, and what may be kept there for how long.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use ::redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, TlsCertificates};
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
    /// `redis://[[user]:password@]host:port[/database]`, `rediss://` for TLS, `unix:///path`. One server; the sentinels;
    /// or some servers of the cluster, which name the others.
    pub urls: Vec<String>,
    pub mode: RedisMode,
    /// What the sentinels call the primary.
    pub sentinel_master: String,
    /// Of the servers. What stands in a URL comes first; sentinels take theirs from their URLs only.
    pub username: Option<String>,
    pub password: Option<String>,
    /// Certificates (PEM) to trust in place of the machine's own.
    pub tls_ca_file: Option<PathBuf>,
    /// What every key starts with, so that several fleets can share a server.
    pub prefix: String,
    /// How long one call may take. Who waits longer does without.
    pub timeout_ms: u64,
    /// How long a message id is known here, and a conversation that nobody writes to. The store's own window.
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
        self.doors().err()
    }

    /// Where each URL leads, ready to connect to.
    pub(super) fn doors(&self) -> Result<Vec<Door>, String> {
        let certificates = match &self.tls_ca_file {
            Some(path) => Some(
                std::fs::read(path)
                    .map_err(|error| format!("store.redis.tls_ca_file {}: {error}", path.display()))?,
            ),
            None => None,
        };
        self.urls.iter().map(|url| Door::new(url, certificates.as_deref())).collect()
    }

    /// The servers that sentinels point to, entered as the settings say.
    pub(super) fn of_servers(&self, sentinel: &Door) -> Door {
        let database = sentinel.0.redis_settings().db();
        let redis = ::redis::RedisConnectionInfo::default().set_db(database);
        self.credentials(&Door(sentinel.0.clone().set_redis_settings(redis)))
    }

    /// The same door with the name and password of the settings, where the URL has none.
    pub(super) fn credentials(&self, door: &Door) -> Door {
        let mut redis = door.0.redis_settings().clone();
        if redis.password().is_none() {
            if let Some(username) = &self.username {
                redis = redis.set_username(username);
            }
            if let Some(password) = &self.password {
                redis = redis.set_password(password);
            }
        }
        Door(door.0.clone().set_redis_settings(redis))
    }
}

/// How to connect to one server.
#[derive(Clone)]
pub(super) struct Door(pub(super) ConnectionInfo);

impl Door {
    fn new(url: &str, certificates: Option<&[u8]>) -> Result<Door, String> {
        let wrong = || format!("store.redis.urls: {} is not the URL of a Redis", masked(url));
        let info = url.into_connection_info().map_err(|_| wrong())?;
        if !matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
            return Ok(Door(info));
        }
        // Whatever else is linked into the program, Redis is spoken to by the same library as everything else.
        let _there_is_one = rustls::crypto::ring::default_provider().install_default();
        let Some(certificates) = certificates else { return Ok(Door(info)) };
        let certificates = TlsCertificates { client_tls: None, root_cert: Some(certificates.to_vec()) };
        let client = ::redis::Client::build_with_tls(info, certificates);
        let client =
            client.map_err(|_| "store.redis.tls_ca_file has no certificates in PEM format".to_owned())?;
        Ok(Door(client.get_connection_info().clone()))
    }

    /// Another server that is entered in the same way.
    pub(super) fn at(&self, new_host: &str, new_port: u16) -> Door {
        let address = match self.0.addr() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => ConnectionAddr::TcpTls {
                host: new_host.to_owned(),
                port: new_port,
                insecure: *insecure,
                tls_params: tls_params.clone(),
            },
            _ => ConnectionAddr::Tcp(new_host.to_owned(), new_port),
        };
        Door(self.0.clone().set_addr(address))
    }

    pub(super) fn address(&self) -> String {
        self.0.addr().to_string()
    }

    pub(super) fn host(&self) -> &str {
        match self.0.addr() {
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host,
            _ => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(url: &str) -> RedisSettings {
        RedisSettings { urls: vec![url.to_owned()], ..RedisSettings::default() }
    }

    #[test]
    fn passwords_are_not_shown() {
        let mut settings = at("rediss://somebody:hush@redis.example:6380/1");
        settings.password = Some("hush too".to_owned());
        let shown = format!("{settings:?} {:?}", settings.problem());
        assert!(!shown.contains("hush"), "{shown}");
        assert!(shown.contains("redis.example:6380"), "{shown}");
    }

    #[test]
    fn a_url_that_cannot_be_read_is_named_without_its_password() {
        let problem = at("http://:hush@redis.example").problem().unwrap();
        assert!(problem.contains("redis.example") && !problem.contains("hush"), "{problem}");
    }

    #[test]
    fn the_defaults_and_every_kind_of_url_are_fine() {
        assert_eq!(RedisSettings::default().problem(), None);
        for url in
            ["redis://:secret@[::1]:7000/2", "rediss://name:secret@redis.example", "unix:///run/redis.sock"]
        {
            assert_eq!(at(url).problem(), None, "{url}");
        }
    }

    #[test]
    fn what_cannot_work_is_said_in_a_sentence() {
        let default = RedisSettings::default;
        let two = vec!["redis://a".to_owned(), "redis://b".to_owned()];
        for (wrong, named) in [
            (RedisSettings { urls: vec![], ..default() }, "store.redis.urls"),
            (RedisSettings { urls: two, ..default() }, "store.redis.urls"),
            (RedisSettings { prefix: "a{b".to_owned(), ..default() }, "store.redis.prefix"),
            (RedisSettings { timeout_ms: 0, ..default() }, "store.redis.timeout_ms"),
            (RedisSettings { dedupe_window_seconds: 0, ..default() }, "store.redis.dedupe_window_seconds"),
            (
                RedisSettings { tls_ca_file: Some("/nowhere.pem".into()), ..default() },
                "store.redis.tls_ca_file",
            ),
        ] {
            assert!(wrong.problem().is_some_and(|problem| problem.contains(named)), "{wrong:?}");
        }
    }
}
