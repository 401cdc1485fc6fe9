//! Names that a reader cannot tell apart. No damage: the operator's product may have made them, or a
//! version that did not compare names.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bluetick_core::{Skeleton, UserId};

#[derive(Default)]
pub struct Lookalikes {
    /// The first that looks so.
    first: HashMap<Skeleton, UserId>,
    groups: BTreeMap<UserId, BTreeSet<UserId>>,
}

impl Lookalikes {
    /// More are passed over.
    const KEPT: usize = 1_000;

    pub fn add(&mut self, user: &UserId) {
        let first = self.first.entry(Skeleton::from(user)).or_insert_with(|| user.clone());
        if first == user || self.groups.len() == Lookalikes::KEPT && !self.groups.contains_key(first) {
            return;
        }
        self.groups.entry(first.clone()).or_default().insert(user.clone());
    }

    /// Groups of two names or more, each sorted.
    pub fn into_groups(self) -> Vec<Vec<String>> {
        let whole = |(first, mut others): (UserId, BTreeSet<UserId>)| {
            others.insert(first);
            others.iter().map(UserId::to_string).collect()
        };
        self.groups.into_iter().map(whole).collect()
    }
}
