//! What changed since a point in the log: the work list of a checkpoint.
//!
//! There are two at any time. One fills while the other is written to the tables, so that writers never wait.

use std::sync::Arc;

use bluetick_core::UserId;

use super::{Recent, Room, RoomState, Stale};
use crate::log::BatchNumber;

pub struct Generation {
    /// Counted from 1.
    pub number: u64,
    pub rooms: Vec<Arc<Room>>,
    pub users: Vec<UserId>,
    pub profiles: Vec<UserId>,
    /// Bytes of log it stands for.
    pub log_bytes: u64,
    /// The last batch in it.
    pub through: BatchNumber,
    recent: Arc<Recent>,
}

impl Generation {
    pub fn first(recent: Arc<Recent>) -> Generation {
        Generation::numbered(1, BatchNumber::NONE, recent)
    }

    fn numbered(number: u64, through: BatchNumber, recent: Arc<Recent>) -> Generation {
        let (rooms, users, profiles) = (Vec::new(), Vec::new(), Vec::new());
        Generation { number, rooms, users, profiles, log_bytes: 0, through, recent }
    }

    /// Puts a room on the list, once, and on those of its members.
    pub fn list(&mut self, room: &Arc<Room>, state: &mut RoomState) {
        if state.listed_in != self.number {
            state.listed_in = self.number;
            self.rooms.push(Arc::clone(room));
            for member in state.members.iter() {
                self.recent.note(&member.user, room);
            }
        }
    }

    /// Somebody has come into a room, or has gone, after it was listed. Whoever has gone is noted too: the tables still
    /// count it in.
    pub fn note(&self, user: &UserId, room: &Arc<Room>, state: &mut RoomState) {
        self.recent.note(user, room);
        if !state.members.contains(user) {
            state.gone.push(user.clone());
        }
    }

    pub fn is_empty(&self) -> bool {
        self.rooms.is_empty() && self.users.is_empty() && self.profiles.is_empty()
    }

    /// Takes the list away and starts the next one.
    pub fn seal(&mut self) -> Generation {
        let next = Generation::numbered(self.number + 1, self.through, Arc::clone(&self.recent));
        std::mem::replace(self, next)
    }

    /// All of it is in the tables: what has not changed since is read from there.
    pub fn settle(&self) {
        for room in &self.rooms {
            let mut state = room.state();
            if state.listed_in != self.number {
                continue;
            }
            state.stale = Stale::Nobody;
            for user in std::mem::take(&mut state.gone) {
                self.recent.forget(&user, room.id);
            }
            for member in state.members.iter() {
                self.recent.forget(&member.user, room.id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bluetick_core::ConversationId;

    use super::*;

    #[test]
    fn a_room_is_listed_once_in_each_generation_it_changed_in() {
        let mut generation = Generation::first(Arc::default());
        let room = Arc::new(Room::new(ConversationId::group([1; 15]), RoomState::absent()));
        generation.list(&room, &mut room.state());
        generation.list(&room, &mut room.state());
        let sealed = generation.seal();
        assert_eq!(sealed.rooms.len(), 1);
        assert!(generation.is_empty());
        generation.list(&room, &mut room.state());
        assert_eq!((sealed.number, generation.number, generation.rooms.len()), (1, 2, 1));
    }
}
