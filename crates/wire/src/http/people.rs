//! User search and display names.

use std::borrow::Cow;

use bluetick_core::names::without_bidi_controls;
use bluetick_core::{NamePrefix, Person, UserId};
use serde::Serialize;
use utoipa::ToSchema;

use super::account::parse_user;
use super::query;
use crate::BadInput;

/// A user, as all other users see it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"user_id": "alice", "display_name": "Alice Liddell"}))]
pub struct PersonBody<'a> {
    /// The id of the user.
    pub user_id: &'a str,
    /// The name that other users see; null if none is set.
    #[schema(required)]
    pub display_name: Option<Cow<'a, str>>,
}

/// The users that were found.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"people": [{"user_id": "alice", "display_name": "Alice Liddell"}]}))]
pub struct PeopleBody<'a> {
    /// With `user_id`: the users in the order of the request, without unknown ids. With `search`:
    /// sorted by the matching name.
    pub people: Vec<PersonBody<'a>>,
}

impl<'a> PeopleBody<'a> {
    pub fn new(people: &'a [Person]) -> PeopleBody<'a> {
        let body = |person: &'a Person| PersonBody {
            user_id: person.id.as_str(),
            display_name: person.display_name.as_deref().map(without_bidi_controls),
        };
        PeopleBody { people: people.iter().map(body).collect() }
    }
}

/// The query parameters of `GET /v1/people`: user ids, or a search.
#[derive(Debug, PartialEq, Eq)]
pub enum PeopleParameters {
    Ids(Vec<UserId>),
    Search {
        prefix: NamePrefix,
        /// The search text as a user id, if it is a valid one.
        id: Option<UserId>,
        limit: usize,
    },
}

impl PeopleParameters {
    /// Upper bound on the user ids of one lookup. It bounds the work of a request.
    pub const MAX_IDS: usize = 100;
    /// Upper bound on the results of one search. It bounds the work of a request.
    pub const MAX_LIMIT: usize = 50;
    /// Number of results of a search without a limit. The API documents it.
    pub const DEFAULT_LIMIT: usize = 10;

    pub fn parse(query: &str) -> Result<PeopleParameters, BadInput> {
        let (mut ids, mut search, mut limit) = (Vec::new(), None, None);
        for (name, value) in query::pairs(query) {
            match &*name {
                "user_id" if ids.len() == Self::MAX_IDS => {
                    return Err(BadInput::field("user_id", "may be given at most 100 times"));
                }
                "user_id" => ids.push(parse_user("user_id", &query::decoded("user_id", value)?)?),
                "search" if search.is_none() => search = Some(query::decoded("search", value)?),
                "limit" if limit.is_none() => limit = Some(parse_limit(&query::decoded("limit", value)?)?),
                "search" | "limit" => return Err(BadInput::field(&name, "given more than once")),
                _ => {}
            }
        }
        match search {
            Some(_) if !ids.is_empty() => Err(BadInput::new("give either search or user_id, not both")),
            Some(text) => Ok(PeopleParameters::Search {
                prefix: NamePrefix::new(&text)
                    .ok_or_else(|| BadInput::field("search", "must not be blank"))?,
                id: text.trim().parse().ok(),
                limit: limit.unwrap_or(Self::DEFAULT_LIMIT),
            }),
            None if ids.is_empty() => {
                Err(BadInput::new("say whom: search, the beginning of a name, or user_id"))
            }
            None => Ok(PeopleParameters::Ids(ids)),
        }
    }
}

fn parse_limit(value: &str) -> Result<usize, BadInput> {
    let limit = value.parse().ok().filter(|limit| (1..=PeopleParameters::MAX_LIMIT).contains(limit));
    limit.ok_or_else(|| BadInput::field("limit", "must be a number from 1 to 50"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_query_decodes_names_and_accepts_many_ids() {
        let ids = PeopleParameters::parse("user_id=a%2Cb&user_id=%C3%A4&unknown=1").unwrap();
        let expected = ["a,b", "ä"].map(|id| id.parse().unwrap()).to_vec();
        assert_eq!(ids, PeopleParameters::Ids(expected));
        let search = PeopleParameters::parse("search=Alice+Li%20&limit=5").unwrap();
        let prefix = NamePrefix::new("alice li").unwrap();
        assert_eq!(search, PeopleParameters::Search { prefix, id: None, limit: 5 });
    }

    #[test]
    fn people_query_without_ids_or_with_too_many_is_refused() {
        let many = "user_id=a&".repeat(101);
        for query in [
            "",
            "limit=5",
            "search=",
            "search=%20",
            "search=a&search=b",
            "search=a&user_id=b",
            "search=%FF",
            "search=a&limit=0",
            "search=a&limit=51",
            "search=a&limit=x",
            "user_id=",
            "user_id=a%20b",
            many.as_str(),
        ] {
            assert!(PeopleParameters::parse(query).is_err(), "{query}");
        }
    }
}
