//! Waking a conversation up for writing: its rooms, and the message ids it has seen lately.

use std::sync::Arc;

use bluetick_core::{ConversationId, Refusal, Seq, StoreError, Timestamp};

use crate::codec::chunk::Fingerprint;
use crate::commit::WritableRoom;
use crate::memory::{IdTable, Room, RoomState, Rooms};
use crate::recovery::load;
use crate::tables::Tables;

pub struct Waker {
    pub tables: Arc<Tables>,
    pub rooms: Arc<Rooms>,
}

impl Waker {
    /// The room if it is ready, without touching the disk.
    pub fn awake(&self, id: ConversationId) -> Option<WritableRoom> {
        let room = self.rooms.get(id)?;
        let ready = room.state().ids.is_some();
        ready.then_some(WritableRoom(room))
    }

    /// A conversation that exists, ready or not. Reads the disk.
    pub fn existing(&self, id: ConversationId) -> Result<Arc<Room>, StoreError> {
        self.rooms.get_or_load(id, || load(&self.tables, id)?.ok_or(Refusal::NotAMember.into()))
    }

    /// A conversation that may be about to exist. Reads the disk.
    pub fn existing_or_absent(&self, id: ConversationId) -> Result<Arc<Room>, StoreError> {
        self.rooms.get_or_load(id, || Ok(load(&self.tables, id)?.unwrap_or_else(RoomState::absent)))
    }

    /// Loads the ids of every message received after `window_start`. Reads the disk, under the room's lock: nobody
    /// may write here before it is done.
    pub fn make_writable(
        &self,
        room: Arc<Room>,
        window_start: Timestamp,
    ) -> Result<WritableRoom, StoreError> {
        let mut state = room.state();
        if state.ids.is_none() {
            let mut ids = IdTable::default();
            self.tables.snapshot()?.headers_backwards(room.id, |first_seq, header| {
                if header.newest_received_at < window_start {
                    return false;
                }
                for (fingerprint, seq) in header.fingerprints().zip(first_seq.get()..) {
                    ids.insert(fingerprint, Seq::new(seq));
                }
                true
            })?;
            for (message, seq) in state.tail().zip(state.tail_first().get()..) {
                ids.insert(message.fingerprint, Seq::new(seq));
            }
            state.ids = Some(ids);
        }
        drop(state);
        Ok(WritableRoom(room))
    }

    /// Adds every place after `after` that carries `fingerprint` to the ids, however old: the next write compares them.
    pub fn remember_older(
        &self,
        room: &WritableRoom,
        fingerprint: Fingerprint,
        after: Seq,
    ) -> Result<(), StoreError> {
        let mut state = room.0.state();
        let newest = state.reserved;
        let ids = state.ids.get_or_insert_default();
        let known: Vec<Seq> = ids.candidates(fingerprint, newest).collect();
        self.tables.snapshot()?.headers_backwards(room.0.id, |first_seq, header| {
            for (found, seq) in header.fingerprints().zip(first_seq.get()..) {
                let seq = Seq::new(seq);
                if found == fingerprint && seq > after && !known.contains(&seq) {
                    ids.insert(fingerprint, seq);
                }
            }
            first_seq > after
        })?;
        Ok(())
    }
}
