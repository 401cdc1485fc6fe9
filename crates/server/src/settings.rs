//! What an operator may set about the server's door and its limits. Reading files, the environment and flags
//! belongs to the binary; what the settings mean belongs to the modules that use them.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::limits::Network;

/// Section `[server]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerSettings {
    /// Where to listen, as `HOST:PORT`. Port 0 takes any free one.
    pub listen: String,
    pub tls: TlsSettings,
    /// Web origins, such as `https://chat.example.org`, whose pages may call the API and open a WebSocket besides the
    /// server's own.
    /// Empty: only the same origin. Programs that send no `Origin` are not concerned.
    pub allowed_origins: Vec<String>,
    /// The names under which clients reach the server, such as `chat.example.org`, without a port. A server that listens
    /// on loopback accepts these, loopback names and the hosts of `allowed_origins` as `Host`. Any other server checks
    /// `Host` only when this list is not empty.
    pub hostnames: Vec<String>,
    /// The proxies in front of the server. The server believes `X-Forwarded-For` only from these addresses, loopback
    /// included; limits by address use the connection's address for all other clients.
    pub trusted_proxies: Vec<Network>,
    /// How long a server that is told to stop says that it is not ready and serves all the same, for load balancers
    /// that need a moment to notice.
    pub drain_delay_seconds: u64,
    /// How long a shutdown may take, after that delay, before what is left is cut off.
    pub drain_seconds: u64,
    /// Over how long the clients of a server that shuts down are spread when they come back.
    pub return_seconds: u64,
    /// Whether people find each other by how a name begins. Off: only by a whole user_id.
    pub people_search: bool,
}

impl Default for ServerSettings {
    fn default() -> Self {
        ServerSettings {
            listen: "127.0.0.1:8080".into(),
            tls: TlsSettings::default(),
            allowed_origins: Vec::new(),
            hostnames: Vec::new(),
            trusted_proxies: Vec::new(),
            drain_delay_seconds: 0,
            drain_seconds: 10,
            return_seconds: 3,
            people_search: true,
        }
    }
}

impl ServerSettings {
    pub(crate) fn drain_delay(&self) -> Duration {
        Duration::from_secs(self.drain_delay_seconds)
    }

    pub(crate) fn drain(&self) -> Duration {
        Duration::from_secs(self.drain_seconds)
    }

    /// The latest that a client is told to come back.
    pub(crate) fn latest_return(&self) -> Duration {
        Duration::from_secs(self.return_seconds)
    }
}

/// Section `[server.tls]`. Without files the server speaks without TLS.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsSettings {
    /// A PEM file with the server's certificate, and after it those that lead to its root.
    pub certificate_file: Option<PathBuf>,
    /// A PEM file with the private key of that certificate.
    pub key_file: Option<PathBuf>,
    /// How often the files are looked at, to show new connections what is new in them. 0: only when the server is told.
    pub reload_seconds: u64,
}

impl Default for TlsSettings {
    fn default() -> Self {
        TlsSettings { certificate_file: None, key_file: None, reload_seconds: 60 }
    }
}

impl TlsSettings {
    pub fn is_on(&self) -> bool {
        self.certificate_file.is_some() || self.key_file.is_some()
    }
}

/// Section `[limits]`. 0 switches a limit off.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitSettings {
    /// The largest content of one message.
    pub content_bytes: usize,
    /// The largest WebSocket frame a client may send; a larger one closes the connection.
    pub frame_bytes: usize,
    /// The largest HTTP request body.
    pub body_bytes: usize,
    /// Messages one user may send, on average, over all connections.
    pub sends_per_second: u32,
    /// Messages one user may send at once after a pause.
    pub sends_burst: u32,
    /// HTTP calls and WebSocket frames of one user together, on average.
    pub requests_per_second: u32,
    /// HTTP calls and WebSocket frames of one user at once after a pause.
    pub requests_burst: u32,
    /// `delivered` and `read` frames of one user, on average, over all connections.
    pub acks_per_second: u32,
    /// `delivered` and `read` frames of one user at once after a pause.
    pub acks_burst: u32,
    /// Frames refused for their rate within ten seconds before the connection counts as a flood and is closed.
    pub flood_rejections: u32,
    /// WebSocket connections one user may hold at a time.
    pub connections_per_user: usize,
    /// WebSocket connections one user may open in a minute, on average, on all devices together; a quarter of them at once.
    pub connects_per_user_per_minute: u32,
    /// WebSocket connections the server holds at a time; further ones are refused with 503.
    pub connections: usize,
    /// Connections one address may hold at a time, whoever has them; an IPv6 network of 64 bits counts as one.
    pub connections_per_address: usize,
    /// Connections one address may open, on average; four seconds' worth at once.
    pub connects_per_address_per_second: u32,
    /// How long a new WebSocket may wait before its hello.
    pub hello_seconds: u64,
    /// How often a quiet WebSocket is pinged.
    pub ping_seconds: u64,
    /// How long a WebSocket may stay silent, not even answering pings, before it is closed.
    pub idle_seconds: u64,
    /// How long an HTTP request may take to send its headers, and before it a TLS handshake.
    pub headers_seconds: u64,
    /// How long an HTTP request may take to send its body.
    pub body_seconds: u64,
    /// Bytes that may wait for one slow WebSocket before it is closed.
    pub outbox_bytes: usize,
    /// Messages of one conversation sent to a device that comes back; the rest it pages by itself.
    pub backlog_messages: usize,
    /// Conversations of which a device that comes back is sent messages; of the rest it is told where it stands.
    pub backlog_conversations: usize,
    /// Sends of one WebSocket that may wait for the store at a time; while that many do, it is not read from.
    pub in_flight_sends_per_connection: usize,
    /// The largest group.
    pub group_members: usize,
    /// Members that may be added in one call.
    pub members_per_call: usize,
    /// Log-ins one user_id may try in a minute, whoever tries; a third of them at once.
    pub logins_per_minute: u32,
    /// Log-ins and sign-ups one address may try in a minute, whoever for; a third of them at once.
    pub logins_per_address_per_minute: u32,
    /// Wrong admin keys one address may present in a minute. Above that, the server delays each wrong key by a second
    /// and answers 429. The right key always works.
    pub wrong_admin_keys_per_address_per_minute: u32,
    /// Conversations one user may create in a day, direct ones and groups together.
    pub conversations_per_user_per_day: u32,
    /// Calls by which one user may put other people into groups in an hour: creating a group with members, adding
    /// members.
    pub group_invitations_per_user_per_hour: u32,
    /// People one user may put into groups in an hour, over all those calls.
    pub members_added_per_user_per_hour: u32,
    /// Passwords hashed or checked at the same time; each takes about 20 MB and a core for some tens of milliseconds. By
    /// default half as many as there are processors.
    pub password_checks_at_once: usize,
    /// Log-ins and sign-ups that may wait for their turn; further ones are refused with 503.
    pub password_checks_waiting: usize,
}

impl Default for LimitSettings {
    fn default() -> Self {
        LimitSettings {
            content_bytes: 64 * 1024,
            frame_bytes: 512 * 1024,
            body_bytes: 2 * 1024 * 1024,
            sends_per_second: 100,
            sends_burst: 1_000,
            requests_per_second: 200,
            requests_burst: 2_000,
            acks_per_second: 2_000,
            acks_burst: 20_000,
            flood_rejections: 500,
            connections_per_user: 16,
            connections: 100_000,
            connections_per_address: 2_000,
            connects_per_address_per_second: 500,
            connects_per_user_per_minute: 120,
            hello_seconds: 10,
            ping_seconds: 25,
            idle_seconds: 75,
            headers_seconds: 10,
            body_seconds: 30,
            outbox_bytes: 4 * 1024 * 1024,
            backlog_messages: 1_000,
            backlog_conversations: 1_000,
            in_flight_sends_per_connection: 256,
            group_members: 10_000,
            members_per_call: 1_000,
            logins_per_minute: 30,
            logins_per_address_per_minute: 300,
            wrong_admin_keys_per_address_per_minute: 10,
            conversations_per_user_per_day: 200,
            group_invitations_per_user_per_hour: 60,
            members_added_per_user_per_hour: 2_000,
            password_checks_at_once: half_of_the_processors(),
            password_checks_waiting: 64,
        }
    }
}

/// A flood of log-ins leaves the other half to everybody else.
fn half_of_the_processors() -> usize {
    std::thread::available_parallelism().map_or(1, |processors| (processors.get() / 2).max(1))
}

/// A limit as its user needs it: 0 means that there is none.
pub(crate) fn at_most(setting: usize) -> usize {
    if setting == 0 { usize::MAX } else { setting }
}

/// A time limit in seconds: 0 means that there is none.
pub(crate) fn seconds(setting: u64) -> Option<Duration> {
    (setting > 0).then(|| Duration::from_secs(setting))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_set_keeps_its_default_and_an_unknown_key_is_an_error_that_names_it() {
        let limits: LimitSettings = serde_json::from_str(r#"{"content_bytes":5}"#).unwrap();
        assert_eq!(limits, LimitSettings { content_bytes: 5, ..LimitSettings::default() });
        let unknown = serde_json::from_str::<LimitSettings>(r#"{"sends_per_secnd":5}"#).unwrap_err();
        assert!(unknown.to_string().contains("sends_per_secnd"));
        assert!(serde_json::from_str::<ServerSettings>(r#"{"port":5}"#).is_err());
    }

    #[test]
    fn zero_is_no_limit() {
        assert_eq!((at_most(0), at_most(7)), (usize::MAX, 7));
        assert_eq!((seconds(0), seconds(7)), (None, Some(Duration::from_secs(7))));
    }
}
