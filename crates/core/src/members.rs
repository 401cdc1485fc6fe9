//! The members of a conversation, and the rules for membership changes.

use std::sync::Arc;

use crate::error::Refusal;
use crate::{ConversationKind, Seq, UserId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// May remove other members. The creator of a group starts as its admin. When the last admin
    /// leaves, the member with the lowest `joined_seq` becomes admin.
    Admin,
    Member,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub user: UserId,
    pub role: Role,
    /// The first seq that the member can see: the notice that announces the member, or 1 for
    /// founders and in direct conversations.
    pub joined_seq: Seq,
}

/// The members of one conversation, sorted by user id, without duplicates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members(Vec<Member>);

impl Members {
    /// Creates the members of a direct conversation. Both see all messages.
    pub fn direct(one: UserId, other: UserId) -> Members {
        let both = [one, other].map(|user| Member { user, role: Role::Member, joined_seq: Seq::FIRST });
        Members::from_unsorted(both.into())
    }

    /// Creates the members of a new group: the creator as admin, everyone else as member. All see
    /// messages from seq 1 on.
    pub fn founding(creator: &UserId, others: &[UserId]) -> Members {
        let mut all = vec![Member { user: creator.clone(), role: Role::Admin, joined_seq: Seq::FIRST }];
        all.extend(others.iter().filter(|user| *user != creator).map(|user| Member {
            user: user.clone(),
            role: Role::Member,
            joined_seq: Seq::FIRST,
        }));
        Members::from_unsorted(all)
    }

    /// Sorts the members by user id and removes duplicates. It keeps the first entry of each user.
    pub fn from_unsorted(mut members: Vec<Member>) -> Members {
        members.sort_by(|a, b| a.user.cmp(&b.user));
        members.dedup_by(|a, b| a.user == b.user);
        Members(members)
    }

    pub fn get(&self, user: &UserId) -> Option<&Member> {
        self.find(user).ok().map(|at| &self.0[at])
    }

    pub fn contains(&self, user: &UserId) -> bool {
        self.find(user).is_ok()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Member> {
        self.0.iter()
    }

    /// Returns the first member other than `user`: the peer, in a direct conversation.
    pub fn peer_of(&self, user: &UserId) -> Option<&UserId> {
        self.0.iter().map(|member| &member.user).find(|other| *other != user)
    }

    /// Adds the member, or replaces the entry of the same user.
    pub fn insert(&mut self, member: Member) {
        match self.find(&member.user) {
            Ok(at) => self.0[at] = member,
            Err(at) => self.0.insert(at, member),
        }
    }

    pub fn remove(&mut self, user: &UserId) {
        if let Ok(at) = self.find(user) {
            self.0.remove(at);
        }
    }

    /// Returns the member's index, for data that callers keep in the same order.
    pub fn position(&self, user: &str) -> Option<usize> {
        self.0.binary_search_by(|member| member.user.as_str().cmp(user)).ok()
    }

    /// Returns the member at an index of [`Members::position`]. Panics if the index is out of
    /// range.
    pub fn at(&self, position: usize) -> &Member {
        &self.0[position]
    }

    fn find(&self, user: &UserId) -> Result<usize, usize> {
        self.0.binary_search_by(|member| member.user.cmp(user))
    }

    /// Returns the users in `wanted` that are not members yet, in the given order, without
    /// duplicates.
    ///
    /// Errors, in this order: [`Refusal::NotAMember`] for the actor, [`Refusal::DirectIsFixed`],
    /// and [`Refusal::GroupFull`] when the group would exceed `limit` members.
    pub fn plan_addition(
        &self,
        kind: ConversationKind,
        actor: &UserId,
        wanted: &[UserId],
        limit: usize,
    ) -> Result<Vec<UserId>, Refusal> {
        if !self.contains(actor) {
            return Err(Refusal::NotAMember);
        }
        if kind == ConversationKind::Direct {
            return Err(Refusal::DirectIsFixed);
        }
        let mut joining: Vec<UserId> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for user in wanted {
            if !self.contains(user) && seen.insert(user) {
                joining.push(user.clone());
            }
        }
        if self.len() + joining.len() > limit {
            return Err(Refusal::GroupFull { limit });
        }
        Ok(joining)
    }

    /// Checks whether `actor` may remove `leaving`. Returns the new admin if no admin remains: the
    /// member with the lowest `joined_seq`, then the lowest user id.
    ///
    /// Errors, in this order: [`Refusal::NotAMember`] for the actor, [`Refusal::DirectIsFixed`],
    /// [`Refusal::NotAnAdmin`] and [`Refusal::NoSuchMember`].
    pub fn plan_removal(
        &self,
        kind: ConversationKind,
        actor: &UserId,
        leaving: &UserId,
    ) -> Result<Option<UserId>, Refusal> {
        let actor = self.get(actor).ok_or(Refusal::NotAMember)?;
        if kind == ConversationKind::Direct {
            return Err(Refusal::DirectIsFixed);
        }
        if actor.user != *leaving && actor.role != Role::Admin {
            return Err(Refusal::NotAnAdmin);
        }
        if !self.contains(leaving) {
            return Err(Refusal::NoSuchMember);
        }
        let mut staying = self.0.iter().filter(|member| member.user != *leaving);
        if staying.clone().any(|member| member.role == Role::Admin) {
            return Ok(None);
        }
        let heir = staying.clone().map(|member| member.joined_seq).min();
        Ok(staying.find(|member| Some(member.joined_seq) == heir).map(|member| member.user.clone()))
    }
}

impl<'a> IntoIterator for &'a Members {
    type Item = &'a Member;
    type IntoIter = std::slice::Iter<'a, Member>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// A decided membership change. Stores persist and replay it, and the server pushes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MembershipChange {
    Joined(Member),
    Left { user: UserId, new_admin: Option<UserId> },
}

impl MembershipChange {
    pub fn apply(&self, members: &mut Arc<Members>) {
        let members = Arc::make_mut(members);
        match self {
            MembershipChange::Joined(member) => members.insert(member.clone()),
            MembershipChange::Left { user, new_admin } => {
                members.remove(user);
                if let Some(heir) = new_admin.as_ref().and_then(|heir| members.find(heir).ok()) {
                    members.0[heir].role = Role::Admin;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> UserId {
        name.parse().unwrap()
    }

    fn group() -> Members {
        Members::founding(&user("alice"), &[user("bob"), user("carol"), user("bob"), user("alice")])
    }

    #[test]
    fn new_group_has_each_member_once_and_its_creator_as_admin() {
        let group = group();
        assert_eq!(group.len(), 3);
        assert_eq!(group.get(&user("alice")).unwrap().role, Role::Admin);
        assert_eq!(group.get(&user("bob")).unwrap().role, Role::Member);
    }

    #[test]
    fn any_member_can_add_users_and_existing_members_are_skipped() {
        let wanted = [user("dave"), user("bob"), user("dave"), user("erin")];
        let joining = group().plan_addition(ConversationKind::Group, &user("bob"), &wanted, 5);
        assert_eq!(joining, Ok(vec![user("dave"), user("erin")]));
    }

    #[test]
    fn full_group_rejects_new_members() {
        let refused = group().plan_addition(ConversationKind::Group, &user("bob"), &[user("dave")], 3);
        assert_eq!(refused, Err(Refusal::GroupFull { limit: 3 }));
    }

    #[test]
    fn only_admins_remove_others_and_every_member_can_leave() {
        let group = group();
        let plan = |actor: &str, leaving: &str| {
            group.plan_removal(ConversationKind::Group, &user(actor), &user(leaving))
        };
        assert_eq!(plan("bob", "carol"), Err(Refusal::NotAnAdmin));
        assert_eq!(plan("bob", "bob"), Ok(None));
        assert_eq!(plan("alice", "carol"), Ok(None));
        assert_eq!(plan("alice", "zoe"), Err(Refusal::NoSuchMember));
        assert_eq!(plan("zoe", "alice"), Err(Refusal::NotAMember));
    }

    #[test]
    fn non_member_gets_the_same_refusal_for_direct_and_group_conversations() {
        let direct = Members::direct(user("alice"), user("bob"));
        let add = direct.plan_addition(ConversationKind::Direct, &user("zoe"), &[user("zoe")], 9);
        assert_eq!(add, Err(Refusal::NotAMember));
        let add = direct.plan_addition(ConversationKind::Direct, &user("bob"), &[user("zoe")], 9);
        assert_eq!(add, Err(Refusal::DirectIsFixed));
    }

    #[test]
    fn when_the_last_admin_leaves_the_earliest_member_becomes_admin() {
        let mut members = Arc::new(group());
        let late = Member { user: user("aaron"), role: Role::Member, joined_seq: Seq::new(7) };
        MembershipChange::Joined(late).apply(&mut members);
        let heir = members.plan_removal(ConversationKind::Group, &user("alice"), &user("alice")).unwrap();
        assert_eq!(heir, Some(user("bob")));
        MembershipChange::Left { user: user("alice"), new_admin: heir }.apply(&mut members);
        assert_eq!(members.get(&user("bob")).unwrap().role, Role::Admin);
        assert!(!members.contains(&user("alice")));
    }
}
