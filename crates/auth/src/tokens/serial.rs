//! Generates a unique id (`jti`) for every token that this server signs.

use std::sync::atomic::{AtomicU64, Ordering};

use bluetick_core::ports::Random;

/// Prefix of every generated `jti`. It distinguishes tokens of this server and its nodes from those
/// of other issuers. After a change, tokens issued before count as foreign.
const MARK: &str = "bt.";

/// The `jti` generator of one server process: a random number and a counter.
pub struct Serial {
    beginning: u64,
    count: AtomicU64,
}

impl Serial {
    pub fn new(random: &dyn Random) -> Serial {
        let mut bytes = [0; 8];
        random.fill(&mut bytes);
        Serial { beginning: u64::from_be_bytes(bytes), count: AtomicU64::new(0) }
    }

    /// Returns the next unique `jti`.
    pub fn next(&self) -> String {
        format!("{MARK}{:016x}-{:x}", self.beginning, self.count.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns whether the `jti` has the format of this server or of another node.
    pub fn is_ours(name: &str) -> bool {
        name.starts_with(MARK)
    }
}
