//! The list of all settings: key, type of the value, default, and a description. Keys, types and
//! defaults come from [`Settings`]; this module holds the descriptions.

use bluetick_fleet_settings::masked;
use serde_json::Value as Json;
use toml::Value;

use super::Settings;

/// Dotted keys, such as `limits.sends_per_second`, with their descriptions, in display order.
const DESCRIPTIONS: &[(&str, &str)] = &[
    ("server.listen", "The address to listen on, HOST:PORT. Port 0 takes any free port."),
    (
        "server.allowed_origins",
        "Web origins, besides the server's own, whose pages may call the API and open a WebSocket, such as [\"https://chat.example.org\"].",
    ),
    (
        "server.hostnames",
        "Names under which clients reach the server, such as [\"chat.example.org\"], without a port. A server that listens on loopback accepts only these names, loopback names and the hosts of server.allowed_origins in the Host header. Set it if a proxy on this machine forwards the public name.",
    ),
    (
        "server.trusted_proxies",
        "Addresses and networks of your proxies, such as [\"127.0.0.1\"] for a proxy on this machine. The server reads X-Forwarded-For only from these, and applies limits per address to the clients named there.",
    ),
    (
        "server.drain_delay_seconds",
        "How long a stopping server answers 503 on /readyz and still serves requests, so that load balancers can react.",
    ),
    (
        "server.drain_seconds",
        "The maximum duration of a shutdown, after that delay. The server then closes the remaining connections.",
    ),
    (
        "server.return_seconds",
        "At shutdown, the server tells each client to reconnect after a random time between half a second and this.",
    ),
    (
        "server.people_search",
        "Whether logged-in users can find each other by a prefix of the name. If false, only a full user_id finds a user.",
    ),
    (
        "server.tls.certificate_file",
        "A PEM file with the server's certificate and the intermediate certificates up to its root. If set, the server accepts only https and wss.",
    ),
    ("server.tls.key_file", "A PEM file with the private key of that certificate, without a password."),
    (
        "server.tls.reload_seconds",
        "How often the server checks the two files for changes. New connections get the new certificate. 0: only on SIGHUP.",
    ),
    ("limits.content_bytes", "The maximum size of the content of one message."),
    (
        "limits.frame_bytes",
        "The maximum size of a WebSocket frame from a client. A larger frame closes the connection.",
    ),
    ("limits.body_bytes", "The maximum size of an HTTP request body."),
    (
        "limits.sends_per_second",
        "Messages that one user may send per second, on average, over all connections.",
    ),
    ("limits.sends_burst", "Messages that one user may send at once after a pause."),
    ("limits.requests_per_second", "HTTP calls and WebSocket frames of one user per second, on average."),
    ("limits.requests_burst", "HTTP calls and WebSocket frames of one user at once after a pause."),
    (
        "limits.acks_per_second",
        "`delivered` and `read` frames of one user per second, on average, over all connections.",
    ),
    ("limits.acks_burst", "`delivered` and `read` frames of one user at once after a pause."),
    (
        "limits.flood_rejections",
        "The number of frames refused for their rate within ten seconds before the server closes the connection.",
    ),
    ("limits.connections_per_user", "The maximum number of WebSocket connections of one user."),
    (
        "limits.connects_per_user_per_minute",
        "WebSocket connections that one user may open per minute, on average, on all devices together. A quarter of them may come at once.",
    ),
    ("limits.connections", "The maximum number of WebSocket connections of the server."),
    (
        "limits.connections_per_address",
        "The maximum number of connections from one address (for IPv6, one /64 network). The server closes further ones. Trusted proxies are not counted.",
    ),
    (
        "limits.connects_per_address_per_second",
        "Connections that one address may open per second, on average. Four seconds' worth may come at once.",
    ),
    ("limits.hello_seconds", "How long a new WebSocket may wait before it sends its hello."),
    ("limits.ping_seconds", "How often the server pings a quiet WebSocket."),
    ("limits.idle_seconds", "How long a WebSocket may stay silent before the server closes it."),
    (
        "limits.headers_seconds",
        "How long an HTTP request may take to send its headers, and how long a TLS handshake may take before it.",
    ),
    ("limits.body_seconds", "How long an HTTP request may take to send its body."),
    ("limits.outbox_bytes", "Bytes that may wait for one slow WebSocket before the server closes it."),
    (
        "limits.in_flight_sends_per_connection",
        "Sends of one WebSocket that may wait for the store before the server stops reading from it.",
    ),
    (
        "limits.backlog_messages",
        "Messages of one conversation that the server sends to a reconnecting device. The device fetches the rest in pages.",
    ),
    (
        "limits.backlog_conversations",
        "Conversations whose messages the server sends to a reconnecting device. For the others it sends only the read state and the newest seq.",
    ),
    ("limits.group_members", "The maximum number of members of a group."),
    ("limits.members_per_call", "The maximum number of members that one call may add."),
    (
        "limits.password_checks_at_once",
        "Passwords checked concurrently. The default is half of the processors. Each check uses about 20 MB while it runs.",
    ),
    (
        "limits.logins_per_minute",
        "Log-in attempts for one user_id per minute, from all clients together. A third of them may come at once.",
    ),
    (
        "limits.logins_per_address_per_minute",
        "Log-ins and sign-ups from one address per minute, for all user_ids together. A third of them may come at once.",
    ),
    (
        "limits.wrong_admin_keys_per_address_per_minute",
        "Wrong admin keys from one address per minute. Above it, the server compares keys one at a time, each after 250 ms. It answers 429 to wrong ones, and to those that arrive while 8 wait. The right key still works.",
    ),
    (
        "limits.conversations_per_user_per_day",
        "Conversations that one user may create per day, direct ones and groups together. A user may spend the whole quota at once.",
    ),
    (
        "limits.group_invitations_per_user_per_hour",
        "Calls by which one user may add other users to groups per hour. A user may spend the whole quota at once.",
    ),
    (
        "limits.members_added_per_user_per_hour",
        "Users that one user may add to groups per hour, in all calls together. A user may spend the whole quota at once.",
    ),
    (
        "limits.password_checks_waiting",
        "Log-ins and sign-ups that may wait for a password check. The server refuses further ones.",
    ),
    (
        "auth.signup",
        "Whether visitors can create an account with POST /v1/signup. auth.hs256_secret disables it unless auth.signup_beside_own_users is true.",
    ),
    (
        "auth.signup_beside_own_users",
        "Keeps sign-up open although auth.hs256_secret is set. A stranger can then take the name of a user of yours who has no account here, and read their messages.",
    ),
    (
        "auth.reserved_names",
        "Names that sign-up refuses, in any similar-looking spelling, in addition to system, void, admin, bluetick, support and root.",
    ),
    (
        "auth.password_min_length",
        "The minimum length of a password, in bytes, from 1 to 1024. Very common passwords are refused at any length.",
    ),
    ("auth.token_ttl_seconds", "How long a token from sign-up or log-in is valid (7 days)."),
    ("auth.max_token_ttl_seconds", "The maximum lifetime of a minted token (90 days)."),
    (
        "auth.hs256_secret",
        "A secret of at least 32 bytes, shared with your own product, that signs and verifies tokens. Without any key in this section, the server creates one in the data directory.",
    ),
    (
        "auth.public_key_file",
        "A PEM file with your Ed25519 or RSA public key. Your product signs the tokens, and this server only verifies them.",
    ),
    (
        "auth.jwks_file",
        "The same as auth.public_key_file, as a JSON Web Key Set. The kid of a token selects the key.",
    ),
    ("auth.issuer", "If set, every token must have this issuer (iss)."),
    ("auth.audience", "If set, every token must have this audience (aud)."),
    (
        "auth.leeway_seconds",
        "The accepted difference between the clocks of the token's issuer and of this server.",
    ),
    (
        "admin.key",
        "The key that mints tokens and creates users, at least 16 bytes. If it is not set, the server creates one in the data directory (admin.key).",
    ),
    (
        "store.engine",
        "The storage engine: \"embedded\" (files in the data directory, one server) or \"dynamodb\" (with Redis, for a fleet).",
    ),
    ("store.data_dir", "The directory of all data: messages, users and the keys that the server creates."),
    (
        "store.dedupe_window_seconds",
        "How long the server recognises a message_id that is sent again (7 days). The embedded store counts the time in which it was open, independent of the wall clock.",
    ),
    (
        "store.checkpoint_bytes",
        "Bytes of log before a checkpoint writes them to the tables. A larger value is faster, but makes the start after a crash slower.",
    ),
    (
        "store.checkpoint_idle_seconds",
        "The maximum time that a change waits for its checkpoint, even if there is little to write.",
    ),
    ("store.segment_bytes", "The size of one log file."),
    ("store.awake_conversations", "The number of conversations that stay loaded in memory."),
    ("store.page_cache_bytes", "Memory for recently read pages of messages."),
    ("store.queued_writes", "Writes that may wait for the disk before the server refuses more."),
    (
        "store.dynamodb.endpoint",
        "With engine = \"dynamodb\": the address of a compatible engine instead of Amazon's, such as http://scylla:8000.",
    ),
    ("store.dynamodb.region", "The region of the tables. By default the AWS environment determines it."),
    ("store.dynamodb.table_prefix", "The prefix of all table names."),
    ("store.dynamodb.deadline_ms", "The deadline of one request, including all its attempts."),
    ("store.dynamodb.attempt_timeout_ms", "The timeout of one attempt."),
    (
        "store.dynamodb.requests_at_once",
        "The maximum number of concurrent requests. Others wait within their deadline.",
    ),
    (
        "store.redis.urls",
        "With engine = \"dynamodb\": the URLs of the Redis or Valkey server, of the sentinels, or of some servers of the cluster. Use rediss:// for TLS.",
    ),
    ("store.redis.mode", "The kind of servers in store.redis.urls: \"single\", \"sentinel\" or \"cluster\"."),
    ("store.redis.sentinel_master", "The name of the primary in the sentinels' configuration."),
    ("store.redis.username", "The Redis user, if Redis has users."),
    ("store.redis.password", "The Redis password, if the URL has none."),
    ("store.redis.tls_ca_file", "Root certificates (PEM) to trust instead of the machine's own."),
    ("store.redis.prefix", "The prefix of all keys, so that several fleets can share a Redis."),
    (
        "store.redis.timeout_ms",
        "How long one call to Redis may take before the server continues without its answer.",
    ),
    (
        "store.fleet.send_deadline_ms",
        "The deadline of a send. The server then tells the sender to try again.",
    ),
    (
        "store.fleet.void_after_ms",
        "How long a reserved seq may stay empty before a node fills it with a void.",
    ),
    (
        "store.fleet.flush_interval_ms",
        "The minimum time between two writes of the same inbox row or of a sender's own status row. Nodes compute them in between.",
    ),
    (
        "store.fleet.return_grace_ms",
        "After a Redis outage, sends continue without Redis for this long, until every node has reported its stored messages to Redis.",
    ),
    ("store.fleet.sends_in_flight", "The maximum number of concurrent sends. The server refuses more."),
    (
        "store.fleet.most_partitions",
        "The maximum number of table partitions for one conversation. A conversation with more than about 800 messages a second uses several. 1: always one partition.",
    ),
    (
        "archive.engine",
        "Where old messages are archived: off (they stay in the store), directory, or s3 (any S3-compatible store). Clients see no difference.",
    ),
    (
        "archive.directory",
        "With engine = \"directory\": the directory. A relative path is inside the data directory. Without a path it is `archive` there.",
    ),
    ("archive.bucket", "With engine = \"s3\": the bucket. It must exist."),
    ("archive.region", "With engine = \"s3\": the region of the bucket."),
    (
        "archive.endpoint",
        "With engine = \"s3\": the address of an S3-compatible server, such as http://127.0.0.1:9000. Credentials come from the standard AWS chain, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
    ),
    ("archive.prefix", "With engine = \"s3\": the prefix of all object names."),
    ("archive.timeout_seconds", "The timeout of one request to the object store, including retries."),
    (
        "archive.age_seconds",
        "The age at which a message moves to the archive, by the server's clock (90 days).",
    ),
    (
        "archive.patience_seconds",
        "How much longer old messages wait if they are too few for a segment (30 days). Then they move anyway.",
    ),
    ("archive.segment_messages", "The number of messages in one object."),
    (
        "archive.messages_per_second",
        "The maximum rate at which messages move, so that the archive does not slow down other requests. 0: no limit.",
    ),
    ("archive.every_seconds", "How often the archive runs. 0: only on `bluetick archive run`."),
    (
        "archive.between",
        "The hours in UTC in which a scheduled run may start, such as \"02:00-05:00\", or \"22:00-04:00\" over midnight.",
    ),
    (
        "archive.retention_seconds",
        "The age at which the content of a message is deleted permanently, in the store and in the archive, by the server's clock. 0: never.",
    ),
    ("archive.cache_bytes", "Memory for recently read parts of the archive."),
    (
        "archive.compact",
        "Whether a run returns freed space to the disk. An erasure always rewrites the tables.",
    ),
    (
        "audit.file",
        "The audit trail of administrative actions: a file (relative paths are inside the data directory), \"stderr\", or \"off\".",
    ),
    ("audit.rotate_bytes", "The maximum size of an audit file. The server then rotates it."),
    ("audit.keep_files", "The number of rotated audit files to keep. The server deletes older ones."),
    ("log.format", "auto (human-readable on a terminal, JSON otherwise), human or json."),
    (
        "log.filter",
        "A level (error, warn, info, debug, trace), or a list such as \"info,bluetick_server=debug\".",
    ),
];

pub struct SettingInfo {
    pub key: String,
    pub kind: SettingKind,
    /// `None` for a setting without a default.
    pub default: Option<Value>,
    pub about: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingKind {
    Text,
    Number,
    Switch,
    List,
}

impl SettingKind {
    pub fn expected(self) -> &'static str {
        match self {
            SettingKind::Text => "a string",
            SettingKind::Number => "a whole number, 0 or more",
            SettingKind::Switch => "true or false",
            SettingKind::List => "a list of strings, such as [\"one\", \"two\"]",
        }
    }
}

impl SettingInfo {
    pub fn section(&self) -> &str {
        split(&self.key).0
    }

    pub fn name(&self) -> &str {
        split(&self.key).1
    }
}

/// Splits a key into its section and its last part.
fn split(key: &str) -> (&str, &str) {
    key.rsplit_once('.').unwrap_or(("", key))
}

/// Replaces a secret in an error message.
pub const HIDDEN: &str = "its value, which is not shown here";

/// Whether the value is never shown, judged by the last part of the key.
pub fn is_secret(key: &str) -> bool {
    let name = split(key).1;
    name == "key" || name.ends_with("secret") || name.ends_with("password")
}

/// Returns the value with a mask instead of the credentials in each of its URLs.
pub fn without_credentials(key: &str, value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(without_credentials_in(key, text)),
        Value::Array(values) => {
            Value::Array(values.iter().map(|value| without_credentials(key, value)).collect())
        }
        other => other.clone(),
    }
}

/// Like [`without_credentials`], for the text of one value.
pub fn without_credentials_in(key: &str, text: &str) -> String {
    let is_url = ["endpoint", "urls"].contains(&split(key).1) || text.contains("://");
    if is_url { masked(text) } else { text.to_owned() }
}

/// All settings in display order: by section, then by the order of the descriptions.
pub fn all() -> Vec<SettingInfo> {
    let defaults = serde_json::to_value(Settings::default()).expect("settings are plain data");
    let mut known = Vec::new();
    collect("", &defaults, &mut known);
    let first = |fits: &dyn Fn(&str) -> bool| {
        DESCRIPTIONS.iter().position(|(key, _)| fits(key)).unwrap_or(usize::MAX)
    };
    known.sort_by_cached_key(|known| {
        (first(&|key| split(key).0 == known.section()), first(&|key| key == known.key), known.key.clone())
    });
    known
}

fn collect(key: &str, value: &Json, known: &mut Vec<SettingInfo>) {
    let kind = match value {
        Json::Object(fields) => {
            for (name, value) in fields {
                let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                collect(&key, value, known);
            }
            return;
        }
        Json::Number(_) => SettingKind::Number,
        Json::Bool(_) => SettingKind::Switch,
        Json::Array(_) => SettingKind::List,
        // Every optional setting is a text or a path.
        Json::String(_) | Json::Null => SettingKind::Text,
    };
    let default = (!value.is_null()).then(|| Value::try_from(value).expect("defaults are plain data"));
    let about = DESCRIPTIONS.iter().find(|(known, _)| *known == key).map_or("", |(_, about)| about);
    known.push(SettingInfo { key: key.into(), kind, default, about });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_exactly_one_description() {
        let known = all();
        let silent: Vec<&str> =
            known.iter().filter(|known| known.about.is_empty()).map(|known| known.key.as_str()).collect();
        assert!(silent.is_empty(), "add a description to DESCRIPTIONS for {silent:?}");
        let stale: Vec<&str> = DESCRIPTIONS
            .iter()
            .map(|(key, _)| *key)
            .filter(|key| !known.iter().any(|known| known.key == *key))
            .collect();
        assert!(stale.is_empty(), "remove from DESCRIPTIONS: {stale:?}");
    }

    #[test]
    fn secret_settings_are_masked_and_others_are_shown() {
        let secret: Vec<String> =
            all().into_iter().map(|known| known.key).filter(|key| is_secret(key)).collect();
        assert_eq!(secret, ["auth.hs256_secret", "admin.key", "store.redis.password"]);
    }
}
