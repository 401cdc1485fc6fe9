//! Finds people: merges the users in memory with those in the tables.

use std::collections::HashSet;

use bluetick_core::{NamePrefix, Person, UserId};

use crate::memory::{MatchingUsers, Users};
use crate::tables::{Engine, TablesError};

pub fn by_id(users: &Users, tables: &Engine, ids: &[UserId]) -> Result<Vec<Person>, TablesError> {
    // Read memory first: a user is in the tables before it is removed from memory.
    let here: Vec<_> = ids.iter().map(|id| users.get(id)).collect();
    let snapshot = tables.snapshot()?;
    let mut found = Vec::with_capacity(ids.len());
    for (id, here) in ids.iter().zip(here) {
        let user = here.map_or_else(|| snapshot.user(id), |user| Ok(Some(user)))?;
        found.extend(user.as_ref().map(Person::from));
    }
    Ok(found)
}

pub fn by_name(
    users: &Users,
    tables: &Engine,
    prefix: &NamePrefix,
    limit: usize,
) -> Result<Vec<Person>, TablesError> {
    let MatchingUsers { mut found, all } = users.matching(prefix);
    let snapshot = tables.snapshot()?;
    let (mut seen, mut stored) = (HashSet::new(), 0);
    snapshot.names(prefix, |term, id| {
        if stored == limit {
            return Ok(false);
        }
        if !all.contains(&id) && seen.insert(id.clone()) {
            // A damaged account is an error: a list without it would be a wrong answer.
            if let Some(user) = snapshot.user(&id)? {
                found.push((term.to_owned(), Person::from(&user)));
                stored += 1;
            }
        }
        Ok(true)
    })?;
    found.sort_by(|(one_term, one), (other_term, other)| (one_term, &one.id).cmp(&(other_term, &other.id)));
    Ok(found.into_iter().take(limit).map(|(_, person)| person).collect())
}
