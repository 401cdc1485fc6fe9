//! Who is there. Never stored with messages, and the first to go when there is too much to do.

use crate::{Revocations, Revoke, Timestamp, UserId};

/// What is kept of a user besides an account, which not every user has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// When the last connection of the user ended.
    pub last_seen_at: Option<Timestamp>,
    /// Nobody is told whether the user is there or when it was.
    pub hides_presence: bool,
    /// Which of the user's tokens are void.
    pub revocations: Revocations,
}

#[derive(Clone, Debug)]
pub struct ProfileUpdate {
    pub user: UserId,
    pub last_seen_at: Option<Timestamp>,
    pub hides_presence: Option<bool>,
    pub revoke: Option<Revoke>,
}

impl ProfileUpdate {
    /// Changes nothing yet.
    pub fn of(user: UserId) -> ProfileUpdate {
        ProfileUpdate { user, last_seen_at: None, hides_presence: None, revoke: None }
    }

    /// A later moment never gives way to an earlier one.
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
