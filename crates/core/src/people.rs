//! Search for users by a prefix of their id or of a word in their display name, ignoring case.

use std::sync::Arc;

use crate::{User, UserId};

/// The public part of a user's account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    pub id: UserId,
    pub display_name: Option<Arc<str>>,
}

impl From<&User> for Person {
    fn from(user: &User) -> Person {
        Person { id: user.id.clone(), display_name: user.display_name.clone() }
    }
}

/// Upper bound on a search term, in bytes. It bounds the keys of the name index. Search compares
/// only this much of a longer name or query.
const TERM_MAX_BYTES: usize = 128;
/// Upper bound on the words of a display name that become search terms. It bounds the index rows
/// per user. Search does not find a name by its later words.
const MAX_WORDS: usize = 8;

/// A normalized, non-empty search prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePrefix(String);

impl NamePrefix {
    /// Normalizes the text. Returns `None` if nothing but whitespace and control characters
    /// remains.
    pub fn new(text: &str) -> Option<NamePrefix> {
        let folded = fold(text);
        (!folded.is_empty()).then_some(NamePrefix(folded))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the first of a user's sorted terms that starts with the prefix. Results are sorted
    /// by this term.
    pub fn match_in<'a>(&self, terms: &'a [String]) -> Option<&'a str> {
        terms.iter().map(String::as_str).find(|term| term.starts_with(&self.0))
    }
}

/// Returns the sorted search terms of a user: the id, and the display name from each of its words
/// on. So both "lidd" and "alice li" find Alice Liddell.
pub fn name_terms(id: &UserId, display_name: Option<&str>) -> Vec<String> {
    let mut terms = vec![fold(id.as_str())];
    let name = fold(display_name.unwrap_or_default());
    let mut rest = name.as_str();
    for _ in 0..MAX_WORDS {
        if rest.is_empty() {
            break;
        }
        terms.push(rest.to_owned());
        rest = rest.split_once(' ').map_or("", |(_, rest)| rest);
    }
    terms.sort_unstable();
    terms.dedup();
    terms
}

/// Converts to lower case, collapses whitespace, drops control characters and cuts to
/// [`TERM_MAX_BYTES`].
fn fold(text: &str) -> String {
    let mut folded = String::new();
    for word in text.split_whitespace() {
        if !folded.is_empty() {
            folded.push(' ');
        }
        folded.extend(word.chars().filter(|letter| !letter.is_control()).flat_map(char::to_lowercase));
    }
    folded.truncate(folded.floor_char_boundary(TERM_MAX_BYTES));
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(id: &str, name: &str) -> Vec<String> {
        name_terms(&id.parse().expect("a user id"), Some(name))
    }

    fn finds(text: &str, id: &str, name: &str) -> bool {
        NamePrefix::new(text).expect("not blank").match_in(&terms(id, name)).is_some()
    }

    #[test]
    fn search_finds_users_by_id_and_by_each_word_of_the_display_name() {
        for text in ["u-47", "U-4711", "ali", "LIDD", "alice lid", "  Alice   L"] {
            assert!(finds(text, "u-4711", "Alice Liddell"), "{text}");
        }
        for text in ["4711", "lice", "ddell", "alice p"] {
            assert!(!finds(text, "u-4711", "Alice Liddell"), "{text}");
        }
    }

    #[test]
    fn long_search_term_is_cut_at_a_character_boundary() {
        let name = "ä".repeat(1_000);
        assert!(terms("u", &name).iter().all(|term| term.len() <= TERM_MAX_BYTES));
        assert!(finds(&name, "u", &name));
    }

    #[test]
    fn blank_search_text_gives_no_prefix() {
        assert_eq!(NamePrefix::new(" \t\n"), None);
    }
}
