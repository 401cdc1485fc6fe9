//! The changes since a position in the log: the work list of a checkpoint.
//!
//! At most two generations exist. One fills while the checkpoint writes the other to the tables, so
//! writers do not wait.

use std::sync::Arc;

use bluetick_core::{Timestamp, UserId};

use super::{ConversationState, Recent, ResidentConversation, StaleMembers};
use crate::log::BatchNumber;

pub struct Generation {
    /// The number of this generation, counted from 1.
    pub number: u64,
    pub residents: Vec<Arc<ResidentConversation>>,
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
        let (residents, users, profiles) = (Vec::new(), Vec::new(), Vec::new());
        Generation {
            number,
            residents,
            users,
            profiles,
            log_bytes: 0,
            through,
            lowest_replayed: None,
            recent,
        }
    }

    /// Adds a conversation state to the work list, once per generation.
    fn list(&mut self, resident: &Arc<ResidentConversation>, state: &mut ConversationState) {
        if state.listed_in != self.number {
            state.listed_in = self.number;
            self.residents.push(Arc::clone(resident));
        }
    }

    /// Records a change that all members see. The caller holds the lock of `resident`.
    pub fn changed(&mut self, resident: &Arc<ResidentConversation>, state: &mut ConversationState) {
        self.list(resident, state);
        let ConversationState { recent_listing, members, .. } = state;
        recent_listing.add_all(&self.recent, resident, members.iter().map(|member| &member.user));
    }

    /// Records a change that concerns one user: its read state, its preferences, or its departure.
    /// The caller holds the lock of `resident`.
    pub fn changed_for(
        &mut self,
        user: &UserId,
        resident: &Arc<ResidentConversation>,
        state: &mut ConversationState,
    ) {
        self.list(resident, state);
        if state.members.len() > super::recent_listing::MAX_LISTED_MEMBERS {
            state.recent_listing.add_large(&self.recent, resident);
        } else {
            state.recent_listing.add_one(&self.recent, resident, user);
        }
    }

    /// Records a replayed message, which the tables may already contain.
    pub fn replayed(&mut self, received_at: Timestamp) {
        let lowest = self.lowest_replayed.get_or_insert(received_at);
        *lowest = received_at.min(*lowest);
    }

    pub fn is_empty(&self) -> bool {
        self.residents.is_empty() && self.users.is_empty() && self.profiles.is_empty()
    }

    /// Returns this generation and replaces it with the next, empty one.
    pub fn seal(&mut self) -> Generation {
        let next = Generation::numbered(self.number + 1, self.through, Arc::clone(&self.recent));
        std::mem::replace(self, next)
    }

    /// Marks the conversations of this generation as clean, unless they changed since. Call it once
    /// the tables contain the whole generation.
    pub fn settle(&self) {
        for resident in &self.residents {
            let mut state = resident.state();
            if state.listed_in != self.number {
                continue;
            }
            state.stale = StaleMembers::NoMembers;
            state.recent_listing.settle(&self.recent, resident);
        }
    }
}

#[cfg(test)]
mod tests {
    use bluetick_core::ConversationId;

    use super::*;

    #[test]
    fn changed_conversation_is_listed_once_per_generation() {
        let mut generation = Generation::first(Arc::default());
        let resident =
            Arc::new(ResidentConversation::new(ConversationId::group([1; 15]), ConversationState::absent()));
        generation.changed(&resident, &mut resident.state());
        generation.changed(&resident, &mut resident.state());
        let sealed = generation.seal();
        assert_eq!(sealed.residents.len(), 1);
        assert!(generation.is_empty());
        generation.changed(&resident, &mut resident.state());
        assert_eq!((sealed.number, generation.number, generation.residents.len()), (1, 2, 1));
    }
}
