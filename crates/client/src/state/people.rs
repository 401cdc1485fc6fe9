//! Display names: the known ones, and the ones to fetch.

use std::collections::{BTreeSet, HashMap};

use bluetick_types::UserId;

use crate::api::PAGE_LIMIT;
use crate::wire::bodies::Person;

/// Maximum number of names held. Bounds memory; further users are shown by user id.
const MOST_NAMES: usize = 5_000;

/// The known display names and the pending requests for them.
#[derive(Default)]
pub struct People {
    /// `None` if the user has no display name.
    names: HashMap<UserId, Option<String>>,
    wanted: BTreeSet<UserId>,
    /// Users whose name was fetched since the start. A stored name is fetched again once.
    fresh: BTreeSet<UserId>,
    /// Whether a request is running.
    asking: bool,
    /// The server does not support the request. Do not ask again.
    refused: bool,
}

impl People {
    pub fn restored(names: Vec<(UserId, Option<String>)>) -> People {
        People { names: names.into_iter().take(MOST_NAMES).collect(), ..People::default() }
    }

    /// The display name if known, else the user id.
    pub fn name<'a>(&'a self, user: &'a UserId) -> &'a str {
        self.names.get(user).and_then(Option::as_deref).unwrap_or(user.as_str())
    }

    /// Requests the name of a user, unless it was fetched since the start.
    pub fn want(&mut self, user: &UserId) {
        if !self.refused && self.fresh.len() < MOST_NAMES && !self.fresh.contains(user) {
            self.wanted.insert(user.clone());
        }
    }

    pub fn is_wanting(&self) -> bool {
        !self.asking && !self.wanted.is_empty()
    }

    /// Takes up to `PAGE_LIMIT` users to ask the server about. Returns `None` if a request is
    /// running or there is nothing to ask.
    pub fn next_question(&mut self) -> Option<Vec<UserId>> {
        if self.asking || self.wanted.is_empty() {
            return None;
        }
        self.asking = true;
        let mut asked = Vec::new();
        while asked.len() < PAGE_LIMIT
            && let Some(user) = self.wanted.pop_first()
        {
            asked.push(user);
        }
        Some(asked)
    }

    /// Handles the answer to a request. Returns the names that changed, to be stored.
    pub fn answered(&mut self, asked: Vec<UserId>, people: Vec<Person>) -> Vec<Person> {
        self.asking = false;
        self.fresh.extend(asked);
        people.into_iter().filter(|person| self.learn(person)).collect()
    }

    /// Records a name. Returns whether it changed and there was room for it.
    pub fn learn(&mut self, person: &Person) -> bool {
        let is_room = self.names.len() < MOST_NAMES || self.names.contains_key(&person.user_id);
        if !is_room || self.names.get(&person.user_id) == Some(&person.display_name) {
            return false;
        }
        self.names.insert(person.user_id.clone(), person.display_name.clone());
        true
    }

    /// Handles a failed request. Queues the users again, unless `for_good` says that the server
    /// does not support the request.
    pub fn not_answered(&mut self, asked: Vec<UserId>, for_good: bool) {
        self.asking = false;
        self.refused |= for_good;
        if !for_good {
            self.wanted.extend(asked);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::user;
    use super::*;

    fn person(id: &str, name: &str) -> Person {
        Person { user_id: user(id), display_name: Some(name.into()) }
    }

    #[test]
    fn names_are_requested_once_in_one_batch() {
        let mut people = People::default();
        people.want(&user("bob"));
        people.want(&user("carol"));
        assert_eq!(people.name(&user("bob")), "bob");
        let asked = people.next_question().unwrap();
        assert_eq!((asked.len(), people.next_question()), (2, None));
        assert_eq!(people.answered(asked, vec![person("bob", "Bob B.")]).len(), 1);
        people.want(&user("bob"));
        people.want(&user("carol"));
        assert_eq!(people.next_question(), None);
        assert_eq!(people.name(&user("bob")), "Bob B.");
    }

    #[test]
    fn stored_name_is_shown_at_once_and_refreshed() {
        let mut people = People::restored(vec![(user("bob"), Some("Bob".into()))]);
        people.want(&user("bob"));
        assert_eq!(people.name(&user("bob")), "Bob");
        let asked = people.next_question().unwrap();
        assert_eq!(
            people.answered(asked, vec![person("bob", "Bob")]),
            [],
            "an unchanged name is not stored again"
        );
    }

    #[test]
    fn server_without_names_is_not_asked_again() {
        let mut people = People::default();
        people.want(&user("bob"));
        let asked = people.next_question().unwrap();
        people.not_answered(asked, true);
        people.want(&user("carol"));
        assert_eq!(people.next_question(), None);
    }
}
