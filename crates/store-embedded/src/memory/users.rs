//! Users that the tables do not contain yet.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use bluetick_core::people::name_terms;
use bluetick_core::{NamePrefix, Person, Skeleton, User, UserId};

use crate::sync::{PanicMutex, PanicMutexGuard};

/// The result of a name search among the users in memory.
pub struct MatchingUsers {
    /// The matches, each with the first term that matched.
    pub found: Vec<(String, Person)>,
    /// All users in memory: their rows in the tables are out of date.
    pub all: HashSet<UserId>,
}

#[derive(Default)]
pub struct Users(PanicMutex<UnwrittenUsers>);

#[derive(Default)]
struct UnwrittenUsers {
    map: HashMap<UserId, User>,
    /// The number of users with each skeleton.
    names: HashMap<Skeleton, usize>,
}

impl Users {
    fn inner(&self) -> PanicMutexGuard<'_, UnwrittenUsers> {
        self.0.lock()
    }

    pub fn get(&self, id: &UserId) -> Option<User> {
        self.inner().map.get(id).cloned()
    }

    pub fn put(&self, user: User) {
        let mut inner = self.inner();
        let names = Skeleton::all(user.id.as_str());
        if inner.map.insert(user.id.clone(), user).is_none() {
            names.into_iter().for_each(|name| *inner.names.entry(name).or_default() += 1);
        }
    }

    /// Returns whether any user in memory has this skeleton.
    pub fn holds(&self, name: &Skeleton) -> bool {
        self.inner().names.contains_key(name)
    }

    pub fn matching(&self, prefix: &NamePrefix) -> MatchingUsers {
        let map = &self.inner().map;
        let mut found = Vec::new();
        for user in map.values() {
            let terms = name_terms(&user.id, user.display_name.as_deref());
            found.extend(prefix.match_in(&terms).map(|term| (term.to_owned(), Person::from(user))));
        }
        MatchingUsers { found, all: map.keys().cloned().collect() }
    }

    /// Removes a user that the tables now contain, unless it changed since `written` was read.
    pub fn forget(&self, written: &User) {
        let mut inner = self.inner();
        if inner.map.get(&written.id) != Some(written) {
            return;
        }
        inner.map.remove(&written.id);
        for name in Skeleton::all(written.id.as_str()) {
            if let Entry::Occupied(mut count) = inner.names.entry(name) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
    }
}
