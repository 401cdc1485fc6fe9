//! Section `[store.fleet]`: what the operator may set about the engine itself.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Layout;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct EngineSettings {
    /// A sender that has no answer by then is told to try again.
    pub send_deadline_ms: u64,
    /// A place that was handed out and is still empty after this time is closed with a void by
    /// whoever meets it.
    pub void_after_ms: u64,
    /// Inbox rows and the senders' own status rows are written at most this often each. They can be
    /// computed from the messages, so a longer time costs nothing but work after Redis was lost.
    pub flush_interval_ms: u64,
    /// The same message id gives the same message for at least this long. The store's own window.
    #[serde(skip)]
    pub dedupe_window_seconds: u64,
    /// After Redis was away, sends go on without it for this long, until every node has told it
    /// what was stored meanwhile.
    pub return_grace_ms: u64,
    /// Sends wait this long for a Redis that does not answer before they go on without it: by then
    /// all nodes have noticed, and none gives a second place to an id that another has stored on
    /// its own.
    #[serde(skip)]
    pub patience_ms: u64,
    /// How often it is looked whether another node has to do without Redis: several times while
    /// that one waits.
    #[serde(skip)]
    pub outage_look_ms: u64,
    /// How often the tables are asked whether they answer.
    #[serde(skip)]
    pub health_interval_ms: u64,
    /// Sends under way at a time, over all conversations; more are refused.
    pub sends_in_flight: usize,
    /// A conversation with more writes than one partition of the tables takes is spread over
    /// several, never over more than these. 1: never.
    pub most_partitions: u16,
    /// The rest of what shapes that.
    #[serde(skip)]
    pub layout: Layout,
}

impl Default for EngineSettings {
    fn default() -> Self {
        EngineSettings {
            send_deadline_ms: 10_000,
            void_after_ms: 500,
            flush_interval_ms: 30_000,
            dedupe_window_seconds: 7 * 24 * 3_600,
            return_grace_ms: 4_000,
            patience_ms: 1_500,
            outage_look_ms: 500,
            health_interval_ms: 5_000,
            sends_in_flight: 20_000,
            most_partitions: 16,
            layout: Layout::CHOSEN,
        }
    }
}

/// What the store has room for.
const MOST_SENDS: usize = 500_000;

/// The newest message may be in any of them, so whoever looks for it asks them all.
const MOST_PARTITIONS: u16 = 64;

const MAX_MS: u64 = 3_600_000;

impl EngineSettings {
    /// What is wrong with the settings, in a sentence.
    pub fn problem(&self) -> Option<String> {
        let times = [
            ("send_deadline_ms", self.send_deadline_ms),
            ("void_after_ms", self.void_after_ms),
            ("flush_interval_ms", self.flush_interval_ms),
            ("return_grace_ms", self.return_grace_ms),
        ];
        if let Some((name, _)) = times.iter().find(|(_, value)| !(1..=MAX_MS).contains(value)) {
            return Some(format!("store.fleet.{name} must be 1 to {MAX_MS}"));
        }
        if !(1..=MOST_SENDS).contains(&self.sends_in_flight) {
            return Some(format!("store.fleet.sends_in_flight must be 1 to {MOST_SENDS}"));
        }
        if !(1..=MOST_PARTITIONS).contains(&self.most_partitions) {
            return Some(format!("store.fleet.most_partitions must be 1 to {MOST_PARTITIONS}"));
        }
        None
    }

    pub fn layout(&self) -> Layout {
        Layout { most_partitions: self.most_partitions, ..self.layout }
    }

    pub fn send_deadline(&self) -> Duration {
        Duration::from_millis(self.send_deadline_ms)
    }

    pub fn void_after(&self) -> Duration {
        Duration::from_millis(self.void_after_ms)
    }

    pub fn patience(&self) -> Duration {
        Duration::from_millis(self.patience_ms)
    }

    pub fn outage_look(&self) -> Duration {
        Duration::from_millis(self.outage_look_ms)
    }

    /// A look whether another node does without Redis counts for so long: whoever does waits longer
    /// than this.
    pub fn outage_looks_count(&self) -> Duration {
        (self.patience() * 2 / 3).max(2 * self.outage_look())
    }

    /// Whoever hears again so soon that somebody does without Redis has not gone back to it in
    /// between.
    pub fn outage_goes_on_within(&self) -> Duration {
        self.return_grace().saturating_sub(self.outage_looks_count()).max(self.return_grace() / 2)
    }

    pub fn health_interval(&self) -> Duration {
        Duration::from_millis(self.health_interval_ms)
    }

    pub fn return_grace(&self) -> Duration {
        Duration::from_millis(self.return_grace_ms)
    }

    /// A write that begins without Redis so long after it was heard that somebody does without, is
    /// there before anybody goes back to Redis.
    pub fn time_to_store_without(&self) -> Duration {
        self.return_grace() * 5 / 8
    }

    pub fn flush_interval(&self) -> Duration {
        Duration::from_millis(self.flush_interval_ms.max(10))
    }

    pub fn dedupe_window_ms(&self) -> i64 {
        i64::try_from(self.dedupe_window_seconds.saturating_mul(1_000)).unwrap_or(i64::MAX)
    }
}
