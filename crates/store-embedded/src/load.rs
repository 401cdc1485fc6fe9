//! Loads conversations for writing: the conversation state and the message ids of the dedupe
//! window.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bluetick_core::{ConversationId, Refusal, Seq, StoreError, Timestamp};

use crate::codec::chunk::{Fingerprint, Header};
use crate::commit::{DuplicateSearch, WritableConversation};
use crate::memory::{ConversationState, IdTable, ResidentConversation, ResidentConversations};
use crate::recovery::load;
use crate::tables::Tables;

pub struct ConversationLoader {
    pub tables: Arc<Tables>,
    pub residents: Arc<ResidentConversations>,
    pub awake_conversations: usize,
    /// The weight of the states loaded since this type last evicted some.
    pub loaded_weight: AtomicUsize,
}

impl ConversationLoader {
    /// Returns the conversation state if it is resident and writable. Does not read the disk.
    pub fn resident_if_writable(&self, id: ConversationId) -> Option<WritableConversation> {
        let resident = self.residents.get(id)?;
        resident.is_writable().then_some(WritableConversation(resident))
    }

    /// Returns the state of an existing conversation, writable or not, or `NotAMember`. Reads the
    /// disk.
    pub fn existing(&self, id: ConversationId) -> Result<Arc<ResidentConversation>, StoreError> {
        let mut weight = 0;
        let resident = self.residents.get_or_load(id, || {
            let state = load(&self.tables, id)?.ok_or(Refusal::NotAMember)?;
            weight = state.weight();
            Ok(state)
        })?;
        // Checkpoints evict conversation states, but reads alone cause no checkpoints.
        let loaded_weight = self.loaded_weight.fetch_add(weight, Ordering::Relaxed) + weight;
        if weight > 0 && loaded_weight > self.awake_conversations / 4 {
            self.loaded_weight.store(0, Ordering::Relaxed);
            self.residents.evict(self.awake_conversations);
        }
        Ok(resident)
    }

    /// Returns the state of a conversation that may not exist yet. Reads the disk.
    pub fn existing_or_absent(&self, id: ConversationId) -> Result<Arc<ResidentConversation>, StoreError> {
        self.residents
            .get_or_load(id, || Ok(load(&self.tables, id)?.unwrap_or_else(ConversationState::absent)))
    }

    /// Loads the ids of the dedupe window: those of every chunk down to the first whose time is
    /// below `floor` ([`crate::dedupe`]).
    ///
    /// Reads the disk without holding the conversation's lock. That is safe: no message is sent
    /// here before the ids are loaded, and notices have no ids. A checkpoint only raises
    /// `tail_first`, so every message is in the tail read first or in the tables read second.
    pub fn make_writable(
        &self,
        resident: Arc<ResidentConversation>,
        floor: Timestamp,
    ) -> Result<WritableConversation, StoreError> {
        let mut ids = IdTable::default();
        let tail_first = {
            if resident.is_writable() {
                return Ok(WritableConversation(resident));
            }
            let state = resident.state();
            for (message, seq) in state.tail().zip(state.tail_first().get()..) {
                ids.insert(message.fingerprint, Seq::new(seq));
            }
            state.tail_first()
        };
        self.tables.current()?.snapshot()?.headers_backwards(resident.id, |first_seq, header| {
            if header.newest_received_at < floor {
                return false;
            }
            let seqs = header.fingerprints().zip((first_seq.get()..).map(Seq::new));
            for (fingerprint, seq) in seqs.filter(|(_, seq)| *seq < tail_first) {
                ids.insert(fingerprint, seq);
            }
            true
        })?;
        resident.make_writable(ids);
        Ok(WritableConversation(resident))
    }

    /// Searches all durable messages above `after` for `fingerprint`, in memory and in the tables,
    /// regardless of their age. The committer checks messages that are stored later.
    pub fn search(
        &self,
        resident: &WritableConversation,
        fingerprint: Fingerprint,
        after: Seq,
    ) -> Result<DuplicateSearch, StoreError> {
        let (mut seqs, tail_first, through): (Vec<Seq>, _, _) = {
            let state = resident.0.state();
            (state.tail_seqs(fingerprint, after).collect(), state.tail_first(), state.head())
        };
        // Read the tables second: a checkpoint removes messages from the tail only after the tables
        // have them.
        self.tables.current()?.snapshot()?.headers_backwards(resident.0.id, |first_seq, header| {
            seqs.extend(seqs_in(first_seq, &header, fingerprint, after, tail_first));
            first_seq > after
        })?;
        Ok(DuplicateSearch { seqs, through })
    }
}

/// Returns the seqs in a chunk with this fingerprint, above `after` and below `before`.
pub fn seqs_in(
    first_seq: Seq,
    header: &Header<'_>,
    fingerprint: Fingerprint,
    after: Seq,
    before: Seq,
) -> impl Iterator<Item = Seq> {
    let seqs = header.fingerprints().zip((first_seq.get()..).map(Seq::new));
    seqs.filter(move |(found, seq)| *found == fingerprint && *seq > after && *seq < before)
        .map(|(_, seq)| seq)
}
