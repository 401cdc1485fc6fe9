//! Tracks which users' inbox caches ([`Recent`]) already list a changed conversation.

use std::sync::Arc;

use bluetick_core::UserId;

use super::{Recent, ResidentConversation};

/// Upper bound on the members that are noted one by one. Every inbox read examines all changed
/// conversations with more members, so a lower value makes inbox reads slower. Must not exceed 64,
/// the number of bits in `RecentListing::fresh`.
pub const MAX_LISTED_MEMBERS: usize = 64;

/// The users for whom [`Recent`] lists one conversation as changed.
///
/// Invariant: [`Recent`] lists the conversation for all of `users`. A bit in `fresh` says that the
/// user has not read its inbox since the last change.
#[derive(Debug, Default)]
pub struct RecentListing {
    users: Vec<UserId>,
    fresh: u64,
    /// All members are in `users` and all of them are fresh, so another message needs no new entry.
    everybody: bool,
    large: bool,
}

impl RecentListing {
    pub fn contains(&self, user: &UserId) -> bool {
        self.users.contains(user)
    }

    /// Records that the user has read its inbox. The next change is noted again.
    pub fn mark_sorted(&mut self, user: &UserId) {
        if let Some(at) = self.users.iter().position(|known| known == user) {
            self.fresh &= !(1 << at);
            self.everybody = false;
        }
    }

    /// Records that a member joined or left.
    pub fn members_changed(&mut self) {
        self.everybody = false;
    }

    /// Notes a change that all members see.
    pub fn add_all<'a>(
        &mut self,
        recent: &Recent,
        resident: &Arc<ResidentConversation>,
        members: impl ExactSizeIterator<Item = &'a UserId>,
    ) {
        if self.everybody || self.large {
            return;
        }
        if members.len() > MAX_LISTED_MEMBERS {
            return self.add_large(recent, resident);
        }
        for user in members {
            self.add_one(recent, resident, user);
        }
        self.everybody = !self.large;
    }

    /// Notes a change for one user. The user may have left: the tables still list the conversation
    /// for it.
    pub fn add_one(&mut self, recent: &Recent, resident: &Arc<ResidentConversation>, user: &UserId) {
        if self.large {
            return;
        }
        let at = match self.users.iter().position(|known| known == user) {
            Some(at) => at,
            None if self.users.len() < MAX_LISTED_MEMBERS => {
                self.users.push(user.clone());
                self.users.len() - 1
            }
            None => return self.add_large(recent, resident),
        };
        if self.fresh & (1 << at) == 0 {
            self.fresh |= 1 << at;
            recent.note(user, resident);
        }
    }

    pub fn add_large(&mut self, recent: &Recent, resident: &Arc<ResidentConversation>) {
        self.large = true;
        recent.note_large(resident);
    }

    /// Removes all entries, once the tables contain the changes.
    pub fn settle(&mut self, recent: &Recent, resident: &Arc<ResidentConversation>) {
        for user in std::mem::take(&mut self.users) {
            recent.forget(&user, resident.id);
        }
        if self.large {
            recent.forget_large(resident.id);
        }
        *self = RecentListing::default();
    }
}
