//! Who has been told that a conversation changed since the tables were written.

use std::sync::Arc;

use bluetick_core::UserId;

use super::{Recent, Room};

/// Rooms with more members are not noted one member at a time: whoever reads an inbox looks at all such rooms that
/// changed.
pub const LARGE: usize = 64;

/// Invariant: `users` have the room on their desks, those with a bit in `fresh` among what they have not looked at yet.
#[derive(Debug, Default)]
pub struct Noted {
    users: Vec<UserId>,
    fresh: u64,
    /// All members are among `users`, and all of these are fresh: nobody has to be told of one more message.
    everybody: bool,
    large: bool,
}

impl Noted {
    pub fn knows(&self, user: &UserId) -> bool {
        self.users.contains(user)
    }

    /// The user has looked: the next change is news again.
    pub fn looked(&mut self, user: &UserId) {
        if let Some(at) = self.users.iter().position(|known| known == user) {
            self.fresh &= !(1 << at);
            self.everybody = false;
        }
    }

    /// Somebody has come or gone.
    pub fn members_changed(&mut self) {
        self.everybody = false;
    }

    /// Something changed for all members.
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

    /// Something changed for one user. It need not be a member any more: the tables still count it in.
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

    /// The tables have it all.
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
