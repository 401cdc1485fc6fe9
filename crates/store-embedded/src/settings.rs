//! What an operator may set, and what only tests do.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Section `[store]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StoreSettings {
    /// Where everything lives. One process uses it at a time.
    pub data_dir: PathBuf,
    /// For how long a repeated message_id is surely recognised without `retry`.
    pub dedupe_window_seconds: u64,
    /// How many bytes of log are written before they are turned into tables. More means fewer rewrites, more
    /// memory, and a longer start after a crash.
    pub checkpoint_bytes: u64,
    /// How many seconds a change may wait for its checkpoint, however little there is to write.
    pub checkpoint_idle_seconds: u64,
    /// The size of one log file.
    pub segment_bytes: u64,
    /// How many conversations stay awake in memory. Large groups and busy conversations count for several.
    pub awake_conversations: usize,
    /// How many bytes of messages stay in memory as they were last read, so that reading them again needs no disk.
    pub page_cache_bytes: usize,
    /// How many writes may wait for the disk before more are refused.
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

/// As much log has to fit into memory three times.
const MAX_CHECKPOINT_BYTES: u64 = 1 << 40;

impl StoreSettings {
    /// The largest single change is a group of 10,000 made at once; it must fit one segment.
    pub const MIN_SEGMENT_BYTES: u64 = 4 << 20;

    pub fn dedupe_window_ms(&self) -> u64 {
        self.dedupe_window_seconds.saturating_mul(1000)
    }

    /// What is wrong with the settings, in a sentence.
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
