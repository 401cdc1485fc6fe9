//! Loads conversations for writing: the conversation state and the message ids of the dedupe
//! window.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bluetick_core::{ConversationId, Refusal, Seq, StoreError, Timestamp};

use crate::codec::chunk::{Fingerprint, Header};
use crate::commit::{Searched, WritableRoom};
use crate::memory::{IdTable, Room, RoomState, Rooms};
use crate::recovery::load;
use crate::tables::Tables;

pub struct Waker {
    pub tables: Arc<Tables>,
    pub rooms: Arc<Rooms>,
    pub awake_conversations: usize,
    /// The weight of the states loaded since this type last evicted some.
    pub woken: AtomicUsize,
}

impl Waker {
    /// Returns the conversation state if it is resident and writable. Does not read the disk.
    pub fn awake(&self, id: ConversationId) -> Option<WritableRoom> {
        let room = self.rooms.get(id)?;
        room.is_writable().then_some(WritableRoom(room))
    }

    /// Returns the state of an existing conversation, writable or not, or `NotAMember`. Reads the
    /// disk.
    pub fn existing(&self, id: ConversationId) -> Result<Arc<Room>, StoreError> {
        let mut weight = 0;
        let room = self.rooms.get_or_load(id, || {
            let state = load(&self.tables, id)?.ok_or(Refusal::NotAMember)?;
            weight = state.weight();
            Ok(state)
        })?;
        // Checkpoints evict conversation states, but reads alone cause no checkpoints.
        let woken = self.woken.fetch_add(weight, Ordering::Relaxed) + weight;
        if weight > 0 && woken > self.awake_conversations / 4 {
            self.woken.store(0, Ordering::Relaxed);
            self.rooms.put_to_sleep(self.awake_conversations);
        }
        Ok(room)
    }

    /// Returns the state of a conversation that may not exist yet. Reads the disk.
    pub fn existing_or_absent(&self, id: ConversationId) -> Result<Arc<Room>, StoreError> {
        self.rooms.get_or_load(id, || Ok(load(&self.tables, id)?.unwrap_or_else(RoomState::absent)))
    }

    /// Loads the ids of the dedupe window: those of every chunk down to the first whose time is
    /// below `floor` ([`crate::dedupe`]).
    ///
    /// Reads the disk without holding the conversation's lock. That is safe: no message is sent
    /// here before the ids are loaded, and notices have no ids. A checkpoint only raises
    /// `tail_first`, so every message is in the tail read first or in the tables read second.
    pub fn make_writable(&self, room: Arc<Room>, floor: Timestamp) -> Result<WritableRoom, StoreError> {
        let mut ids = IdTable::default();
        let tail_first = {
            if room.is_writable() {
                return Ok(WritableRoom(room));
            }
            let state = room.state();
            for (message, seq) in state.tail().zip(state.tail_first().get()..) {
                ids.insert(message.fingerprint, Seq::new(seq));
            }
            state.tail_first()
        };
        self.tables.current()?.snapshot()?.headers_backwards(room.id, |first_seq, header| {
            if header.newest_received_at < floor {
                return false;
            }
            let places = header.fingerprints().zip((first_seq.get()..).map(Seq::new));
            for (fingerprint, seq) in places.filter(|(_, seq)| *seq < tail_first) {
                ids.insert(fingerprint, seq);
            }
            true
        })?;
        room.make_writable(ids);
        Ok(WritableRoom(room))
    }

    /// Searches all durable messages above `after` for `fingerprint`, in memory and in the tables,
    /// regardless of their age. The committer checks messages that are stored later.
    pub fn search(
        &self,
        room: &WritableRoom,
        fingerprint: Fingerprint,
        after: Seq,
    ) -> Result<Searched, StoreError> {
        let (mut places, tail_first, through): (Vec<Seq>, _, _) = {
            let state = room.0.state();
            (state.tail_places(fingerprint, after).collect(), state.tail_first(), state.head())
        };
        // Read the tables second: a checkpoint removes messages from the tail only after the tables
        // have them.
        self.tables.current()?.snapshot()?.headers_backwards(room.0.id, |first_seq, header| {
            places.extend(places_in(first_seq, &header, fingerprint, after, tail_first));
            first_seq > after
        })?;
        Ok(Searched { places, through })
    }
}

/// Returns the seqs in a chunk with this fingerprint, above `after` and below `before`.
pub fn places_in(
    first_seq: Seq,
    header: &Header<'_>,
    fingerprint: Fingerprint,
    after: Seq,
    before: Seq,
) -> impl Iterator<Item = Seq> {
    let places = header.fingerprints().zip((first_seq.get()..).map(Seq::new));
    places
        .filter(move |(found, seq)| *found == fingerprint && *seq > after && *seq < before)
        .map(|(_, seq)| seq)
}
