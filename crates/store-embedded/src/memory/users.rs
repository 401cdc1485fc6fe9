//! Users the tables do not have yet.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard};

use bluetick_core::people::name_terms;
use bluetick_core::{NamePrefix, Person, User, UserId};

/// Whom a search finds among the users of this room.
pub struct Matching {
    /// Each with the first term it is found by.
    pub found: Vec<(String, Person)>,
    /// Everybody here: what the tables say of them is out of date.
    pub all: HashSet<UserId>,
}

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

    pub fn matching(&self, prefix: &NamePrefix) -> Matching {
        let map = self.map();
        let mut found = Vec::new();
        for user in map.values() {
            let terms = name_terms(&user.id, user.display_name.as_deref());
            found.extend(prefix.match_in(&terms).map(|term| (term.to_owned(), Person::from(user))));
        }
        Matching { found, all: map.keys().cloned().collect() }
    }

    /// Forgets a user that is in the tables now, unless it changed since.
    pub fn forget(&self, written: &User) {
        let mut map = self.map();
        if map.get(&written.id) == Some(written) {
            map.remove(&written.id);
        }
    }
}
