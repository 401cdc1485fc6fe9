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
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bluetick_auth::Claims;
use bluetick_core::ports::Store;
use bluetick_core::time::Clock;
use bluetick_core::{ProfileUpdate, Revocations, Revoke, Revoked, StoreError, Timestamp, UserId};
use bluetick_wire::ErrorCode;

use crate::problem::Problem;

/// In a fleet, age up to which a cached entry is used without asking the store, in milliseconds.
/// Bounds how long a revoked token can still be admitted if the revocation event is lost.
const FRESH_MS: i64 = 10_000;
/// In a fleet, age up to which a cached entry is used while the store does not answer, in
/// milliseconds. A longer time admits revoked tokens for longer; a shorter one refuses users
/// sooner.
const STALE_MS: i64 = 60_000;

/// The revocation check, with its cache.
pub(crate) struct Gate {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    known: Arc<KnownRevocations>,
    /// This node is the only writer of the store.
    is_alone: bool,
}

impl Gate {
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        known: Arc<KnownRevocations>,
        is_alone: bool,
    ) -> Gate {
        Gate { store, clock, known, is_alone }
    }

    /// Returns an error if the token was revoked, or if the revocations can be neither read nor
    /// found in the cache.
    pub async fn admit(&self, claims: &Claims) -> Result<(), Problem> {
        let void = self.revocations(&claims.user).await?;
        if void.voids(&claims.token) { Err(revoked()) } else { Ok(()) }
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
        let held = match self.known.find(user) {
            Some(known) if self.is_alone || known.is_younger_than(FRESH_MS, now) => return Ok(known.void),
            held => held,
        };
        loop {
            let turn = self.known.turn(user);
            match self.store.profile(user).await {
                Ok(profile) => {
                    let known = Known { void: profile.revocations, asked_at: now };
                    // `None` means that a revocation arrived during the read, so the result may be
                    // outdated. Read again.
                    if let Some(known) = self.known.keep(user, known, turn) {
                        return Ok(known.void);
                    }
                }
                Err(error) => match held {
                    Some(known) if known.is_younger_than(STALE_MS, now) => return Ok(known.void),
                    _ => return Err(unknown(error)),
                },
            }
        }
    }
}

fn revoked() -> Problem {
    Problem::new(ErrorCode::TokenRevoked, "the token was revoked; log in again")
}

/// The error for a token whose revocations cannot be read.
fn unknown(error: StoreError) -> Problem {
    if matches!(error, StoreError::Closing) {
        return Problem::draining();
    }
    tracing::warn!(%error, "whether a token was revoked could not be told, so it was refused");
    let retry_after = Some(std::time::Duration::from_secs(1));
    let message = "whether the token was revoked cannot be told now; try again";
    Problem { retry_after, ..Problem::new(ErrorCode::StoreUnavailable, message) }
}

/// A cached entry. `asked_at` is the time before the read.
#[derive(Clone)]
struct Known {
    void: Revocations,
    asked_at: Timestamp,
}

impl Known {
    /// Returns whether the entry is younger than `millis`. An entry from the future counts as old,
    /// because the clock was set back.
    fn is_younger_than(&self, millis: i64, now: Timestamp) -> bool {
        self.asked_at <= now && now < self.asked_at.plus_millis(millis)
    }
}

/// A bounded, sharded cache of revocations per user.
#[derive(Default)]
pub(crate) struct KnownRevocations {
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
}

/// Number of shards. Each has its own lock.
const SHARDS: usize = 16;
/// Maximum number of users in one generation of one shard. With two generations and 16 shards the
/// cache holds 65,536 users.
const USERS: usize = 2_048;

/// One shard of the cache. When the young generation is full, it replaces the old one, which is
/// dropped whole. A hit in the old generation moves the entry to the young one.
#[derive(Default)]
struct Shard {
    young: HashMap<UserId, Known>,
    old: HashMap<UserId, Known>,
    /// Number of revocations received for users of this shard.
    heard: u64,
}

impl KnownRevocations {
    fn shard(&self, user: &UserId) -> MutexGuard<'_, Shard> {
        let hash = self.hasher.hash_one(user);
        let number = usize::try_from(hash % SHARDS as u64).expect("it is below the number of shards");
        // A panic cannot leave the maps inconsistent, so a poisoned lock is usable.
        self.shards[number].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the cached entry of a user, of any age.
    fn find(&self, user: &UserId) -> Option<Known> {
        let mut shard = self.shard(user);
        if let Some(known) = shard.young.get(user) {
            return Some(known.clone());
        }
        let known = shard.old.remove(user)?;
        let forgotten = shard.keep(user, known.clone());
        // Free the dropped generation after releasing the lock.
        drop(shard);
        drop(forgotten);
        Some(known)
    }

    /// Returns the revocation counter of the user's shard. Call it before reading the store, and
    /// pass it to `keep`.
    fn turn(&self, user: &UserId) -> u64 {
        self.shard(user).heard
    }

    /// Caches an entry and returns it. Returns `None` if the shard received a revocation since
    /// `turn`.
    fn keep(&self, user: &UserId, known: Known, turn: u64) -> Option<Known> {
        let mut shard = self.shard(user);
        let forgotten = (shard.heard == turn).then(|| shard.keep(user, known.clone()))?;
        drop(shard);
        drop(forgotten);
        Some(known)
    }

    /// Evicts the entry of a user whose tokens were revoked, and advances the revocation counter.
    pub fn forget(&self, user: &UserId) {
        let mut shard = self.shard(user);
        shard.heard += 1;
        shard.young.remove(user);
        shard.old.remove(user);
    }
}

impl Shard {
    /// Inserts an entry. Returns the dropped generation, so that the caller can free it without the
    /// lock.
    fn keep(&mut self, user: &UserId, known: Known) -> HashMap<UserId, Known> {
        let mut forgotten = HashMap::new();
        if self.young.len() >= USERS {
            forgotten = mem::replace(&mut self.old, mem::take(&mut self.young));
        }
        self.young.insert(user.clone(), known);
        forgotten
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> UserId {
        name.parse().unwrap()
    }

    fn known(through: i64) -> Known {
        let void = Revocations::new(Some(Timestamp::from_millis(through)), Vec::new());
        Known { void, asked_at: Timestamp::from_millis(0) }
    }

    #[test]
    fn what_was_read_before_a_revocation_is_not_kept_after_it() {
        let all = KnownRevocations::default();
        let turn = all.turn(&user("alice"));
        all.forget(&user("alice"));
        assert!(all.keep(&user("alice"), known(1), turn).is_none() && all.find(&user("alice")).is_none());
        assert!(all.keep(&user("alice"), known(2), all.turn(&user("alice"))).is_some());
        assert!(all.find(&user("alice")).is_some());
        all.forget(&user("alice"));
        assert!(all.find(&user("alice")).is_none());
    }

    #[test]
    fn however_many_users_ask_few_are_kept_and_whoever_asks_again_is_among_them() {
        let all = KnownRevocations::default();
        let alice = user("alice");
        all.keep(&alice, known(1), all.turn(&alice));
        for number in 0..200_000 {
            let other = user(&format!("user{number}"));
            all.keep(&other, known(1), all.turn(&other));
            assert!(all.find(&alice).is_some());
        }
        let kept: usize = all
            .shards
            .iter()
            .map(|shard| shard.lock().unwrap())
            .map(|shard| shard.young.len() + shard.old.len())
            .sum();
        assert!((USERS * SHARDS..=2 * USERS * SHARDS).contains(&kept), "{kept}");
    }
}
