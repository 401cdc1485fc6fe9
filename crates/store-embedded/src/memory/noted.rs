//! Tracks which users' inbox caches ([`Recent`]) already list a changed conversation.

use std::sync::Arc;

use bluetick_core::UserId;

use super::{Recent, Room};

/// Upper bound on the members that are noted one by one. Every inbox read looks at all changed
/// conversations with more members. Must not exceed 64, the number of bits in `Noted::fresh`.
pub const LARGE: usize = 64;

/// The users for whom [`Recent`] lists one conversation as changed.
///
/// Invariant: [`Recent`] lists the conversation for all of `users`. A bit in `fresh` says that the
/// user has not read its inbox since the last change.
#[derive(Debug, Default)]
pub struct Noted {
    users: Vec<UserId>,
    fresh: u64,
    /// All members are in `users` and all of them are fresh, so another message needs no new entry.
    everybody: bool,
    large: bool,
}

impl Noted {
    pub fn knows(&self, user: &UserId) -> bool {
        self.users.contains(user)
    }

    /// Records that the user has read its inbox. The next change is noted again.
    pub fn looked(&mut self, user: &UserId) {
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
    pub fn all<'a>(
        &mut self,
        recent: &Recent,
        room: &Arc<Room>,
        members: impl ExactSizeIterator<Item = &'a UserId>,
    ) {
        if self.everybody || self.large {
            return;
        }
        if members.len() > LARGE {
            return self.as_large(recent, room);
        }
        for user in members {
            self.one(recent, room, user);
        }
        self.everybody = !self.large;
    }

    /// Notes a change for one user. The user may have left: the tables still list the conversation
    /// for it.
    pub fn one(&mut self, recent: &Recent, room: &Arc<Room>, user: &UserId) {
        if self.large {
            return;
        }
        let at = match self.users.iter().position(|known| known == user) {
            Some(at) => at,
            None if self.users.len() < LARGE => {
                self.users.push(user.clone());
                self.users.len() - 1
            }
            None => return self.as_large(recent, room),
        };
        if self.fresh & (1 << at) == 0 {
            self.fresh |= 1 << at;
            recent.note(user, room);
        }
    }

    pub fn as_large(&mut self, recent: &Recent, room: &Arc<Room>) {
        self.large = true;
        recent.note_large(room);
    }

    /// Removes all entries, once the tables contain the changes.
    pub fn settle(&mut self, recent: &Recent, room: &Arc<Room>) {
        for user in std::mem::take(&mut self.users) {
            recent.forget(&user, room.id);
        }
        if self.large {
            recent.forget_large(room.id);
        }
        *self = Noted::default();
    }
}
