//! The stored profile of a user: last seen time, presence privacy and revoked tokens.

use crate::{Revocations, Revoke, Timestamp, UserId};

/// Data kept for every user, with or without an account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// When the last connection of the user ended.
    pub last_seen_at: Option<Timestamp>,
    /// Other users see neither whether the user is online nor when it was last online.
    pub hides_presence: bool,
    /// The revoked tokens of the user.
    pub revocations: Revocations,
}

/// A partial update of a [`Profile`]. `None` keeps the current value.
#[derive(Clone, Debug)]
pub struct ProfileUpdate {
    pub user: UserId,
    pub last_seen_at: Option<Timestamp>,
    pub hides_presence: Option<bool>,
    pub revoke: Option<Revoke>,
}

impl ProfileUpdate {
    /// Creates an update that changes nothing.
    pub fn of(user: UserId) -> ProfileUpdate {
        ProfileUpdate { user, last_seen_at: None, hides_presence: None, revoke: None }
    }

    /// Returns the updated profile. `last_seen_at` only increases, and revocations only accumulate.
    pub fn applied_to(&self, before: Profile) -> Profile {
        Profile {
            last_seen_at: before.last_seen_at.max(self.last_seen_at),
            hides_presence: self.hides_presence.unwrap_or(before.hides_presence),
            revocations: match &self.revoke {
                Some(revoke) => before.revocations.with(revoke),
                None => before.revocations,
            },
        }
    }
}
