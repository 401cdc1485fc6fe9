//! Names that a reader cannot tell apart. They are not damage: the operator's product or an earlier
//! version may have created them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bluetick_core::{Skeleton, UserId};

#[derive(Default)]
pub struct Lookalikes {
    /// The first id with each skeleton.
    first: HashMap<Skeleton, UserId>,
    groups: BTreeMap<UserId, BTreeSet<UserId>>,
}

impl Lookalikes {
    /// Maximum number of reported groups. Further groups are ignored.
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
