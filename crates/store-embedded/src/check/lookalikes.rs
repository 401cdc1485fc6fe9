//! Names that a reader cannot tell apart. They are not damage: the operator's product or an earlier
//! version may have created them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bluetick_core::{Skeleton, UserId};

/// Groups of look-alike user ids.
#[derive(Default)]
pub struct Lookalikes {
    /// The first id with each skeleton.
    first: HashMap<Skeleton, UserId>,
    /// The other ids of each group, by its first id.
    groups: BTreeMap<UserId, BTreeSet<UserId>>,
}

impl Lookalikes {
    /// Maximum number of reported groups. It bounds the report and memory. Further groups are
    /// ignored.
    const MAX_KEPT: usize = 1_000;

    /// Adds the id to the group of the first id that shares a skeleton with it. An id with two
    /// skeletons can be in two groups.
    pub fn add(&mut self, user: &UserId) {
        for skeleton in Skeleton::all(user.as_str()) {
            let first = self.first.entry(skeleton).or_insert_with(|| user.clone());
            if first == user || self.groups.len() == Lookalikes::MAX_KEPT && !self.groups.contains_key(first)
            {
                continue;
            }
            self.groups.entry(first.clone()).or_default().insert(user.clone());
        }
    }

    /// Returns the groups of two or more names, each sorted.
    pub fn into_groups(self) -> Vec<Vec<String>> {
        let whole = |(first, mut others): (UserId, BTreeSet<UserId>)| {
            others.insert(first);
            others.iter().map(UserId::to_string).collect()
        };
        self.groups.into_iter().map(whole).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_hold_ids_that_share_any_skeleton() {
        let mut lookalikes = Lookalikes::default();
        for id in ["alice", "Ida", "bob", "aIice", "lda", "Alice", "bob"] {
            lookalikes.add(&id.parse().unwrap());
        }
        assert_eq!(lookalikes.into_groups(), [vec!["Ida", "lda"], vec!["Alice", "aIice", "alice"]]);
    }
}
