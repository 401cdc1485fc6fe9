//! The changes since a position in the log: the work list of a checkpoint.
//!
//! Two generations exist at any time. One fills while the checkpoint writes the other to the
//! tables, so writers do not wait.

use std::sync::Arc;

use bluetick_core::{Timestamp, UserId};

use super::{Recent, Room, RoomState, Stale};
use crate::log::BatchNumber;

pub struct Generation {
    /// The number of this generation, counted from 1.
    pub number: u64,
    pub rooms: Vec<Arc<Room>>,
    pub users: Vec<UserId>,
    pub profiles: Vec<UserId>,
    /// The bytes of log that this generation covers.
    pub log_bytes: u64,
    /// The last batch that this generation covers.
    pub through: BatchNumber,
    /// The lowest `received_at` of the messages that recovery replayed into this generation.
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

    /// Adds a conversation state to the work list, once per generation.
    fn list(&mut self, room: &Arc<Room>, state: &mut RoomState) {
        if state.listed_in != self.number {
            state.listed_in = self.number;
            self.rooms.push(Arc::clone(room));
        }
    }

    /// Records a change that all members see. The caller holds the lock of `room`.
    pub fn changed(&mut self, room: &Arc<Room>, state: &mut RoomState) {
        self.list(room, state);
        let RoomState { noted, members, .. } = state;
        noted.all(&self.recent, room, members.iter().map(|member| &member.user));
    }

    /// Records a change that concerns one user: its read state, its preferences, or its departure.
    /// The caller holds the lock of `room`.
    pub fn changed_for(&mut self, user: &UserId, room: &Arc<Room>, state: &mut RoomState) {
        self.list(room, state);
        if state.members.len() > super::noted::LARGE {
            state.noted.as_large(&self.recent, room);
        } else {
            state.noted.one(&self.recent, room, user);
        }
    }

    /// Records a replayed message, which the tables may already contain.
    pub fn replayed(&mut self, received_at: Timestamp) {
        let lowest = self.lowest_replayed.get_or_insert(received_at);
        *lowest = received_at.min(*lowest);
    }

    pub fn is_empty(&self) -> bool {
        self.rooms.is_empty() && self.users.is_empty() && self.profiles.is_empty()
    }

    /// Returns this generation and replaces it with the next, empty one.
    pub fn seal(&mut self) -> Generation {
        let next = Generation::numbered(self.number + 1, self.through, Arc::clone(&self.recent));
        std::mem::replace(self, next)
    }

    /// Marks the conversations of this generation as clean, unless they changed since. Call it once
    /// the tables contain the whole generation.
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
