//! What changed since a point in the log: the work list of a checkpoint.
//!
//! There are two at any time. One fills while the other is written to the tables, so that writers never wait.

use std::sync::Arc;

use bluetick_core::UserId;

use super::{Room, RoomState};
use crate::log::BatchNumber;

#[derive(Default)]
pub struct Generation {
    /// Counted from 1.
    pub number: u64,
    pub rooms: Vec<Arc<Room>>,
    pub users: Vec<UserId>,
    /// Bytes of log it stands for.
    pub log_bytes: u64,
    /// The last batch in it.
    pub through: BatchNumber,
}

impl Generation {
    pub fn first() -> Generation {
        Generation { number: 1, ..Generation::default() }
    }

    /// Puts a room on the list, once.
    pub fn list(&mut self, room: &Arc<Room>, state: &mut RoomState) {
        if state.listed_in != self.number {
            state.listed_in = self.number;
            self.rooms.push(Arc::clone(room));
        }
    }

    pub fn is_empty(&self) -> bool {
        self.rooms.is_empty() && self.users.is_empty()
    }

    /// Takes the list away and starts the next one.
    pub fn seal(&mut self) -> Generation {
        let next = Generation { number: self.number + 1, through: self.through, ..Generation::default() };
        std::mem::replace(self, next)
    }
}

#[cfg(test)]
mod tests {
    use bluetick_core::ConversationId;

    use super::*;

    #[test]
    fn a_room_is_listed_once_in_each_generation_it_changed_in() {
        let mut generation = Generation::first();
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
