//! The tick next to a message of this user, from queued to read.

use bluetick_types::{Seq, tick_state};

pub use bluetick_types::Tick as StoredTick;

use crate::state::outbox::SendState;
use crate::wire::bodies::ReadState;

/// The tick next to a message of this user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tick {
    /// Queued or being sent. Usually drawn as a clock.
    Queued,
    /// One tick: the server has stored the message.
    Sent,
    /// Two ticks: a device of every receiver has acknowledged it.
    Delivered,
    /// Two blue ticks: every receiver has read it.
    Read,
    /// The server refused the message permanently.
    Failed,
}

/// The tick of a stored message. `receivers` is the peer's read state; in a group, that of the
/// member furthest behind.
pub fn tick_of(seq: Seq, receivers: ReadState) -> Tick {
    match tick_state(seq, receivers.into()) {
        StoredTick::Sent => Tick::Sent,
        StoredTick::Delivered => Tick::Delivered,
        StoredTick::Read => Tick::Read,
    }
}

impl From<&SendState> for Tick {
    fn from(state: &SendState) -> Tick {
        match state {
            SendState::Queued | SendState::Sending => Tick::Queued,
            SendState::Sent(_) => Tick::Sent,
            SendState::Failed(_) => Tick::Failed,
        }
    }
}

impl Tick {
    /// The name used by the shared tick table (`docs/ticks.json`).
    pub const fn as_str(self) -> &'static str {
        match self {
            Tick::Queued => "queued",
            Tick::Sent => "sent",
            Tick::Delivered => "delivered",
            Tick::Read => "read",
            Tick::Failed => "failed",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Table {
        cases: Vec<Case>,
    }

    #[derive(Deserialize)]
    struct Case {
        seq: u64,
        tick: String,
        #[serde(flatten)]
        marks: ReadState,
    }

    #[test]
    fn tick_matches_every_case_of_the_shared_table() {
        let table: Table = serde_json::from_str(include_str!("../../../docs/ticks.json")).unwrap();
        assert!(table.cases.len() > 10);
        for case in table.cases {
            assert_eq!(tick_of(Seq::new(case.seq), case.marks).as_str(), case.tick, "{:?}", case.marks);
        }
    }
}
