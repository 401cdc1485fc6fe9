//! What changed since a point in the log: the work list of a checkpoint.
//!
//! There are two at any time. One fills while the other is written to the tables, so that writers never wait.

use std::sync::Arc;

use bluetick_core::{Timestamp, UserId};

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
    /// The lowest `received_at` of the messages that the log brought back into it.
    pub lowest_replayed: Option<Timestamp>,
    recent: Arc<Recent>,
}

impl Generation {
    pub fn first(recent: Arc<Recent>) -> Generation {
        Generation::numbered(1, BatchNumber::NONE, recent)
    }

    fn numbered(number: u64, through: BatchNumber, recent: Arc<Recent>) -> Generation {
        let (rooms, users, profiles) = (Vec::new(), Vec::new(), Vec::new());
        Generation { number, rooms, users, profiles, log_bytes: 0, through, lowest_replayed: None, recent }
    }

    /// Puts a room on the list, once.
    fn list(&mut self, room: &Arc<Room>, state: &mut RoomState) {
        if state.listed_in != self.number {
            state.listed_in = self.number;
            self.rooms.push(Arc::clone(room));
        }
    }

    /// Something happened that all members see.
    pub fn changed(&mut self, room: &Arc<Room>, state: &mut RoomState) {
        self.list(room, state);
        let RoomState { noted, members, .. } = state;
        noted.all(&self.recent, room, members.iter().map(|member| &member.user));
    }

    /// Something happened to one user: it moved, or set something, or is no member any more.
    pub fn changed_for(&mut self, user: &UserId, room: &Arc<Room>, state: &mut RoomState) {
        self.list(room, state);
        if state.members.len() > super::noted::LARGE {
            state.noted.as_large(&self.recent, room);
        } else {
            state.noted.one(&self.recent, room, user);
        }
    }

    /// The log brought a message back, which the tables may have already.
    pub fn replayed(&mut self, received_at: Timestamp) {
        let lowest = self.lowest_replayed.get_or_insert(received_at);
        *lowest = received_at.min(*lowest);
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
            state.noted.settle(&self.recent, room);
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
        generation.changed(&room, &mut room.state());
        generation.changed(&room, &mut room.state());
        let sealed = generation.seal();
        assert_eq!(sealed.rooms.len(), 1);
        assert!(generation.is_empty());
        generation.changed(&room, &mut room.state());
        assert_eq!((sealed.number, generation.number, generation.rooms.len()), (1, 2, 1));
    }
}
