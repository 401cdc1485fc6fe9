//! The revocation check: whether a token with a valid signature has been revoked.
//!
//! The check reads the revocations of a user from the store and caches them. On a single node the
//! cache is exact, because every revocation passes through this node and evicts the entry. In a
//! fleet an entry is valid for [`FRESH_MS`], or for [`STALE_MS`] while the store does not answer.
//! After that, the check refuses the token. Open connections are not checked again: the hub closes
//! them when it receives the revocation.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::mem;
use std::sync::Arc;

use bluetick_auth::Claims;
use bluetick_core::ports::Store;
use bluetick_core::time::Clock;
use bluetick_core::{ProfileUpdate, Revocations, Revoke, Revoked, StoreError, Timestamp, UserId};
use bluetick_wire::ErrorCode;
use parking_lot::{Mutex, MutexGuard};

use crate::problem::Problem;

/// In a fleet, age up to which a cached entry is used without asking the store, in milliseconds.
/// Bounds how long a revoked token can still be admitted if the revocation event is lost.
const FRESH_MS: i64 = 10_000;
/// In a fleet, age up to which a cached entry is used while the store does not answer, in
/// milliseconds. A longer time admits revoked tokens for longer; a shorter one refuses users
/// sooner.
const STALE_MS: i64 = 60_000;

/// The revocation check, with its cache.
pub(crate) struct RevocationCheck {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    cache: Arc<RevocationCache>,
    /// This node is the only writer of the store.
    is_alone: bool,
}

impl RevocationCheck {
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        cache: Arc<RevocationCache>,
        is_alone: bool,
    ) -> RevocationCheck {
        RevocationCheck { store, clock, cache, is_alone }
    }

    /// Returns an error if the token was revoked, or if the revocations can be neither read nor
    /// found in the cache.
    pub async fn check(&self, claims: &Claims) -> Result<(), Problem> {
        let revocations = self.revocations(&claims.user).await?;
        if revocations.voids(&claims.token) { Err(token_revoked()) } else { Ok(()) }
    }

    /// Returns the issue time for a new token of this user, which no earlier revocation covers.
    pub async fn issue_at(&self, user: &UserId) -> Result<Timestamp, Problem> {
        Ok(self.revocations(user).await?.issue_at(self.clock.now()))
    }

    /// Revokes tokens of the user. On return, this node refuses them and is closing connections
    /// that used them. Other nodes receive the revocation as an event.
    pub async fn revoke(&self, user: &UserId, what: Revoked) -> Result<(), StoreError> {
        let revoke = Some(Revoke { what, at: self.clock.now() });
        self.store.update_profile(ProfileUpdate { revoke, ..ProfileUpdate::of(user.clone()) }).await?;
        Ok(())
    }

    /// Returns the revocations of a user, from the cache if it is fresh enough, else from the
    /// store.
    async fn revocations(&self, user: &UserId) -> Result<Revocations, Problem> {
        let now = self.clock.now();
        let cached = match self.cache.get(user) {
            Some(entry) if self.is_alone || entry.is_younger_than(FRESH_MS, now) => {
                return Ok(entry.revocations);
            }
            cached => cached,
        };
        loop {
            let count = self.cache.count(user);
            match self.store.profile(user).await {
                Ok(profile) => {
                    let entry = CachedRevocations { revocations: profile.revocations, asked_at: now };
                    // `None` means that a revocation arrived during the read, so the result may be
                    // outdated. Read again.
                    if let Some(entry) = self.cache.insert(user, entry, count) {
                        return Ok(entry.revocations);
                    }
                }
                Err(error) => match cached {
                    Some(entry) if entry.is_younger_than(STALE_MS, now) => return Ok(entry.revocations),
                    _ => return Err(revocations_unavailable(error)),
                },
            }
        }
    }
}

fn token_revoked() -> Problem {
    Problem::new(ErrorCode::TokenRevoked, "the token was revoked; log in again")
}

/// The error for a token whose revocations cannot be read.
fn revocations_unavailable(error: StoreError) -> Problem {
    if matches!(error, StoreError::Closing) {
        return Problem::draining();
    }
    tracing::warn!(%error, "revocations unavailable; token refused");
    let retry_after = Some(std::time::Duration::from_secs(1));
    let message = "the server cannot check now whether the token was revoked; try again";
    Problem { retry_after, ..Problem::new(ErrorCode::StoreUnavailable, message) }
}

/// A cached entry. `asked_at` is the time before the read.
#[derive(Clone)]
struct CachedRevocations {
    revocations: Revocations,
    asked_at: Timestamp,
}

impl CachedRevocations {
    /// Returns whether the entry is younger than `millis`. An entry from the future counts as old,
    /// because the clock was set back.
    fn is_younger_than(&self, millis: i64, now: Timestamp) -> bool {
        self.asked_at <= now && now < self.asked_at.plus_millis(millis)
    }
}

/// A bounded, sharded cache of revocations per user.
#[derive(Default)]
pub(crate) struct RevocationCache {
    shards: [Mutex<CacheShard>; SHARDS],
    hasher: RandomState,
}

/// Number of shards, each with its own lock. Fewer shards increase lock contention, and a
/// revocation makes more concurrent reads repeat.
const SHARDS: usize = 16;
/// Maximum number of users in one generation of one shard. With two generations and 16 shards the
/// cache holds 65,536 users. With fewer, more requests read the store.
const MAX_USERS: usize = 2_048;

/// One shard of the cache. When the young generation is full, it replaces the old one, which is
/// dropped whole. A hit in the old generation moves the entry to the young one.
#[derive(Default)]
struct CacheShard {
    young: HashMap<UserId, CachedRevocations>,
    old: HashMap<UserId, CachedRevocations>,
    /// Number of revocations received for users of this shard.
    revocations_received: u64,
}

impl RevocationCache {
    fn shard(&self, user: &UserId) -> MutexGuard<'_, CacheShard> {
        let hash = self.hasher.hash_one(user);
        let number = usize::try_from(hash % SHARDS as u64).expect("a remainder is below its divisor");
        self.shards[number].lock()
    }

    /// Returns the cached entry of a user, of any age.
    fn get(&self, user: &UserId) -> Option<CachedRevocations> {
        let mut shard = self.shard(user);
        if let Some(entry) = shard.young.get(user) {
            return Some(entry.clone());
        }
        let entry = shard.old.remove(user)?;
        let dropped = shard.insert(user, entry.clone());
        // Free the dropped generation after releasing the lock.
        drop(shard);
        drop(dropped);
        Some(entry)
    }

    /// Returns the revocation counter of the user's shard. Call it before reading the store, and
    /// pass it to `insert`.
    fn count(&self, user: &UserId) -> u64 {
        self.shard(user).revocations_received
    }

    /// Caches an entry and returns it. Returns `None` if the shard received a revocation since
    /// `count`.
    fn insert(&self, user: &UserId, entry: CachedRevocations, count: u64) -> Option<CachedRevocations> {
        let mut shard = self.shard(user);
        let dropped = (shard.revocations_received == count).then(|| shard.insert(user, entry.clone()))?;
        drop(shard);
        drop(dropped);
        Some(entry)
    }

    /// Evicts the entry of a user whose tokens were revoked, and advances the revocation counter.
    pub fn evict(&self, user: &UserId) {
        let mut shard = self.shard(user);
        shard.revocations_received += 1;
        shard.young.remove(user);
        shard.old.remove(user);
    }
}

impl CacheShard {
    /// Inserts an entry. Returns the dropped generation, so that the caller can free it without the
    /// lock.
    fn insert(&mut self, user: &UserId, entry: CachedRevocations) -> HashMap<UserId, CachedRevocations> {
        let mut dropped = HashMap::new();
        if self.young.len() >= MAX_USERS {
            dropped = mem::replace(&mut self.old, mem::take(&mut self.young));
        }
        self.young.insert(user.clone(), entry);
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> UserId {
        name.parse().unwrap()
    }

    fn revoked_through(through: i64) -> CachedRevocations {
        let revocations = Revocations::new(Some(Timestamp::from_millis(through)), Vec::new());
        CachedRevocations { revocations, asked_at: Timestamp::from_millis(0) }
    }

    #[test]
    fn revocations_read_before_an_eviction_are_not_cached() {
        let cache = RevocationCache::default();
        let count = cache.count(&user("alice"));
        cache.evict(&user("alice"));
        assert!(
            cache.insert(&user("alice"), revoked_through(1), count).is_none()
                && cache.get(&user("alice")).is_none()
        );
        assert!(cache.insert(&user("alice"), revoked_through(2), cache.count(&user("alice"))).is_some());
        assert!(cache.get(&user("alice")).is_some());
        cache.evict(&user("alice"));
        assert!(cache.get(&user("alice")).is_none());
    }

    #[test]
    fn cache_is_bounded_and_keeps_a_user_who_is_read_often() {
        let cache = RevocationCache::default();
        let alice = user("alice");
        cache.insert(&alice, revoked_through(1), cache.count(&alice));
        for number in 0..200_000 {
            let other = user(&format!("user{number}"));
            cache.insert(&other, revoked_through(1), cache.count(&other));
            assert!(cache.get(&alice).is_some());
        }
        let cached: usize = cache
            .shards
            .iter()
            .map(|shard| shard.lock())
            .map(|shard| shard.young.len() + shard.old.len())
            .sum();
        assert!((MAX_USERS * SHARDS..=2 * MAX_USERS * SHARDS).contains(&cached), "{cached}");
    }
}
