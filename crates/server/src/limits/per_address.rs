//! Limits per address: open connections, new connections, log-in attempts and wrong admin keys.
//! They apply before the client is authenticated.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue};
use bluetick_core::time::Clock;
use bluetick_wire::ErrorCode;

use super::RefillRate;
use super::bucket::Bucket;
use super::limit_table::LimitTable;
use super::network::{AddressGroup, Network};
use crate::problem::Problem;
use crate::settings::{LimitSettings, ServerSettings, at_most};

/// Upper bound on the number of addresses with an entry of their own, about 100 bytes each. Above
/// it, new addresses share one entry, which bounds memory.
const MAX_ADDRESSES: usize = 1 << 19;
/// Burst of new connections per address, in seconds of the configured rate. If it is too small,
/// clients behind one address are refused when they reconnect after a restart.
const BURST_SECONDS: u32 = 4;
/// Header in which proxies list the client address and the proxies before them. If a trusted proxy
/// does not set it, the proxy counts as the client.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// The limit state of all addresses, with the configured rates.
pub(crate) struct AddressLimits {
    /// Maximum number of open connections per address.
    connections: usize,
    connects: RefillRate,
    logins: RefillRate,
    wrong_keys: RefillRate,
    trusted_proxies: Vec<Network>,
    clock: Arc<dyn Clock>,
    entries: LimitTable<AddressGroup, AddressState>,
}

/// The limit state of one address.
#[derive(Default)]
struct AddressState {
    connections: AtomicUsize,
    connects: Bucket,
    logins: Bucket,
    wrong_keys: Bucket,
    /// Held by the request whose admin key is compared next, after the address has exceeded its
    /// limit of wrong keys.
    key_check_lock: tokio::sync::Mutex<()>,
    /// Number of requests that hold `key_check_lock` or wait for it.
    key_checks: AtomicUsize,
    /// The server has already logged that this address exceeds a limit.
    reported: AtomicBool,
}

/// Pause before each admin key of an address above its limit of wrong keys. It bounds guessing to
/// four keys a second. With a longer pause, the right key from such an address waits longer.
const KEY_PAUSE: Duration = Duration::from_millis(250);
/// Maximum number of requests of one address that wait for the comparison of their admin key. The
/// server refuses further ones at once. Guesses from the operator's own address delay the right key
/// by at most this number of pauses.
const MAX_WAITING_KEYS: usize = 8;

/// The result of comparing an admin key.
#[derive(Debug, PartialEq)]
pub(crate) enum KeyCheck {
    Right,
    Wrong,
    /// The address is above the limit of wrong keys, and the key is wrong or was not compared.
    TooMany(Problem),
}

/// A permit to wait for the comparison of an admin key. Dropping it releases the permit.
struct KeyCheckPermit<'a>(&'a AddressState);

impl<'a> KeyCheckPermit<'a> {
    /// Returns `None` if `MAX_WAITING_KEYS` requests of the address wait.
    fn take(state: &'a AddressState) -> Option<KeyCheckPermit<'a>> {
        let permit = KeyCheckPermit(state);
        (state.key_checks.fetch_add(1, Ordering::Relaxed) < MAX_WAITING_KEYS).then_some(permit)
    }
}

impl Drop for KeyCheckPermit<'_> {
    fn drop(&mut self) {
        self.0.key_checks.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection permit of an address. Dropping it releases the permit.
pub(crate) struct AddressPermit(Arc<AddressState>);

impl Drop for AddressPermit {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Why the listener refuses a connection of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionRefusal {
    /// The address has the maximum number of open connections.
    TooManyOpen,
    /// The address opens connections too fast. Holds the time until the next one is allowed.
    TooFast(Duration),
}

impl From<ConnectionRefusal> for Problem {
    fn from(reason: ConnectionRefusal) -> Problem {
        match reason {
            ConnectionRefusal::TooManyOpen => {
                let message = "this address has reached its maximum number of connections";
                let retry_after = Some(Duration::from_secs(5));
                Problem { retry_after, ..Problem::new(ErrorCode::TooManyConnections, message) }
            }
            ConnectionRefusal::TooFast(wait) => Problem::rate_limited(wait),
        }
    }
}

impl AddressLimits {
    pub fn new(settings: &ServerSettings, limits: &LimitSettings, clock: Arc<dyn Clock>) -> AddressLimits {
        let per_second = limits.connects_per_address_per_second;
        let per_minute = limits.logins_per_address_per_minute;
        let burst = per_second.saturating_mul(BURST_SECONDS);
        let wrong_keys = limits.wrong_admin_keys_per_address_per_minute;
        AddressLimits {
            connections: at_most(limits.connections_per_address),
            connects: RefillRate::new(per_second, Duration::from_secs(1), burst),
            logins: RefillRate::new(per_minute, Duration::from_secs(60), per_minute.div_ceil(3)),
            wrong_keys: RefillRate::new(wrong_keys, Duration::from_secs(60), wrong_keys),
            trusted_proxies: settings.trusted_proxies.clone(),
            clock,
            entries: LimitTable::new(MAX_ADDRESSES),
        }
    }

    /// Admits a new connection and returns its permit. Returns `None` for a trusted proxy: its
    /// clients are counted by [`AddressLimits::admit_forwarded`].
    pub fn admit(&self, peer: IpAddr) -> Result<Option<AddressPermit>, ConnectionRefusal> {
        if self.is_trusted(peer) { Ok(None) } else { self.admit_one(peer).map(Some) }
    }

    /// Admits a WebSocket that arrives through a trusted proxy, counted by the client address that
    /// the proxy names. Returns `None` if the peer is not a trusted proxy or names no client.
    pub fn admit_forwarded(
        &self,
        peer: IpAddr,
        headers: &HeaderMap,
    ) -> Result<Option<AddressPermit>, ConnectionRefusal> {
        if !self.is_trusted(peer) {
            return Ok(None);
        }
        self.forwarded_client(headers).map(|address| self.admit_one(address)).transpose()
    }

    /// Charges one log-in or sign-up attempt, successful or not.
    pub fn login(&self, address: IpAddr) -> Result<(), Problem> {
        let state = self.of(address);
        state.logins.take(self.logins, self.clock.now()).map_err(|wait| {
            self.report(address, &state, "limits.logins_per_address_per_minute");
            Problem::rate_limited(wait)
        })
    }

    /// Compares an admin key by calling `is_right`, and counts it if it is wrong. Above the limit
    /// of wrong keys, the keys of an address are compared one at a time, with a pause before each,
    /// and at most `MAX_WAITING_KEYS` wait. A caller that disconnects during its pause gets no
    /// result. The right key is not counted, and it succeeds after its pause.
    pub async fn check_admin_key(&self, address: IpAddr, is_right: impl Fn() -> bool) -> KeyCheck {
        let state = self.of(address);
        if state.wrong_keys.has_token(self.wrong_keys, self.clock.now()) {
            if is_right() {
                return KeyCheck::Right;
            }
            if state.wrong_keys.take(self.wrong_keys, self.clock.now()).is_ok() {
                return KeyCheck::Wrong;
            }
        }
        self.report(address, &state, "limits.wrong_admin_keys_per_address_per_minute");
        let Some(_permit) = KeyCheckPermit::take(&state) else {
            let longest_wait = KEY_PAUSE * MAX_WAITING_KEYS as u32;
            return KeyCheck::TooMany(Problem::too_many_wrong_keys(longest_wait));
        };
        let _one_at_a_time = state.key_check_lock.lock().await;
        tokio::time::sleep(KEY_PAUSE).await;
        if is_right() {
            return KeyCheck::Right;
        }
        match state.wrong_keys.take(self.wrong_keys, self.clock.now()) {
            Ok(()) => KeyCheck::Wrong,
            Err(wait) => KeyCheck::TooMany(Problem::too_many_wrong_keys(wait)),
        }
    }

    /// Returns the address whose limits apply to a request: the peer, or the client that a trusted
    /// proxy names. A proxy that names no client counts as the client.
    pub fn caller(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let forwarded = if self.is_trusted(peer) { self.forwarded_client(headers) } else { None };
        forwarded.unwrap_or(peer)
    }

    /// Returns the client that a trusted proxy names: the last address in `X-Forwarded-For` that is
    /// not itself a trusted proxy. A client can forge every entry before it. Returns `None` if the
    /// header names only trusted proxies or nothing usable.
    fn forwarded_client(&self, headers: &HeaderMap) -> Option<IpAddr> {
        // Parse bytes, not text: a client could otherwise send invalid UTF-8 and make the whole
        // line unreadable, including the entry that the proxy appended.
        let lines = headers.get_all(FORWARDED_FOR).into_iter().map(HeaderValue::as_bytes);
        let named: Vec<&[u8]> = lines.flat_map(|line| line.split(|byte| *byte == b',')).collect();
        let hops = named.into_iter().rev().map(|hop| address_in(std::str::from_utf8(hop).ok()?.trim()));
        // A trusted proxy never writes an unparsable entry; ignore it and everything to its left.
        hops.map_while(|hop| hop).find(|hop| !self.is_trusted(*hop))
    }

    fn is_trusted(&self, address: IpAddr) -> bool {
        self.trusted_proxies.iter().any(|network| network.contains(address))
    }

    fn admit_one(&self, address: IpAddr) -> Result<AddressPermit, ConnectionRefusal> {
        let state = self.of(address);
        state.connects.take(self.connects, self.clock.now()).map_err(|wait| {
            self.report(address, &state, "limits.connects_per_address_per_second");
            ConnectionRefusal::TooFast(wait)
        })?;
        if state.connections.fetch_add(1, Ordering::Relaxed) >= self.connections {
            state.connections.fetch_sub(1, Ordering::Relaxed);
            self.report(address, &state, "limits.connections_per_address");
            return Err(ConnectionRefusal::TooManyOpen);
        }
        Ok(AddressPermit(state))
    }

    /// Logs that an address exceeds a limit, once per table entry.
    fn report(&self, address: IpAddr, state: &AddressState, limit: &str) {
        if !state.reported.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                %address,
                limit,
                "address exceeds a limit; if it is your proxy, add it to server.trusted_proxies"
            );
        }
    }

    /// Returns the limit state of an address, and creates it if needed.
    fn of(&self, address: IpAddr) -> Arc<AddressState> {
        let now = self.clock.now();
        self.entries.of(&AddressGroup::of(address), now, |state| {
            state.connects.is_full(self.connects, now)
                && state.logins.is_full(self.logins, now)
                && state.wrong_keys.is_full(self.wrong_keys, now)
        })
    }
}

/// Parses one entry of the header: an address, with or without a port.
fn address_in(entry: &str) -> Option<IpAddr> {
    let bare = entry.strip_prefix('[').and_then(|rest| rest.split_once(']')).map(|(address, _)| address);
    let bare = bare.unwrap_or(entry);
    bare.parse().ok().or_else(|| bare.split_once(':').and_then(|(address, _)| address.parse().ok()))
}

#[cfg(test)]
#[path = "per_address_tests.rs"]
mod tests;
