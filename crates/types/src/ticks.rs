//! The delivery tick of a message. Clients draw it; all implementations are tested against the same
//! cases in `docs/ticks.json`.

use std::fmt;

use crate::{ReadState, Seq};

/// The delivery state of a message, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tick {
    /// The server stored the message: one tick.
    Sent,
    /// At least one device of every receiver has the message: two ticks.
    Delivered,
    /// Every receiver has read the message: two blue ticks.
    Read,
}

impl Tick {
    pub const fn as_str(self) -> &'static str {
        match self {
            Tick::Sent => "sent",
            Tick::Delivered => "delivered",
            Tick::Read => "read",
        }
    }
}

impl fmt::Display for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Returns the tick of a stored message. `receivers` is the lowest read state among its receivers.
/// Read implies delivered.
pub fn tick_state(seq: Seq, receivers: ReadState) -> Tick {
    if seq <= receivers.read {
        Tick::Read
    } else if seq <= receivers.delivered {
        Tick::Delivered
    } else {
        Tick::Sent
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
        last_delivered_seq: u64,
        last_read_seq: u64,
        tick: String,
    }

    #[test]
    fn tick_matches_every_case_of_the_shared_table() {
        let table: Table = serde_json::from_str(include_str!("../../../docs/ticks.json")).unwrap();
        assert!(table.cases.len() > 10);
        for case in table.cases {
            let read_state = ReadState {
                delivered: Seq::new(case.last_delivered_seq),
                read: Seq::new(case.last_read_seq),
            };
            assert_eq!(tick_state(Seq::new(case.seq), read_state).as_str(), case.tick, "{read_state:?}");
        }
    }
}
