//! Users the tables do not have yet.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use bluetick_core::{User, UserId};

#[derive(Default)]
pub struct Users(Mutex<HashMap<UserId, User>>);

impl Users {
    fn map(&self) -> MutexGuard<'_, HashMap<UserId, User>> {
        self.0.lock().expect("nobody panics while holding the users")
    }

    pub fn get(&self, id: &UserId) -> Option<User> {
        self.map().get(id).cloned()
    }

    pub fn put(&self, user: User) {
        self.map().insert(user.id.clone(), user);
    }

    /// Forgets a user that is in the tables now, unless it changed since.
    pub fn forget(&self, written: &User) {
        let mut map = self.map();
        if map.get(&written.id) == Some(written) {
            map.remove(&written.id);
        }
    }
}
