//! The list of all settings: key, type of the value, default, and a description. Keys, types and
//! defaults come from [`Settings`]; this module holds the descriptions.

use serde_json::Value as Json;
use toml::Value;

use super::Settings;

/// Dotted keys, such as `limits.sends_per_second`, with their descriptions, in display order.
const SENTENCES: &[(&str, &str)] = &[
    ("server.listen", "Where to listen, HOST:PORT. Port 0 takes any free one."),
    (
        "server.allowed_origins",
        "Web origins besides the server's own whose pages may call the API and open a WebSocket, such as [\"https://chat.example.org\"].",
    ),
    (
        "server.hostnames",
        "Names under which clients reach the server, such as [\"chat.example.org\"], without a port. A server that listens on loopback accepts only these, loopback names and the hosts of server.allowed_origins as Host. Set it where a proxy on this machine passes the public name on.",
    ),
    (
        "server.trusted_proxies",
        "Addresses and networks of your proxies, such as [\"127.0.0.1\"] for one on this machine. X-Forwarded-For counts only from these; limits by address then apply to the clients that it names.",
    ),
    (
        "server.drain_delay_seconds",
        "How long a server that is told to stop answers 503 on /readyz and serves all the same, for load balancers that need a moment.",
    ),
    (
        "server.drain_seconds",
        "How long a shutdown may take, after that delay, before what is left is cut off.",
    ),
    (
        "server.return_seconds",
        "When the server shuts down, each client is told to come back after half a second to this long, at random.",
    ),
    (
        "server.people_search",
        "Whether people who are logged in find each other by how a name begins. Off: only by a whole user_id.",
    ),
    (
        "server.tls.certificate_file",
        "A PEM file with the server's certificate and those that lead to its root. With it the server speaks https and wss, and nothing else.",
    ),
    ("server.tls.key_file", "A PEM file with the private key of that certificate, without a password."),
    (
        "server.tls.reload_seconds",
        "How often the two files are looked at; new ones are shown to new connections. 0: only on SIGHUP.",
    ),
    ("limits.content_bytes", "The largest content of one message."),
    (
        "limits.frame_bytes",
        "The largest WebSocket frame a client may send; a larger one closes the connection.",
    ),
    ("limits.body_bytes", "The largest HTTP request body."),
    ("limits.sends_per_second", "Messages one user may send, on average, over all connections."),
    ("limits.sends_burst", "Messages one user may send at once after a pause."),
    ("limits.requests_per_second", "HTTP calls and WebSocket frames of one user, on average."),
    ("limits.requests_burst", "HTTP calls and WebSocket frames of one user at once after a pause."),
    (
        "limits.acks_per_second",
        "`delivered` and `read` frames of one user, on average, over all connections.",
    ),
    ("limits.acks_burst", "`delivered` and `read` frames of one user at once after a pause."),
    (
        "limits.flood_rejections",
        "Frames refused for their rate within ten seconds before a connection is closed as a flood.",
    ),
    ("limits.connections_per_user", "WebSocket connections one user may hold at a time."),
    (
        "limits.connects_per_user_per_minute",
        "WebSocket connections one user may open in a minute, on average, on all devices together; a quarter of them at once.",
    ),
    ("limits.connections", "WebSocket connections the server holds at a time."),
    (
        "limits.connections_per_address",
        "Connections one address may hold at a time (of IPv6, one network of 64 bits); further ones are closed. Proxies that are trusted are not counted.",
    ),
    (
        "limits.connects_per_address_per_second",
        "Connections one address may open, on average; four seconds' worth at once.",
    ),
    ("limits.hello_seconds", "How long a new WebSocket may wait before its hello."),
    ("limits.ping_seconds", "How often a quiet WebSocket is pinged."),
    ("limits.idle_seconds", "How long a WebSocket may stay silent before it is closed."),
    (
        "limits.headers_seconds",
        "How long an HTTP request may take to send its headers, and before it a TLS handshake.",
    ),
    ("limits.body_seconds", "How long an HTTP request may take to send its body."),
    ("limits.outbox_bytes", "Bytes that may wait for one slow WebSocket before it is closed."),
    (
        "limits.in_flight_sends_per_connection",
        "Sends of one WebSocket that may wait for the store before it is not read from.",
    ),
    (
        "limits.backlog_messages",
        "Messages of one conversation sent to a device that comes back; the rest it pages by itself.",
    ),
    (
        "limits.backlog_conversations",
        "Conversations of which a device that comes back is sent messages; of the rest it is told where it stands.",
    ),
    ("limits.group_members", "The largest group."),
    ("limits.members_per_call", "Members that may be added in one call."),
    (
        "limits.password_checks_at_once",
        "Passwords checked at the same time, by default on half of the processors; each takes about 20 MB for a moment.",
    ),
    (
        "limits.logins_per_minute",
        "Log-ins with one user_id within a minute, whoever tries; a third of them at once.",
    ),
    (
        "limits.logins_per_address_per_minute",
        "Log-ins and sign-ups from one address within a minute, whoever for; a third of them at once.",
    ),
    (
        "limits.wrong_admin_keys_per_address_per_minute",
        "Wrong admin keys from one address within a minute; above it, keys are compared one at a time, each after 250 ms, and wrong ones get 429. The right key works after its turn.",
    ),
    (
        "limits.conversations_per_user_per_day",
        "Conversations one user may create within a day, direct ones and groups together; a user may spend the whole quota at once.",
    ),
    (
        "limits.group_invitations_per_user_per_hour",
        "Calls by which one user may put other people into groups within an hour; a user may spend the whole quota at once.",
    ),
    (
        "limits.members_added_per_user_per_hour",
        "People one user may put into groups within an hour, in all calls together; a user may spend the whole quota at once.",
    ),
    ("limits.password_checks_waiting", "Log-ins and sign-ups that may wait for their turn."),
    (
        "auth.signup",
        "Whether anybody may make an account with POST /v1/signup. With auth.hs256_secret it is off all the same, see below.",
    ),
    (
        "auth.signup_beside_own_users",
        "Keeps sign-up open although auth.hs256_secret is set. A stranger may then take the name of a user of yours who has no account here, and read their messages.",
    ),
    (
        "auth.reserved_names",
        "Names that sign-up refuses, in any spelling that looks like them, in addition to system, void, admin, bluetick, support and root.",
    ),
    (
        "auth.password_min_length",
        "The shortest password that can be set, in bytes, from 1 to 1024; very common ones are refused whatever their length.",
    ),
    ("auth.token_ttl_seconds", "How long a token from sign-up or log-in is good (7 days)."),
    ("auth.max_token_ttl_seconds", "The longest a minted token may live (90 days)."),
    (
        "auth.hs256_secret",
        "A secret of at least 32 bytes, shared with your own product, to sign and verify tokens. Without any key here, one is made in the data directory.",
    ),
    (
        "auth.public_key_file",
        "A PEM file with your Ed25519 or RSA public key: your product makes the tokens, this server only verifies them.",
    ),
    ("auth.jwks_file", "The same as a JSON Web Key Set; keys are chosen by their kid."),
    ("auth.issuer", "When set, a token must name this issuer (iss)."),
    ("auth.audience", "When set, a token must be meant for this audience (aud)."),
    ("auth.leeway_seconds", "How far the clock of a token's maker may be off."),
    (
        "admin.key",
        "The key that mints tokens and makes users, at least 16 bytes. When not given, one is made in the data directory (admin.key).",
    ),
    (
        "store.engine",
        "What keeps everything: \"embedded\" (files in the data directory, one server) or \"dynamodb\" (with Redis, for a fleet).",
    ),
    ("store.data_dir", "Where everything is kept: messages, users and the keys made by the server."),
    (
        "store.dedupe_window_seconds",
        "How long a message_id sent again is known to be the same message (7 days). The embedded store counts the time in which it was open, independent of the wall clock.",
    ),
    (
        "store.checkpoint_bytes",
        "Bytes of log before they are turned into tables; more is faster, and slower to start after a crash.",
    ),
    (
        "store.checkpoint_idle_seconds",
        "How many seconds a change may wait for its checkpoint, however little there is to write.",
    ),
    ("store.segment_bytes", "The size of one log file."),
    ("store.awake_conversations", "Conversations that stay awake in memory."),
    ("store.page_cache_bytes", "Bytes of messages kept in memory as they were last read."),
    ("store.queued_writes", "Writes that may wait for the disk before more are refused."),
    (
        "store.dynamodb.endpoint",
        "With engine = \"dynamodb\": an engine other than Amazon's, such as http://scylla:8000.",
    ),
    ("store.dynamodb.region", "Where the tables are; what the AWS environment says when not given."),
    ("store.dynamodb.table_prefix", "What the name of every table begins with."),
    ("store.dynamodb.deadline_ms", "How long one request is tried, all its attempts together."),
    ("store.dynamodb.attempt_timeout_ms", "How long one attempt may take."),
    ("store.dynamodb.requests_at_once", "Requests under way at most; others wait inside their deadline."),
    (
        "store.redis.urls",
        "With engine = \"dynamodb\": the Redis or Valkey server, the sentinels, or some servers of the cluster; rediss:// for TLS.",
    ),
    ("store.redis.mode", "What they are: \"single\", \"sentinel\" or \"cluster\"."),
    ("store.redis.sentinel_master", "What the sentinels call the primary."),
    ("store.redis.username", "Who to log in as, where Redis has users."),
    ("store.redis.password", "The password of Redis, where the URL has none."),
    ("store.redis.tls_ca_file", "Certificates (PEM) to trust in place of the machine's own."),
    ("store.redis.prefix", "What every key begins with, so that several fleets can share a Redis."),
    ("store.redis.timeout_ms", "How long one call to Redis may take before the server does without."),
    ("store.fleet.send_deadline_ms", "A sender that has no answer by then is told to try again."),
    (
        "store.fleet.void_after_ms",
        "A place that was handed out and is still empty after this time is closed with a void.",
    ),
    (
        "store.fleet.flush_interval_ms",
        "Inbox rows and the senders' own status rows are written at most this often each; they are computed in between.",
    ),
    (
        "store.fleet.return_grace_ms",
        "After Redis was away, sends go on without it for this long, until every node has told it what was stored.",
    ),
    ("store.fleet.sends_in_flight", "Sends under way at a time; more are refused."),
    (
        "store.fleet.most_partitions",
        "A conversation with more than about 800 messages a second is spread over several partitions of its table, at most so many; 1: never.",
    ),
    (
        "archive.engine",
        "Where messages go when they are old: off (they stay), directory, or s3 (anything that speaks S3). Readers see no difference.",
    ),
    (
        "archive.directory",
        "With engine = \"directory\": where. A relative path, or none, is within the data directory (archive).",
    ),
    ("archive.bucket", "With engine = \"s3\": the bucket, which must be there."),
    ("archive.region", "With engine = \"s3\": the region of the bucket."),
    (
        "archive.endpoint",
        "With engine = \"s3\": the address of a server that is not Amazon's, such as http://127.0.0.1:9000. Credentials are not set here: they come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or from where the machine keeps them.",
    ),
    ("archive.prefix", "With engine = \"s3\": what the names of all objects begin with."),
    ("archive.timeout_seconds", "How long one request to the object store may take, tries again included."),
    ("archive.age_seconds", "How old a message is, by the server's clock, when it moves (90 days)."),
    (
        "archive.patience_seconds",
        "How much longer old messages wait that are too few for a segment (30 days), before they move all the same.",
    ),
    ("archive.segment_messages", "Messages in one object."),
    (
        "archive.messages_per_second",
        "How fast messages move at most, so that people who write do not feel it. 0: as fast as it goes.",
    ),
    ("archive.every_seconds", "How often the archive runs by itself. 0: only by `bluetick archive run`."),
    (
        "archive.between",
        "The hours in UTC in which it begins by itself, such as \"02:00-05:00\", or \"22:00-04:00\" over midnight.",
    ),
    (
        "archive.retention_seconds",
        "How old a message is, by the server's clock, when its content is deleted for good, wherever it is. 0: never.",
    ),
    ("archive.cache_bytes", "Memory for parts of the archive that were read lately."),
    (
        "archive.compact",
        "Whether a run gives the space that became free back to the disk. An erasure always rewrites the tables.",
    ),
    (
        "audit.file",
        "Where administrative acts are written down: a file, in the data directory unless the path is absolute, or \"stderr\", or \"off\".",
    ),
    ("audit.rotate_bytes", "A file of them that would grow beyond this is put aside and a new one begun."),
    ("audit.keep_files", "Files put aside that are kept; the oldest beyond them is deleted."),
    ("log.format", "auto (human on a terminal, JSON otherwise), human or json."),
    (
        "log.filter",
        "A level (error, warn, info, debug, trace), or a list such as \"info,bluetick_server=debug\".",
    ),
];

pub struct Known {
    pub key: String,
    pub kind: Kind,
    /// `None` for a setting without a default.
    pub default: Option<Value>,
    pub about: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Number,
    Switch,
    List,
}

impl Kind {
    pub fn expected(self) -> &'static str {
        match self {
            Kind::Text => "a text",
            Kind::Number => "a whole number, 0 or more",
            Kind::Switch => "true or false",
            Kind::List => "a list of texts, such as [\"one\", \"two\"]",
        }
    }
}

impl Known {
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

/// All settings in display order: by section, then by the order of the descriptions.
pub fn all() -> Vec<Known> {
    let defaults = serde_json::to_value(Settings::default()).expect("settings are plain data");
    let mut known = Vec::new();
    collect("", &defaults, &mut known);
    let first =
        |fits: &dyn Fn(&str) -> bool| SENTENCES.iter().position(|(key, _)| fits(key)).unwrap_or(usize::MAX);
    known.sort_by_cached_key(|known| {
        (first(&|key| split(key).0 == known.section()), first(&|key| key == known.key), known.key.clone())
    });
    known
}

fn collect(key: &str, value: &Json, known: &mut Vec<Known>) {
    let kind = match value {
        Json::Object(fields) => {
            for (name, value) in fields {
                let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                collect(&key, value, known);
            }
            return;
        }
        Json::Number(_) => Kind::Number,
        Json::Bool(_) => Kind::Switch,
        Json::Array(_) => Kind::List,
        // Every optional setting is a text or a path.
        Json::String(_) | Json::Null => Kind::Text,
    };
    let default = (!value.is_null()).then(|| Value::try_from(value).expect("defaults are plain data"));
    let about = SENTENCES.iter().find(|(known, _)| *known == key).map_or("", |(_, about)| about);
    known.push(Known { key: key.into(), kind, default, about });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_exactly_one_description() {
        let known = all();
        let silent: Vec<&str> =
            known.iter().filter(|known| known.about.is_empty()).map(|known| known.key.as_str()).collect();
        assert!(silent.is_empty(), "add a sentence to SENTENCES for {silent:?}");
        let stale: Vec<&str> = SENTENCES
            .iter()
            .map(|(key, _)| *key)
            .filter(|key| !known.iter().any(|known| known.key == *key))
            .collect();
        assert!(stale.is_empty(), "take out of SENTENCES: {stale:?}");
    }

    #[test]
    fn secret_settings_are_masked_and_others_are_shown() {
        let secret: Vec<String> =
            all().into_iter().map(|known| known.key).filter(|key| is_secret(key)).collect();
        assert_eq!(secret, ["auth.hs256_secret", "admin.key", "store.redis.password"]);
    }
}
