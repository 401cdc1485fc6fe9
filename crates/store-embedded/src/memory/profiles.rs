//! Profiles that the tables do not contain yet.

use std::collections::HashMap;

use bluetick_core::{Profile, UserId};

use crate::sync::{PanicMutex, PanicMutexGuard};

#[derive(Default)]
pub struct Profiles(PanicMutex<HashMap<UserId, Profile>>);

impl Profiles {
    fn map(&self) -> PanicMutexGuard<'_, HashMap<UserId, Profile>> {
        self.0.lock()
    }

    pub fn get(&self, user: &UserId) -> Option<Profile> {
        self.map().get(user).cloned()
    }

    pub fn put(&self, user: UserId, profile: Profile) {
        self.map().insert(user, profile);
    }

    /// Removes a profile that the tables now contain, unless it changed since `written` was read.
    pub fn forget(&self, user: &UserId, written: &Profile) {
        let mut map = self.map();
        if map.get(user) == Some(written) {
            map.remove(user);
        }
    }
}
