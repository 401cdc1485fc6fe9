//! What a device has, and what it shows to whoever closes the books.

use std::collections::{BTreeMap, BTreeSet};

use bluetick_core::{ConversationId, UserId};

use crate::audit::Boundaries;

/// What a device has of a conversation: from the first place on all of it up to the last, and some above.
#[derive(Clone, Debug, Default)]
pub struct View {
    pub first: u64,
    pub last: u64,
    above: BTreeSet<u64>,
    /// On the connection there is.
    pub said: Boundaries,
}

impl View {
    /// Of whoever is in the conversation from its beginning on.
    pub fn from_the_beginning() -> View {
        View { first: 1, ..View::default() }
    }

    /// Of whoever came at this place, or does not know when its user came.
    pub fn from(first: u64) -> View {
        View { first, last: first, ..View::default() }
    }

    pub fn add(&mut self, seq: u64) {
        self.above.insert(seq);
        while self.above.first().is_some_and(|first| *first <= self.last + 1) {
            self.last = self.last.max(self.above.pop_first().unwrap_or(0));
        }
    }
}

/// What a device has that is connected, caught up and has nothing left to say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub views: BTreeMap<ConversationId, Has>,
    /// How far everybody is, as far as it knows.
    pub ticks: BTreeMap<(ConversationId, UserId), Boundaries>,
    /// All that it said on this connection was taken, as far as it knows.
    pub was_heard: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Has {
    pub first: u64,
    pub last: u64,
    /// What it said itself, on a connection that is still there.
    pub said: Boundaries,
}

impl From<&View> for Has {
    fn from(view: &View) -> Has {
        Has { first: view.first, last: view.last, said: view.said }
    }
}

impl Has {
    /// Of a device that does not say where it stands. What it misses between two places that it knows, it reads in the history,
    /// as clients do; the server cannot know of it.
    pub fn after_reading_on(view: &View) -> Has {
        let has_beginning = view.last >= view.first;
        let last = view.above.last().filter(|_| has_beginning).map_or(view.last, |last| view.last.max(*last));
        Has { last, ..Has::from(view) }
    }
}
