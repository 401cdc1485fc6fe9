//! Loading: the head, the partition map and the ids of the dedupe window.

use std::collections::BTreeMap;
use std::sync::Arc;

use bluetick_core::time::Clock;
use bluetick_core::{ConversationId, Seq, StoreError};

use super::fingerprints::{IdRows, WindowIds};
use super::row::ID_FIELDS;
use super::writer::{ConversationLog, MAX_GRANT, PlantedBug};
use super::{Fingerprint, FingerprintKey, Incarnation, LogReader, LogRow, PartitionMap, RowKind};
use crate::rows::{Item, Rows};

/// The ports and the settings of a log.
#[derive(Clone)]
pub struct LogParts {
    pub rows: Arc<dyn Rows>,
    pub conversation: ConversationId,
    /// Drawn for this load. Never the one of an earlier load.
    pub incarnation: Incarnation,
    pub fingerprint_key: FingerprintKey,
    pub clock: Arc<dyn Clock>,
    /// A rule that this log breaks. Only the model of the protocol sets it.
    pub planted: Option<PlantedBug>,
}

/// The number of rows that one step of a load reads.
const LOAD_ROWS: u64 = 1_000;

impl ConversationLog {
    /// Reads what a writer must know: the partition map, the ids above the dedupe floor, and every
    /// row up to the first gap.
    pub async fn load(parts: LogParts) -> Result<ConversationLog, StoreError> {
        let reader = LogReader::new(Arc::clone(&parts.rows), parts.conversation);
        let id_rows =
            IdRows::new(Arc::clone(&parts.rows), parts.conversation, parts.fingerprint_key.ids_per_row);
        let floor = id_rows.floor().await?;
        let first = id_rows.block_start(floor.next());

        let mut ids = WindowIds::starting_at(first);
        let mut head = first.previous();
        for (start, fingerprints) in id_rows.read(first).await? {
            // A block without a row in between is read from the message rows below.
            if start != head.next() {
                break;
            }
            head = head.plus(fingerprints.len() as u64);
            fingerprints.into_iter().for_each(|fingerprint| ids.push(fingerprint));
        }
        // After the fingerprint rows: the map must have each epoch row in the blocks that they
        // cover.
        let mut map = PartitionMap::default();
        let newest = reader.newest(&mut map).await?.map_or(Seq::ZERO, |(seq, _)| seq);
        let mut log = ConversationLog::at(parts, reader, id_rows, map, ids, head);
        // The newest grant may be below the complete blocks, and reserve seqs above them.
        log.find_block(head).await?;
        log.read_through(newest).await?;
        log.occupied_to = log.occupied_to.max(newest);
        log.forget_through(floor);
        Ok(log)
    }

    /// Looks for a grant or a change of members whose rows reach above `head`.
    async fn find_block(&mut self, head: Seq) -> Result<(), StoreError> {
        if head == Seq::ZERO {
            return Ok(());
        }
        let first = head.minus(MAX_GRANT).max(Seq::FIRST);
        let mut began_below = None;
        for (seq, item) in self.reader.range(&self.map, (first, head), ID_FIELDS).await? {
            let row = LogRow::decode(item)?;
            if let RowKind::Grant { holder, count } = row.kind {
                self.note_grant(seq, holder, count);
            }
            began_below = row.membership_first().filter(|began| *began < first);
            if let Some(change) = row.membership {
                self.note_membership(seq, change);
            }
        }
        if let Some(began) = began_below
            && let Some(row) = self.reader.row(&self.map, began).await?
            && let Some(change) = row.membership
        {
            self.note_membership(began, change);
        }
        Ok(())
    }

    /// Reads rows above the head, up to the first gap or up to `last`.
    async fn read_through(&mut self, last: Seq) -> Result<(), StoreError> {
        while self.head < last {
            let end = last.min(self.head.plus(LOAD_ROWS));
            let found = self.reader.range(&self.map, (self.head.next(), end), ID_FIELDS).await?;
            if !self.take_prefix(found)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Learns the rows that follow the head without a gap. Returns whether there was at least one.
    pub(super) fn take_prefix(&mut self, found: BTreeMap<Seq, Item>) -> Result<bool, StoreError> {
        let before = self.head;
        if let Some((newest, _)) = found.last_key_value() {
            self.occupied_to = self.occupied_to.max(*newest);
        }
        for (seq, item) in found {
            if seq != self.head.next() {
                break;
            }
            let row = LogRow::decode(item)?;
            let is_epoch = matches!(row.kind, RowKind::Epoch { .. });
            self.learn(seq, &row, false);
            if is_epoch {
                // The rows above an epoch row are elsewhere.
                break;
            }
        }
        Ok(self.head > before)
    }

    pub(super) fn push_id(&mut self, row: &LogRow) -> Fingerprint {
        let fingerprint = self.parts.fingerprint_key.of_row(row);
        self.ids.push(fingerprint);
        fingerprint
    }
}
