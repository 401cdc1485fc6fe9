//! Whether a token that was signed for somebody is still good: it may have been revoked.
//!
//! What is void is asked of the store once and then held. Where this node is the only one, what it holds stays true until
//! it hears of a revocation, since all of them pass through it. In a fleet it holds for [`FRESH_MS`], and while the store does
//! not answer, for [`STALE_MS`]; then nobody is let in on it. Open connections are not asked about again: they are closed when
//! the revocation is heard of.

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

/// In a fleet: how long what was read counts without asking again.
const FRESH_MS: i64 = 10_000;
/// In a fleet: how long it counts where the store does not answer.
const STALE_MS: i64 = 60_000;

pub(crate) struct Gate {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    known: Arc<KnownRevocations>,
    /// Nobody else writes to the store.
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

    /// Lets the holder of a good token in, unless it was revoked. Where that cannot be told, nobody is let in.
    pub async fn admit(&self, claims: &Claims) -> Result<(), Problem> {
        let void = self.revocations(&claims.user).await?;
        if void.voids(&claims.token) { Err(revoked()) } else { Ok(()) }
    }

    /// When a token for this user that is made now is to say that it was issued.
    pub async fn issue_at(&self, user: &UserId) -> Result<Timestamp, Problem> {
        Ok(self.revocations(user).await?.issue_at(self.clock.now()))
    }

    /// Makes tokens of the user void. When this returns, nobody comes in with them at this node, and connections that did
    /// are being closed; other nodes hear of it.
    pub async fn revoke(&self, user: &UserId, what: Revoked) -> Result<(), StoreError> {
        let revoke = Some(Revoke { what, at: self.clock.now() });
        self.store.update_profile(ProfileUpdate { revoke, ..ProfileUpdate::of(user.clone()) }).await?;
        Ok(())
    }

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
                    // Otherwise something was revoked while it was read, and what was read may be from before.
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

fn unknown(error: StoreError) -> Problem {
    if matches!(error, StoreError::Closing) {
        return Problem::draining();
    }
    tracing::warn!(%error, "whether a token was revoked could not be told, so it was refused");
    let retry_after = Some(std::time::Duration::from_secs(1));
    let message = "whether the token was revoked cannot be told now; try again";
    Problem { retry_after, ..Problem::new(ErrorCode::StoreUnavailable, message) }
}

#[derive(Clone)]
struct Known {
    void: Revocations,
    asked_at: Timestamp,
}

impl Known {
    /// A clock that was set back makes nothing young.
    fn is_younger_than(&self, millis: i64, now: Timestamp) -> bool {
        self.asked_at <= now && now < self.asked_at.plus_millis(millis)
    }
}

/// What was read of users' revocations.
#[derive(Default)]
pub(crate) struct KnownRevocations {
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
}

const SHARDS: usize = 16;
/// In each generation of a shard: 65,536 users altogether.
const USERS: usize = 2_048;

/// Two generations, so that a full one is forgotten whole; whoever is asked for meanwhile comes over.
#[derive(Default)]
struct Shard {
    young: HashMap<UserId, Known>,
    old: HashMap<UserId, Known>,
    /// Counts the revocations that were heard of.
    heard: u64,
}

impl KnownRevocations {
    fn shard(&self, user: &UserId) -> MutexGuard<'_, Shard> {
        let hash = self.hasher.hash_one(user);
        let number = usize::try_from(hash % SHARDS as u64).expect("it is below the number of shards");
        // Whoever panicked left maps that are whole.
        self.shards[number].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, user: &UserId) -> Option<Known> {
        let mut shard = self.shard(user);
        if let Some(known) = shard.young.get(user) {
            return Some(known.clone());
        }
        let known = shard.old.remove(user)?;
        let forgotten = shard.keep(user, known.clone());
        // Thousands of users are freed after the lock, not under it.
        drop(shard);
        drop(forgotten);
        Some(known)
    }

    /// To be taken before the store is asked.
    fn turn(&self, user: &UserId) -> u64 {
        self.shard(user).heard
    }

    /// `None` where a revocation was heard of since that turn.
    fn keep(&self, user: &UserId, known: Known, turn: u64) -> Option<Known> {
        let mut shard = self.shard(user);
        let forgotten = (shard.heard == turn).then(|| shard.keep(user, known.clone()))?;
        drop(shard);
        drop(forgotten);
        Some(known)
    }

    /// Tokens of the user were revoked: the store knows which.
    pub fn forget(&self, user: &UserId) {
        let mut shard = self.shard(user);
        shard.heard += 1;
        shard.young.remove(user);
        shard.old.remove(user);
    }
}

impl Shard {
    /// Returns what is forgotten for it.
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
