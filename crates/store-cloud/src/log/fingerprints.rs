//! The message ids of the dedupe window, as keyed hashes.
//!
//! A fingerprint only nominates a row: the writer reads the row and compares it. A complete block
//! of [`IDS_PER_ROW`] rows has a fingerprint row, so that a takeover reads few rows for a long
//! window.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bluetick_core::{ConversationId, MessageId, Seq, StoreError, UserId};
use sha2::{Digest, Sha256};

use crate::rows::{Item, Key, Only, Query, Rows, Sort, SortRange, Table};

/// The number of rows that one fingerprint row covers. A smaller number costs more writes, a larger
/// one makes a takeover read more message rows.
pub const IDS_PER_ROW: u64 = 1_000;

/// A keyed hash of a sender and a message id. [`Fingerprint::NONE`] stands for a row without an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub u32);

impl Fingerprint {
    pub const NONE: Fingerprint = Fingerprint(0);
}

/// The secret of the hash: without it, nobody can choose ids that collide.
#[derive(Clone)]
pub struct FingerprintKey {
    pub secret: [u8; 32],
    /// Keeps only these bits. Tests use few bits, so that ids collide all the time.
    pub mask: u32,
    /// The number of rows that one fingerprint row covers: [`IDS_PER_ROW`], and less in tests.
    pub ids_per_row: u64,
}

impl FingerprintKey {
    pub fn new(secret: [u8; 32]) -> FingerprintKey {
        FingerprintKey { secret, mask: u32::MAX, ids_per_row: IDS_PER_ROW }
    }

    pub fn of(&self, sender: &UserId, message_id: &MessageId) -> Fingerprint {
        self.of_text(sender.as_str(), &message_id.to_string())
    }

    fn of_text(&self, sender: &str, message_id: &str) -> Fingerprint {
        let length = u32::try_from(sender.len()).expect("user ids are short").to_be_bytes();
        let hash = Sha256::new()
            .chain_update(self.secret)
            .chain_update(length)
            .chain_update(sender)
            .chain_update(message_id)
            .finalize();
        let bits = u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]);
        Fingerprint((bits & self.mask).max(1))
    }

    /// Returns the fingerprint of a stored row, [`Fingerprint::NONE`] for voids and control rows.
    pub fn of_row(&self, row: &super::LogRow) -> Fingerprint {
        let (sender, id) = (row.item.find_text("sender_id"), row.item.find_text("message_id"));
        match (row.kind, sender, id) {
            (super::RowKind::Message, Some(sender), Some(id)) => self.of_text(sender, id),
            _ => Fingerprint::NONE,
        }
    }
}

/// The fingerprints of all rows between the dedupe floor and the head.
pub struct WindowIds {
    by_fingerprint: HashMap<Fingerprint, Vec<Seq>>,
    /// The same in order of seq. The first one belongs to `first`.
    in_order: VecDeque<Fingerprint>,
    first: Seq,
}

impl WindowIds {
    pub fn starting_at(first: Seq) -> WindowIds {
        WindowIds { by_fingerprint: HashMap::new(), in_order: VecDeque::new(), first }
    }

    /// Adds the row above the newest one.
    pub fn push(&mut self, fingerprint: Fingerprint) {
        let seq = self.first.plus(self.in_order.len() as u64);
        self.in_order.push_back(fingerprint);
        if fingerprint != Fingerprint::NONE {
            self.by_fingerprint.entry(fingerprint).or_default().push(seq);
        }
    }

    /// Returns the seqs that may hold the id, the newest first.
    pub fn candidates(&self, fingerprint: Fingerprint) -> Vec<Seq> {
        let seqs = self.by_fingerprint.get(&fingerprint);
        seqs.map_or_else(Vec::new, |seqs| seqs.iter().rev().copied().collect())
    }

    /// Returns the fingerprints of a block, if this window holds all of it.
    pub fn block(&self, first: Seq, length: u64) -> Option<Vec<Fingerprint>> {
        let skip = usize::try_from(first.get().checked_sub(self.first.get())?).ok()?;
        let length = usize::try_from(length).ok()?;
        (self.in_order.len() >= skip + length)
            .then(|| self.in_order.iter().skip(skip).take(length).copied().collect())
    }

    /// Forgets the ids at and below the dedupe floor.
    pub fn forget_through(&mut self, floor: Seq) {
        while self.first <= floor {
            let Some(fingerprint) = self.in_order.pop_front() else { break };
            if let Some(seqs) = self.by_fingerprint.get_mut(&fingerprint) {
                seqs.retain(|seq| *seq > floor);
                if seqs.is_empty() {
                    self.by_fingerprint.remove(&fingerprint);
                }
            }
            self.first = self.first.next();
        }
    }
}

/// The partition of the fingerprint rows and of the dedupe floor.
fn partition(conversation: ConversationId) -> String {
    format!("{conversation}#ids")
}

const FINGERPRINTS: &str = "fingerprints";
const FLOOR: &str = "floor";
const LENGTH: &str = "length";

/// The fingerprint rows of one conversation, and its dedupe floor.
#[derive(Clone)]
pub struct IdRows {
    rows: Arc<dyn Rows>,
    conversation: ConversationId,
    length: u64,
}

impl IdRows {
    pub fn new(rows: Arc<dyn Rows>, conversation: ConversationId, length: u64) -> IdRows {
        IdRows { rows, conversation, length }
    }

    /// Returns the dedupe floor: ids at and below it have expired. It never moves backwards.
    pub async fn floor(&self) -> Result<Seq, StoreError> {
        let row = self.rows.get(Table::Messages, &Key::number(partition(self.conversation), 0)).await?;
        Ok(row.map_or(Seq::ZERO, |row| Seq::new(row.find_count(FLOOR))))
    }

    /// Raises the stored floor. The caller has observed by monotonic time that every row up to
    /// `floor` has existed for the whole dedupe window.
    pub async fn raise_floor(&self, floor: Seq) -> Result<(), StoreError> {
        let key = Key::number(partition(self.conversation), 0);
        loop {
            let there = self.rows.get(Table::Messages, &key).await?;
            let (stored, only, version) = match &there {
                Some(row) => (row.find_count(FLOOR), Only::IfVersion(row.version()), row.version() + 1),
                None => (0, Only::IfAbsent, 1),
            };
            if stored >= floor.get() {
                return Ok(());
            }
            let item = Item::new().count(FLOOR, floor.get()).versioned(version);
            if self.rows.put(Table::Messages, &key, &item, only).await? == crate::rows::Written::Done {
                return Ok(());
            }
        }
    }

    /// Returns the fingerprints of each complete block that has a row, from the block of `from` on,
    /// by the first seq of the block.
    pub async fn read(&self, from: Seq) -> Result<Vec<(Seq, Vec<Fingerprint>)>, StoreError> {
        let mut found = Vec::new();
        let mut number = (from.get().max(1) - 1) / self.length + 1;
        loop {
            let query = Query {
                table: Table::Messages,
                partition: partition(self.conversation),
                range: SortRange::Numbers(number, i64::MAX as u64),
                descending: false,
                limit: 100,
                fields: &[],
            };
            let slice = self.rows.query(query).await?;
            for (sort, item) in &slice.rows {
                let Sort::Number(block) = sort else { continue };
                number = block + 1;
                // Rows of another length come from another configuration; message rows replace
                // them.
                if item.find_count(LENGTH) == self.length {
                    let first = Seq::new((block - 1) * self.length + 1);
                    found.push((first, decode(item.get_text(FINGERPRINTS)?, self.length)?));
                }
            }
            if !slice.more {
                return Ok(found);
            }
        }
    }

    /// Writes the row of a complete block. A row that exists stays: it says the same.
    pub async fn write(&self, first: Seq, fingerprints: &[Fingerprint]) -> Result<(), StoreError> {
        let key = Key::number(partition(self.conversation), (first.get() - 1) / self.length + 1);
        let item = Item::new().text(FINGERPRINTS, encode(fingerprints)).count(LENGTH, self.length);
        self.rows.put(Table::Messages, &key, &item, Only::IfAbsent).await?;
        Ok(())
    }

    /// Returns the first seq of the block that contains `seq`.
    pub fn block_start(&self, seq: Seq) -> Seq {
        Seq::new((seq.get().max(1) - 1) / self.length * self.length + 1)
    }
}

/// Four bytes each, in lower-case hexadecimal.
fn encode(fingerprints: &[Fingerprint]) -> String {
    fingerprints.iter().map(|fingerprint| format!("{:08x}", fingerprint.0)).collect()
}

fn decode(text: &str, length: u64) -> Result<Vec<Fingerprint>, StoreError> {
    let damaged = || StoreError::Damaged("a fingerprint row".into());
    if !text.is_ascii() || text.len() as u64 != length * 8 {
        return Err(damaged());
    }
    let parse = |at: usize| u32::from_str_radix(&text[at..at + 8], 16).map(Fingerprint);
    (0..text.len()).step_by(8).map(parse).collect::<Result<_, _>>().map_err(|_| damaged())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::memory::MemoryRows;

    #[test]
    fn window_forgets_ids_at_and_below_the_floor() {
        let mut ids = WindowIds::starting_at(Seq::FIRST);
        [7, 8, 7, 0, 9].into_iter().for_each(|bits| ids.push(Fingerprint(bits)));
        assert_eq!(ids.candidates(Fingerprint(7)), [Seq::new(3), Seq::new(1)]);
        assert_eq!(ids.candidates(Fingerprint::NONE), []);
        ids.forget_through(Seq::new(2));
        assert_eq!(ids.candidates(Fingerprint(7)), [Seq::new(3)]);
        assert_eq!(ids.candidates(Fingerprint(8)), []);
        assert_eq!(ids.block(Seq::new(3), 2), Some(vec![Fingerprint(7), Fingerprint::NONE]));
        assert_eq!(ids.block(Seq::new(2), 2), None, "partly forgotten");
        assert_eq!(ids.block(Seq::new(5), 2), None, "not complete yet");
    }

    #[tokio::test]
    async fn fingerprint_rows_are_read_from_the_block_of_the_floor_on() {
        let rows = IdRows::new(Arc::new(MemoryRows::default()), ConversationId::group([7; 15]), 2);
        let block = |bits| vec![Fingerprint(bits), Fingerprint(u32::MAX)];
        for (first, bits) in [(1, 10), (3, 11), (5, 12)] {
            rows.write(Seq::new(first), &block(bits)).await.unwrap();
        }
        rows.write(Seq::new(3), &block(99)).await.unwrap();
        let found = rows.read(Seq::new(4)).await.unwrap();
        assert_eq!(found, [(Seq::new(3), block(11)), (Seq::new(5), block(12))]);
    }

    #[tokio::test]
    async fn floor_never_moves_backwards() {
        let rows = IdRows::new(Arc::new(MemoryRows::default()), ConversationId::group([7; 15]), 2);
        for (raised, expected) in [(5, 5), (3, 5), (8, 8)] {
            rows.raise_floor(Seq::new(raised)).await.unwrap();
            assert_eq!(rows.floor().await.unwrap(), Seq::new(expected));
        }
        assert_eq!(rows.read(Seq::FIRST).await.unwrap(), [], "the floor is no fingerprint row");
    }
}
