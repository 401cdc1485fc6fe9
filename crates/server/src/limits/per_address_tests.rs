//! Tests of the limits per address.

use std::cell::Cell;

use bluetick_core::Timestamp;
use bluetick_core::time::ManualClock;
use tokio::time::timeout;

use super::*;

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn addresses(change: impl FnOnce(&mut LimitSettings)) -> (AddressLimits, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at(NOW));
    let mut limits = LimitSettings::default();
    change(&mut limits);
    let proxies = ["127.0.0.0/8", "10.0.0.0/8", "fd00::/8"].map(|network| network.parse().unwrap());
    let settings = ServerSettings { trusted_proxies: proxies.into(), ..ServerSettings::default() };
    (AddressLimits::new(&settings, &limits, Arc::<ManualClock>::clone(&clock)), clock)
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn forwarded(values: &[&str]) -> HeaderMap {
    values.iter().map(|value| (FORWARDED_FOR.parse().unwrap(), value.parse().unwrap())).collect()
}

#[test]
fn connection_above_address_limit_is_refused_until_another_ends() {
    let (addresses, _) = addresses(|limits| limits.connections_per_address = 2);
    let first = addresses.admit(ip("192.0.2.1")).unwrap();
    let _second = addresses.admit(ip("192.0.2.1")).unwrap();
    assert_eq!(addresses.admit(ip("192.0.2.1")).err(), Some(ConnectionRefusal::TooManyOpen));
    assert!(addresses.admit(ip("192.0.2.2")).is_ok());
    drop(first);
    assert!(addresses.admit(ip("192.0.2.1")).is_ok());
}

#[test]
fn connects_above_address_rate_are_refused_until_time_passes() {
    let (addresses, clock) = addresses(|limits| limits.connects_per_address_per_second = 2);
    let come = || addresses.admit(ip("2001:db8::1")).map(drop);
    for _ in 0..2 * BURST_SECONDS {
        come().unwrap();
    }
    assert_eq!(come(), Err(ConnectionRefusal::TooFast(Duration::from_millis(500))));
    assert!(addresses.admit(ip("2001:db8::2")).is_err(), "the same /64 network");
    clock.advance_millis(500);
    come().unwrap();
}

#[test]
fn log_ins_are_limited_per_address() {
    let (addresses, clock) = addresses(|limits| limits.logins_per_address_per_minute = 6);
    let log_in = || addresses.login(ip("192.0.2.1"));
    log_in().unwrap();
    log_in().unwrap();
    assert_eq!(log_in().unwrap_err().retry_after, Some(Duration::from_secs(10)));
    addresses.login(ip("192.0.2.2")).unwrap();
    clock.advance_millis(10_000);
    log_in().unwrap();
}

#[tokio::test(start_paused = true)]
async fn wrong_admin_keys_above_address_limit_are_refused_until_time_passes() {
    let (addresses, clock) = addresses(|limits| limits.wrong_admin_keys_per_address_per_minute = 6);
    let caller = ip("192.0.2.1");
    let check = async |caller, is_right: bool| addresses.check_admin_key(caller, || is_right).await;
    for _ in 0..6 {
        assert_eq!(check(caller, false).await, KeyCheck::Wrong);
    }
    let refused = Problem::too_many_wrong_keys(Duration::from_secs(10));
    assert_eq!(check(caller, false).await, KeyCheck::TooMany(refused));
    assert_eq!(check(caller, true).await, KeyCheck::Right);
    assert_eq!(check(ip("192.0.2.2"), false).await, KeyCheck::Wrong);
    clock.advance_millis(10_000);
    assert_eq!(check(caller, false).await, KeyCheck::Wrong);
    assert!(matches!(check(caller, false).await, KeyCheck::TooMany(_)));
}

#[tokio::test(start_paused = true)]
async fn admin_keys_above_limit_are_compared_one_at_a_time_after_a_pause() {
    let (addresses, _clock) = addresses(|limits| limits.wrong_admin_keys_per_address_per_minute = 1);
    let caller = ip("192.0.2.1");
    assert_eq!(addresses.check_admin_key(caller, || false).await, KeyCheck::Wrong);
    let compared = Cell::new(0);
    let guess = || {
        addresses.check_admin_key(caller, || {
            compared.set(compared.get() + 1);
            false
        })
    };
    // Callers that disconnect before their pause ends get no result.
    for _ in 0..100 {
        assert!(timeout(KEY_PAUSE / 2, guess()).await.is_err());
    }
    assert_eq!(compared.get(), 0);
    let guesses = futures_util::future::join_all((0..MAX_WAITING_KEYS).map(|_| guess()));
    assert!(timeout(KEY_PAUSE * 5 + KEY_PAUSE / 2, guesses).await.is_err());
    assert_eq!(compared.get(), 5);
}

#[tokio::test(start_paused = true)]
async fn right_admin_key_waits_for_a_bounded_number_of_wrong_ones_of_its_address() {
    let (addresses, _clock) = addresses(|limits| limits.wrong_admin_keys_per_address_per_minute = 1);
    let caller = ip("192.0.2.1");
    assert_eq!(addresses.check_admin_key(caller, || false).await, KeyCheck::Wrong);
    let refused = Cell::new(0);
    let guess = async || {
        if let KeyCheck::TooMany(problem) = addresses.check_admin_key(caller, || false).await
            && problem.retry_after == Some(KEY_PAUSE * MAX_WAITING_KEYS as u32)
        {
            refused.set(refused.get() + 1);
        }
    };
    let guesses = futures_util::future::join_all((0..2_000).map(|_| guess()));
    tokio::pin!(guesses);
    assert!(timeout(KEY_PAUSE / 2, &mut guesses).await.is_err());
    assert_eq!(refused.get(), 1_992);
    assert!(timeout(KEY_PAUSE, &mut guesses).await.is_err());
    let right = timeout(Duration::from_millis(2_100), addresses.check_admin_key(caller, || true));
    let (right, _) = tokio::join!(right, guesses);
    assert_eq!(right, Ok(KeyCheck::Right));
}

#[test]
fn zero_disables_each_address_limit() {
    let (addresses, _) = addresses(|limits| {
        limits.connections_per_address = 0;
        limits.connects_per_address_per_second = 0;
        limits.logins_per_address_per_minute = 0;
    });
    let held: Vec<_> = (0..10_000).map(|_| addresses.admit(ip("192.0.2.1")).unwrap()).collect();
    assert_eq!(held.len(), 10_000);
    (0..10_000).for_each(|_| addresses.login(ip("192.0.2.1")).unwrap());
}

#[test]
fn trusted_proxy_is_not_counted_but_the_client_it_names_is() {
    let (addresses, _) = addresses(|limits| limits.connections_per_address = 1);
    let proxy = ip("10.1.2.3");
    assert!(addresses.admit(proxy).unwrap().is_none());
    assert!(addresses.admit(proxy).unwrap().is_none());
    let headers = forwarded(&["192.0.2.1"]);
    let held = addresses.admit_forwarded(proxy, &headers).unwrap();
    assert!(held.is_some());
    assert_eq!(addresses.admit_forwarded(proxy, &headers).err(), Some(ConnectionRefusal::TooManyOpen));
    assert!(addresses.admit_forwarded(proxy, &HeaderMap::new()).unwrap().is_none());
    // The header of an untrusted peer is ignored; the listener has already counted that peer.
    assert!(addresses.admit_forwarded(ip("203.0.113.1"), &headers).unwrap().is_none());
}

#[test]
fn caller_is_last_forwarded_address_that_is_no_trusted_proxy_or_else_the_proxy() {
    let (addresses, _) = addresses(|_| {});
    let caller = |peer: &str, values: &[&str]| addresses.caller(ip(peer), &forwarded(values));
    assert_eq!(caller("203.0.113.1", &["192.0.2.1"]), ip("203.0.113.1"), "the peer is not a trusted proxy");
    assert_eq!(caller("10.0.0.1", &["192.0.2.1"]), ip("192.0.2.1"));
    assert_eq!(
        caller("10.0.0.1", &["198.51.100.9, 192.0.2.1"]),
        ip("192.0.2.1"),
        "an address left of the last untrusted one is ignored"
    );
    assert_eq!(caller("10.0.0.1", &["198.51.100.9", "192.0.2.1,10.0.0.2"]), ip("192.0.2.1"));
    assert_eq!(caller("10.0.0.1", &["192.0.2.1:5000"]), ip("192.0.2.1"));
    assert_eq!(caller("fd00::1", &["[2001:db8::7]:5000"]), ip("2001:db8::7"));
    assert_eq!(caller("fd00::1", &["2001:db8::7"]), ip("2001:db8::7"));
    assert_eq!(caller("10.0.0.1", &["192.0.2.1, unknown"]), ip("10.0.0.1"));
    assert_eq!(caller("10.0.0.1", &["10.0.0.9"]), ip("10.0.0.1"));
    assert_eq!(caller("10.0.0.1", &[]), ip("10.0.0.1"));
}

#[test]
fn idle_addresses_are_dropped_and_addresses_with_a_connection_are_kept() {
    let (addresses, clock) = addresses(|_| {});
    let _held = addresses.admit(ip("192.0.2.1")).unwrap();
    for number in 0..20_000 {
        drop(addresses.admit(IpAddr::V4((0x0b00_0000 + number).into())).unwrap());
        clock.advance_millis(10);
    }
    assert!(addresses.entries.len() <= 4_000, "{}", addresses.entries.len());
    assert!(addresses.entries.contains_key(&AddressGroup::of(ip("192.0.2.1"))));
}
