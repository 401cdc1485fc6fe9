//! Section `[store.fleet]`: the settings of the fleet engine itself.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Layout;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct EngineSettings {
    /// The deadline of a send, in milliseconds. The server then tells the sender to try again.
    pub send_deadline_ms: u64,
    /// How long a reserved seq may stay empty. A node that finds it later fills it with a void.
    pub void_after_ms: u64,
    /// The minimum time between two writes of the same inbox row or sender's status row. Nodes can
    /// compute both from the messages, so a longer time only adds work after a loss of Redis.
    pub flush_interval_ms: u64,
    /// How long a resent message id returns the same message. The window of the store.
    #[serde(skip)]
    pub dedupe_window_seconds: u64,
    /// How long sends continue without Redis after an outage, until every node has reported the
    /// messages stored meanwhile.
    pub return_grace_ms: u64,
    /// How long sends wait for an unavailable Redis before they continue without it. By then all
    /// nodes have noticed the outage, so no node allocates a second seq for a message id that
    /// another node stored without Redis.
    #[serde(skip)]
    pub patience_ms: u64,
    /// The interval between checks for Redis outages of other nodes. It must be a fraction of
    /// `patience_ms`.
    #[serde(skip)]
    pub outage_look_ms: u64,
    /// The interval between health checks of the tables.
    #[serde(skip)]
    pub health_interval_ms: u64,
    /// The maximum number of concurrent sends, over all conversations. The server refuses more.
    pub sends_in_flight: usize,
    /// The maximum number of partitions for a conversation with more writes than one partition
    /// takes. 1: always one partition.
    pub most_partitions: u16,
    /// The other parameters of the partitioning.
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

/// Upper bound for `sends_in_flight`, the capacity of the store.
const MOST_SENDS: usize = 500_000;

/// Upper bound for `most_partitions`. A search for the newest message reads every partition.
const MOST_PARTITIONS: u16 = 64;

/// Upper bound for every time, in milliseconds: one hour. It catches values in the wrong unit.
const MAX_MS: u64 = 3_600_000;

impl EngineSettings {
    /// Returns a sentence about the first invalid setting, or `None` if all are valid.
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

    /// How long the result of an outage check is valid. While `outage_look` is below half of
    /// `patience`, it is shorter than `patience`. A node that works without Redis then waits
    /// longer.
    pub fn outage_looks_count(&self) -> Duration {
        (self.patience() * 2 / 3).max(2 * self.outage_look())
    }

    /// A node that sees another outage report within this time has not returned to Redis in
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

    /// A write without Redis that starts within this time after the last outage report is stored
    /// before any node returns to Redis.
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
