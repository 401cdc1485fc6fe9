//! The messages that a device has, and its report for the final check.

use std::collections::{BTreeMap, BTreeSet};

use bluetick_core::{ConversationId, UserId};

use crate::audit::ReadState;

/// The seqs that a device has of a conversation: all from `first` to `last`, and some above.
#[derive(Clone, Debug, Default)]
pub struct ReceivedSeqs {
    pub first: u64,
    pub last: u64,
    above: BTreeSet<u64>,
    /// The receipts sent on the current connection.
    pub said: ReadState,
}

impl ReceivedSeqs {
    /// The view of a user who is a member from the creation of the conversation.
    pub fn from_the_beginning() -> ReceivedSeqs {
        ReceivedSeqs { first: 1, ..ReceivedSeqs::default() }
    }

    /// A view that starts at `first`: the user joined there, or the device does not know when.
    pub fn from(first: u64) -> ReceivedSeqs {
        ReceivedSeqs { first, last: first, ..ReceivedSeqs::default() }
    }

    pub fn add(&mut self, seq: u64) {
        self.above.insert(seq);
        while self.above.first().is_some_and(|first| *first <= self.last + 1) {
            self.last = self.last.max(self.above.pop_first().unwrap_or(0));
        }
    }
}

/// State of a device that is connected, caught up and has an empty outbox. Otherwise it is the
/// default, without views.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceReport {
    pub views: BTreeMap<ConversationId, Has>,
    /// The read states of all members, as far as the device knows them.
    pub ticks: BTreeMap<(ConversationId, UserId), ReadState>,
    /// No receipt of this connection was refused, as far as the device knows.
    pub was_heard: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Has {
    pub first: u64,
    pub last: u64,
    /// The receipts that the device sent on the current connection.
    pub said: ReadState,
}

impl From<&ReceivedSeqs> for Has {
    fn from(view: &ReceivedSeqs) -> Has {
        Has { first: view.first, last: view.last, said: view.said }
    }
}

impl Has {
    /// For a device that sends no positions. The server cannot know its gaps, so the device would
    /// fill them from the history, as clients do. Counts everything up to the highest seq as
    /// present, if the device has the beginning.
    pub fn after_reading_on(view: &ReceivedSeqs) -> Has {
        let has_beginning = view.last >= view.first;
        let last = view.above.last().filter(|_| has_beginning).map_or(view.last, |last| view.last.max(*last));
        Has { last, ..Has::from(view) }
    }
}
