//! A name for every token that is made here (`jti`), so that no two are alike.

use std::sync::atomic::{AtomicU64, Ordering};

use bluetick_core::ports::Random;

const MARK: &str = "bt.";

/// Names of one life of the server: its own beginning, and a number.
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

    pub fn next(&self) -> String {
        format!("{MARK}{:016x}-{:x}", self.beginning, self.count.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether it looks like one of this server's, or of another node's.
    pub fn is_ours(name: &str) -> bool {
        name.starts_with(MARK)
    }
}
