//! The settings of the embedded store.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The `[store]` section of the configuration file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StoreSettings {
    /// The directory for all data. One process uses it at a time.
    pub data_dir: PathBuf,
    /// How long, in seconds, a repeated message_id is always recognised without `retry`.
    pub dedupe_window_seconds: u64,
    /// How many bytes of log are written before a checkpoint moves them to the tables. More bytes
    /// mean fewer rewrites, more memory, and a longer start after a crash.
    pub checkpoint_bytes: u64,
    /// How many seconds after an unwritten change a checkpoint starts, however little there is to
    /// write.
    pub checkpoint_idle_seconds: u64,
    /// The size of a log segment in bytes.
    pub segment_bytes: u64,
    /// How many conversations stay resident in memory. Large groups and busy conversations count
    /// for several.
    pub awake_conversations: usize,
    /// The size of the page cache in bytes. Messages in it are read without disk access.
    pub page_cache_bytes: usize,
    /// How many writes may be queued before the store refuses more.
    pub queued_writes: usize,
}

impl Default for StoreSettings {
    fn default() -> Self {
        StoreSettings {
            data_dir: "./bluetick-data".into(),
            dedupe_window_seconds: 7 * 24 * 3600,
            checkpoint_bytes: 256 << 20,
            checkpoint_idle_seconds: 30,
            segment_bytes: 32 << 20,
            awake_conversations: 200_000,
            page_cache_bytes: 64 << 20,
            queued_writes: 65_536,
        }
    }
}

/// Upper bound on `checkpoint_bytes` and `segment_bytes`. The backlog may grow to three times
/// `checkpoint_bytes`, and it must fit into memory.
const MAX_CHECKPOINT_BYTES: u64 = 1 << 40;

impl StoreSettings {
    /// Lower bound on `segment_bytes`. The largest single change, the creation of a group of 10,000
    /// members, must fit into one segment.
    pub const MIN_SEGMENT_BYTES: u64 = 4 << 20;

    pub fn dedupe_window_ms(&self) -> u64 {
        self.dedupe_window_seconds.saturating_mul(1000)
    }

    /// Returns a sentence that describes the first invalid setting.
    pub fn problem(&self) -> Option<String> {
        if self.segment_bytes < StoreSettings::MIN_SEGMENT_BYTES {
            return Some(format!(
                "store.segment_bytes must be at least {}",
                StoreSettings::MIN_SEGMENT_BYTES
            ));
        }
        if self.checkpoint_bytes < self.segment_bytes {
            return Some("store.checkpoint_bytes must be at least store.segment_bytes".to_owned());
        }
        if self.checkpoint_bytes > MAX_CHECKPOINT_BYTES || self.segment_bytes > MAX_CHECKPOINT_BYTES {
            return Some(format!(
                "store.checkpoint_bytes and store.segment_bytes must be at most {MAX_CHECKPOINT_BYTES}"
            ));
        }
        if self.queued_writes == 0 {
            return Some("store.queued_writes must be at least 1".to_owned());
        }
        None
    }
}
