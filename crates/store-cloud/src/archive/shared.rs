//! What the nodes know together about the archive, in one row: counts, where a run stopped, what may be an orphan. Only
//! the job whose turn it is writes it.

use std::collections::BTreeMap;

use bluetick_archive::jobs::state::add;
use bluetick_core::ports::ColdCount;
use bluetick_core::{StoreError, Timestamp};

use crate::engine::Engine;
use crate::people::shared_key;
use crate::rows::{Item, Table};

const NAME: &str = "archive";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shared {
    /// As jobs have counted. One that died may not have written all of it down; a verification counts anew.
    pub cold: ColdCount,
    /// Conversations that were brought back to stay.
    pub kept_hot: u64,
    /// How many there were the last time all were looked at.
    pub conversations: u64,
    /// The conversation behind which an interrupted run goes on.
    pub cursor: Option<String>,
    pub last_run_at: Option<Timestamp>,
    /// Why the last run stopped before its end.
    pub paused: Option<String>,
    pub swept_at: Option<Timestamp>,
    /// Objects that no row referred to, and since when.
    pub orphans: BTreeMap<String, i64>,
}

impl Shared {
    pub fn item(&self) -> Item {
        let ColdCount { segments, messages, bytes, raw_bytes } = self.cold;
        let mut item = Item::new()
            .count("segments", segments)
            .count("messages", messages)
            .count("bytes", bytes)
            .count("raw_bytes", raw_bytes)
            .count("kept_hot", self.kept_hot)
            .count("conversations", self.conversations)
            .text_if("cursor", self.cursor.clone())
            .text_if("paused", self.paused.clone());
        for (name, at) in [("last_run_at", self.last_run_at), ("swept_at", self.swept_at)] {
            if let Some(at) = at {
                item = item.number(name, at.millis());
            }
        }
        if !self.orphans.is_empty() {
            let orphans = serde_json::to_string(&self.orphans).expect("names and numbers only");
            item = item.text("orphans", orphans);
        }
        item
    }

    pub fn decode(item: &Item) -> Shared {
        let text = |name| item.find_text(name).map(|text| text.to_string());
        let time = |name| item.find_number(name).map(Timestamp::from_millis);
        Shared {
            cold: ColdCount {
                segments: item.find_count("segments"),
                messages: item.find_count("messages"),
                bytes: item.find_count("bytes"),
                raw_bytes: item.find_count("raw_bytes"),
            },
            kept_hot: item.find_count("kept_hot"),
            conversations: item.find_count("conversations"),
            cursor: text("cursor"),
            last_run_at: time("last_run_at"),
            paused: text("paused"),
            swept_at: time("swept_at"),
            orphans: text("orphans").and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default(),
        }
    }

    pub fn add(&mut self, count: &ColdCount) {
        add(&mut self.cold, count);
    }

    pub fn subtract(&mut self, count: &ColdCount) {
        let less = |from: &mut u64, what: u64| *from = from.saturating_sub(what);
        less(&mut self.cold.segments, count.segments);
        less(&mut self.cold.messages, count.messages);
        less(&mut self.cold.bytes, count.bytes);
        less(&mut self.cold.raw_bytes, count.raw_bytes);
        if self.cold.segments == 0 {
            self.cold = ColdCount::default();
        }
    }

    /// Of an object that nobody opens: what it takes is about its share.
    pub fn subtract_unread(&mut self, bytes: u64) {
        let ColdCount { bytes: of, raw_bytes, .. } = self.cold;
        let share = bytes.min(of) as f64 / of.max(1) as f64;
        let raw_bytes = (raw_bytes as f64 * share) as u64;
        self.subtract(&ColdCount { segments: 1, messages: 0, bytes, raw_bytes });
    }
}

pub(super) fn key() -> crate::rows::Key {
    shared_key(NAME)
}

impl Engine {
    /// With the version of its row, 0 where there is none.
    pub(super) async fn read_shared(&self) -> Result<(Shared, u64), StoreError> {
        let row = self.rows.get(Table::Users, &key()).await?;
        Ok(row.map_or_else(Default::default, |row| (Shared::decode(&row), row.version())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_back() {
        let shared = Shared {
            cold: ColdCount { segments: 1, messages: 2, bytes: 3, raw_bytes: 4 },
            kept_hot: 5,
            conversations: 6,
            cursor: Some("x".into()),
            last_run_at: Some(Timestamp::from_millis(7)),
            paused: Some("down".into()),
            swept_at: Some(Timestamp::from_millis(8)),
            orphans: [("a".to_owned(), 9)].into(),
        };
        assert_eq!(Shared::decode(&shared.item()), shared);
        assert_eq!(Shared::decode(&Item::new()), Shared::default());
    }
}
