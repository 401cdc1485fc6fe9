//! Who is there. Never stored with messages, and the first to go when there is too much to do.

use crate::{Timestamp, UserId};

/// What is kept of a user besides an account, which not every user has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// When the last connection of the user ended.
    pub last_seen_at: Option<Timestamp>,
    /// Nobody is told whether the user is there or when it was.
    pub hides_presence: bool,
}

#[derive(Clone, Debug)]
pub struct ProfileUpdate {
    pub user: UserId,
    pub last_seen_at: Option<Timestamp>,
    pub hides_presence: Option<bool>,
}

impl ProfileUpdate {
    /// A later moment never gives way to an earlier one.
    pub fn applied_to(&self, before: Profile) -> Profile {
        Profile {
            last_seen_at: before.last_seen_at.max(self.last_seen_at),
            hides_presence: self.hides_presence.unwrap_or(before.hides_presence),
        }
    }
}
