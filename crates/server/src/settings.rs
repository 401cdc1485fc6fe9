//! Settings of the listener and the limits. The binary reads files, environment variables and
//! flags.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::limits::Network;

/// The settings section `[server]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerSettings {
    /// Address to listen on, as `HOST:PORT`. Port 0 picks a free port.
    pub listen: String,
    pub tls: TlsSettings,
    /// Web origins whose pages may call the API and open a WebSocket, such as
    /// `https://chat.example.org`. If empty, only the same origin may. Programs that send no
    /// `Origin` are not restricted.
    pub allowed_origins: Vec<String>,
    /// Host names under which clients reach the server, such as `chat.example.org`, without a port.
    /// A server that listens on loopback accepts these, loopback names and the hosts of
    /// `allowed_origins` as `Host`. Any other server checks `Host` only if this list is not empty.
    pub hostnames: Vec<String>,
    /// Proxies in front of the server. The server trusts `X-Forwarded-For` only from these
    /// addresses; loopback must be listed too. For all other peers, address limits use the address
    /// of the connection.
    pub trusted_proxies: Vec<Network>,
    /// Time in which a stopping server reports that it is not ready and still serves. It lets load
    /// balancers notice.
    pub drain_delay_seconds: u64,
    /// Upper bound on the graceful shutdown after `drain_delay_seconds`. Then the server aborts the
    /// rest.
    pub drain_seconds: u64,
    /// Period over which the clients of a stopping server are spread when they reconnect.
    pub return_seconds: u64,
    /// Whether users can search for others by the beginning of a name. If false, only a whole
    /// `user_id` matches.
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

    /// Returns the maximum reconnect delay.
    pub(crate) fn max_reconnect_delay(&self) -> Duration {
        Duration::from_secs(self.return_seconds)
    }
}

/// The settings section `[server.tls]`. Without files the server does not use TLS.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsSettings {
    /// PEM file with the certificate of the server, followed by the intermediate certificates.
    pub certificate_file: Option<PathBuf>,
    /// PEM file with the private key of that certificate.
    pub key_file: Option<PathBuf>,
    /// Interval of the check for changed files, in seconds. 0 reloads them only on request.
    pub reload_seconds: u64,
}

impl Default for TlsSettings {
    fn default() -> Self {
        TlsSettings { certificate_file: None, key_file: None, reload_seconds: 60 }
    }
}

impl TlsSettings {
    /// Returns whether either file is configured.
    pub fn is_on(&self) -> bool {
        self.certificate_file.is_some() || self.key_file.is_some()
    }
}

/// The settings section `[limits]`. 0 disables a limit.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitSettings {
    /// Maximum size of the content of one message.
    pub content_bytes: usize,
    /// Maximum size of a WebSocket frame from a client. A larger one closes the connection.
    pub frame_bytes: usize,
    /// Maximum size of an HTTP request body.
    pub body_bytes: usize,
    /// Average rate of messages per user, over all connections.
    pub sends_per_second: u32,
    /// Maximum burst of messages per user.
    pub sends_burst: u32,
    /// Average rate of HTTP calls and WebSocket frames per user, counted together.
    pub requests_per_second: u32,
    /// Maximum burst of HTTP calls and WebSocket frames per user.
    pub requests_burst: u32,
    /// Average rate of `delivered` and `read` frames per user, over all connections.
    pub acks_per_second: u32,
    /// Maximum burst of `delivered` and `read` frames per user.
    pub acks_burst: u32,
    /// Number of rate-limited frames within ten seconds after which the server closes the
    /// connection as a flood.
    pub flood_rejections: u32,
    /// Maximum number of open WebSockets per user.
    pub connections_per_user: usize,
    /// Average number of new WebSockets per user and minute, over all devices. The burst is a
    /// quarter of it.
    pub connects_per_user_per_minute: u32,
    /// Maximum number of open WebSockets. The server refuses further ones with 503.
    pub connections: usize,
    /// Maximum number of open connections per address, over all users. An IPv6 /64 network counts
    /// as one address.
    pub connections_per_address: usize,
    /// Average number of new connections per address and second. The burst is four seconds' worth.
    pub connects_per_address_per_second: u32,
    /// Maximum time until a new WebSocket sends `hello`.
    pub hello_seconds: u64,
    /// Interval at which the server pings an idle WebSocket.
    pub ping_seconds: u64,
    /// Time without any frame, pongs included, after which the server closes a WebSocket.
    pub idle_seconds: u64,
    /// Maximum time for the TLS handshake, and for the headers of an HTTP request.
    pub headers_seconds: u64,
    /// Maximum time for the body of an HTTP request.
    pub body_seconds: u64,
    /// Maximum size of the outbox of a WebSocket, in bytes. The server closes a connection that
    /// exceeds it.
    pub outbox_bytes: usize,
    /// Maximum number of messages per conversation in a catch-up. The device pages through the
    /// rest.
    pub backlog_messages: usize,
    /// Maximum number of conversations whose messages a catch-up sends. For the rest, the device
    /// gets only a `backlog` frame and pages the messages itself.
    pub backlog_conversations: usize,
    /// Maximum number of sends of a WebSocket that wait for the store. At this number, the server
    /// stops reading from the WebSocket.
    pub in_flight_sends_per_connection: usize,
    /// Maximum number of members of a group.
    pub group_members: usize,
    /// Maximum number of members that one call may add.
    pub members_per_call: usize,
    /// Average number of log-in attempts per `user_id` and minute, from all addresses. The burst is
    /// a third of it.
    pub logins_per_minute: u32,
    /// Average number of log-in and sign-up attempts per address and minute, for all users. The
    /// burst is a third of it.
    pub logins_per_address_per_minute: u32,
    /// Average number of wrong admin keys per address and minute. Above it, the server compares the
    /// keys of that address one at a time, after 250 ms each, and answers wrong keys with 429. At
    /// most 8 keys wait, and further ones get 429 too. The right key succeeds after its pause.
    pub wrong_admin_keys_per_address_per_minute: u32,
    /// Number of conversations that a user may create per day, direct and group together.
    pub conversations_per_user_per_day: u32,
    /// Number of calls per hour in which a user adds others to groups: creating a group with
    /// members, and adding members.
    pub group_invitations_per_user_per_hour: u32,
    /// Number of users that a user may add to groups per hour, over all those calls.
    pub members_added_per_user_per_hour: u32,
    /// Number of passwords that are hashed or checked concurrently. Each takes about 20 MB and one
    /// core for tens of milliseconds. The default is half of the processors.
    pub password_checks_at_once: usize,
    /// Number of log-ins and sign-ups that may wait in the password hash pool. The server refuses
    /// further ones with 503.
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

/// Returns half of the processors, so that a flood of log-ins leaves the other half to everything
/// else.
fn half_of_the_processors() -> usize {
    std::thread::available_parallelism().map_or(1, |processors| (processors.get() / 2).max(1))
}

/// Converts a setting to a limit: 0 means unlimited.
pub(crate) fn at_most(setting: usize) -> usize {
    if setting == 0 { usize::MAX } else { setting }
}

/// Converts a setting in seconds to a timeout: 0 means none.
pub(crate) fn seconds(setting: u64) -> Option<Duration> {
    (setting > 0).then(|| Duration::from_secs(setting))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unset_keys_keep_defaults_and_unknown_keys_are_errors() {
        let limits: LimitSettings = serde_json::from_str(r#"{"content_bytes":5}"#).unwrap();
        assert_eq!(limits, LimitSettings { content_bytes: 5, ..LimitSettings::default() });
        let unknown = serde_json::from_str::<LimitSettings>(r#"{"sends_per_secnd":5}"#).unwrap_err();
        assert!(unknown.to_string().contains("sends_per_secnd"));
        assert!(serde_json::from_str::<ServerSettings>(r#"{"port":5}"#).is_err());
    }

    #[test]
    fn setting_of_zero_means_unlimited() {
        assert_eq!((at_most(0), at_most(7)), (usize::MAX, 7));
        assert_eq!((seconds(0), seconds(7)), (None, Some(Duration::from_secs(7))));
    }
}
