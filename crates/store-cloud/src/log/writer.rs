//! The writer of a log: one owner's state of a conversation, and the rules by which it adds rows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bluetick_core::{Seq, StoreError, UserId};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::fingerprints::{IdRows, WindowIds};
use super::row::ID_FIELDS;
use super::{Incarnation, LogEntry, LogParts, LogReader, LogRow, MembershipRow, PartitionMap, RowKind};
use crate::rows::{Item, Key, Only, Rows, RowsError, Table, Written};

/// Upper bound on the seqs that one grant reserves. Loading reads this many rows below the head to
/// find the newest grant, so a larger grant in the log would be missed.
pub const MAX_GRANT: u64 = 64;

/// Fewer queued messages than this are written one after the other: a grant costs a write and a
/// round trip of its own.
const MIN_GRANT: usize = 4;

/// The first and the longest pause before an unanswered put is repeated. They bound the load on
/// tables that do not answer.
const RETRY_PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// A rule that a log breaks on purpose, so that the model shows that it finds such bugs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    /// Passes over the empty rows of a foreign block without filling them.
    SkipsVoids,
    /// Writes messages into a foreign block.
    WritesInForeignBlock,
    /// Takes another seq after a put without an answer.
    NewSeqAfterTimeout,
    /// Does not change partitions at an epoch row.
    IgnoresEpochRows,
    /// Writes an epoch row into its own block.
    EpochInsideBlock,
    /// Reports a row above a gap.
    ReportsAboveGap,
    /// Takes a fingerprint for a proof, without reading the row.
    TrustsFingerprints,
    /// Writes the fingerprint row of a block that is not complete.
    IndexesIncompleteBlock,
    /// Loads without the ids of the window.
    LoadsWithoutIds,
    /// Writes a message into its block again after a void took its seq.
    ReusesSeqOfVoid,
    /// Does not decide again who may write after another owner has written.
    KeepsRights,
    /// Refuses a sender without reading the row above the head.
    RefusesOnLoadedState,
    /// Appends above a change of members that it has not applied.
    AppendsBeforeApplying,
    /// Fills the notices of another owner's change with voids.
    VoidsNotices,
}

/// The outcome of an append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    pub seq: Seq,
    /// The stored row, which another writer may have written for the same message.
    pub item: Item,
    /// Whether the message was stored before this call.
    pub duplicate: bool,
}

/// One owner's state of a conversation. Its methods need exclusive access; other owners may write
/// to the same conversation at the same time.
///
/// After an error the state may lack a row that was stored. Drop the log and load it again.
pub struct ConversationLog {
    pub(super) parts: LogParts,
    pub(super) reader: LogReader,
    pub(super) id_rows: IdRows,
    pub(super) map: PartitionMap,
    pub(super) ids: WindowIds,
    /// Every row up to here is known.
    pub(super) head: Seq,
    /// Rows up to here may exist or be reserved by another incarnation.
    pub(super) occupied_to: Seq,
    /// The newest grant.
    block: Option<Block>,
    /// The newest change of members, with the seq of its first row.
    membership: Option<(Seq, MembershipRow)>,
    /// The changes of members that were learned since [`ConversationLog::take_changes`].
    changes: Vec<(Seq, MembershipRow)>,
    /// The senders of the messages that were learned since [`ConversationLog::take_senders`].
    senders: Vec<(Seq, UserId)>,
    /// Whether this incarnation stored the row at the head.
    is_head_own: bool,
    /// The first seq of the block whose fingerprint row comes next.
    unindexed: Seq,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    end: Seq,
    holder: Incarnation,
}

/// The answer to a put at one seq.
enum Put {
    Stored,
    /// Another row is there. It may be the same message: from an attempt without an answer, or from
    /// another owner.
    Occupied(LogRow),
}

impl ConversationLog {
    pub(super) fn at(
        parts: LogParts,
        reader: LogReader,
        id_rows: IdRows,
        map: PartitionMap,
        ids: WindowIds,
        head: Seq,
    ) -> ConversationLog {
        let unindexed = id_rows.block_start(head.next());
        ConversationLog {
            parts,
            reader,
            id_rows,
            map,
            ids,
            head,
            occupied_to: head,
            block: None,
            membership: None,
            changes: Vec::new(),
            senders: Vec::new(),
            is_head_own: false,
            unindexed,
        }
    }

    pub fn head(&self) -> Seq {
        self.head
    }

    pub fn map(&self) -> &PartitionMap {
        &self.map
    }

    pub fn reader(&self) -> &LogReader {
        &self.reader
    }

    pub(crate) fn has(&self, bug: PlantedBug) -> bool {
        self.parts.planted == Some(bug)
    }

    /// Forgets the ids at and below the dedupe floor.
    pub fn forget_through(&mut self, floor: Seq) {
        self.ids.forget_through(floor.min(self.head));
    }

    /// Reads the row above the head, and all rows that follow it (R5). After it returns, the head
    /// is at least as high as any row that was stored before the call and has no gap below it.
    pub async fn confirm(&mut self) -> Result<(), StoreError> {
        while let Some(row) = self.reader.row(&self.map, self.head.next()).await? {
            self.learn(self.head.next(), &row, false);
            let (first, last) = (self.head.next(), self.head.plus(MAX_GRANT));
            let found = self.reader.range(&self.map, (first, last), ID_FIELDS).await?;
            self.take_prefix(found)?;
        }
        Ok(())
    }

    /// Records that every row up to `seq` is known now.
    pub(super) fn learn(&mut self, seq: Seq, row: &LogRow, is_own: bool) {
        assert_eq!(seq, self.head.next(), "rows are learned in order");
        self.head = seq;
        self.occupied_to = self.occupied_to.max(seq);
        self.is_head_own = is_own;
        self.push_id(row);
        match row.kind {
            RowKind::Grant { holder, count } => self.note_grant(seq, holder, count),
            RowKind::Epoch { partitions, block } if !self.has(PlantedBug::IgnoresEpochRows) => {
                self.map.begin(seq, partitions, block);
            }
            _ => {}
        }
        if let Some(change) = &row.membership {
            self.note_membership(seq, change.clone());
        }
        self.senders.extend(row.author().map(|sender| (seq, sender)));
    }

    pub(super) fn note_membership(&mut self, first: Seq, change: MembershipRow) {
        self.occupied_to = self.occupied_to.max(first.plus(change.row_count()).previous());
        self.changes.push((first, change.clone()));
        self.membership = Some((first, change));
    }

    /// Returns the changes of members that were learned since the last call. The caller applies
    /// them before it appends the next row, so that only the newest change may be unapplied when an
    /// owner dies. Applying a change again has no effect.
    pub fn take_changes(&mut self) -> Vec<(Seq, MembershipRow)> {
        std::mem::take(&mut self.changes)
    }

    /// Returns the senders of the messages that were learned since the last call, in order of seq.
    /// The first call after a load returns those above the newest complete block with a fingerprint
    /// row.
    pub fn take_senders(&mut self) -> Vec<(Seq, UserId)> {
        std::mem::take(&mut self.senders)
    }

    /// Returns whether [`ConversationLog::index_ids`] would write a row now.
    pub fn is_block_complete(&self) -> bool {
        self.unindexed.plus(self.parts.fingerprint_key.ids_per_row).previous() <= self.head
    }

    pub(super) fn note_grant(&mut self, seq: Seq, holder: Incarnation, count: u64) {
        let end = seq.plus(count.min(MAX_GRANT));
        self.block = Some(Block { end, holder });
        if holder != self.parts.incarnation && !self.has(PlantedBug::WritesInForeignBlock) {
            self.occupied_to = self.occupied_to.max(end);
        }
    }

    /// Fills each gap below rows that exist or are reserved (R3), and reads what is there.
    async fn settle(&mut self) -> Result<(), StoreError> {
        while self.head < self.occupied_to {
            let seq = self.head.next();
            if let Some(row) = self.reader.row(&self.map, seq).await? {
                self.learn(seq, &row, false);
                continue;
            }
            let fill = self.fill(seq)?;
            if self.has(PlantedBug::SkipsVoids) {
                self.learn(seq, &fill, true);
                continue;
            }
            match self.put(seq, &fill.item).await? {
                Put::Stored => self.learn(seq, &fill, true),
                Put::Occupied(row) => self.learn(seq, &row, false),
            }
        }
        Ok(())
    }

    /// Returns the row for a gap: the notice of a change of members, or a void.
    fn fill(&self, seq: Seq) -> Result<LogRow, StoreError> {
        let conversation = self.parts.conversation;
        if let Some((first, change)) = &self.membership
            && seq > *first
            && seq < first.plus(change.row_count())
            && !self.has(PlantedBug::VoidsNotices)
        {
            return Ok(LogRow::message(change.item(conversation, *first, seq)?));
        }
        tracing::info!(%conversation, %seq, "a gap is filled with a void");
        Ok(self.control(seq, RowKind::Void))
    }

    fn control(&self, seq: Seq, kind: RowKind) -> LogRow {
        LogRow::control(self.parts.conversation, seq, kind, self.parts.clock.now())
    }

    async fn put(&self, seq: Seq, item: &Item) -> Result<Put, StoreError> {
        let key = self.map.key(self.parts.conversation, seq);
        put(&self.parts.rows, &key, item, self.has(PlantedBug::NewSeqAfterTimeout)).await
    }

    /// Returns the row of this message if it is in the dedupe window.
    async fn find(&self, entry: &LogEntry) -> Result<Option<Appended>, StoreError> {
        if self.has(PlantedBug::LoadsWithoutIds) && !self.is_head_own {
            return Ok(None);
        }
        let fingerprint = self.parts.fingerprint_key.of(&entry.sender, &entry.message_id);
        for seq in self.ids.candidates(fingerprint) {
            let row = self.reader.row(&self.map, seq).await?;
            let row = row.ok_or_else(|| StoreError::Damaged(format!("no row at seq {seq}").into()))?;
            if row.is(entry) || self.has(PlantedBug::TrustsFingerprints) {
                return Ok(Some(Appended { seq, item: row.item, duplicate: true }));
            }
        }
        Ok(None)
    }

    /// Stores messages, each at most once in the dedupe window: [`ConversationLog::append_round`]
    /// until none is left.
    pub async fn append_all(
        &mut self,
        entries: &[LogEntry],
        report: &mut (dyn FnMut(usize, Appended) + Send),
    ) -> Result<(), StoreError> {
        let mut waiting: Vec<usize> = (0..entries.len()).collect();
        while !waiting.is_empty() {
            waiting = self.append_round(entries, waiting, report).await?;
        }
        Ok(())
    }

    /// Stores some of the waiting messages in the given order, and returns the rest. `report` gets
    /// the index and the outcome of each message that is stored, as soon as every row below is
    /// stored.
    ///
    /// The caller has applied the changes of members up to the head, and decided that each sender
    /// may write. If another writer stored rows meanwhile, the round ends without storing above
    /// them, so that the caller can decide again.
    pub async fn append_round(
        &mut self,
        entries: &[LogEntry],
        waiting: Vec<usize>,
        report: &mut (dyn FnMut(usize, Appended) + Send),
    ) -> Result<Vec<usize>, StoreError> {
        let mut new: Vec<usize> = Vec::with_capacity(waiting.len());
        let mut repeated = Vec::new();
        for index in waiting {
            if let Some(found) = self.find(&entries[index]).await? {
                report(index, found);
            } else if new.iter().any(|other| is_same(&entries[*other], &entries[index])) {
                repeated.push(index);
            } else {
                new.push(index);
            }
        }
        let is_granted = new.len() >= MIN_GRANT && self.is_head_own && self.head >= self.occupied_to;
        let mut rest = match new.first() {
            None => Vec::new(),
            Some(_) if is_granted => self.append_granted(entries, new, report).await?,
            Some(first) => match self.try_append(&entries[*first].item).await? {
                Some(appended) => {
                    report(*first, appended);
                    new.split_off(1)
                }
                None => new,
            },
        };
        rest.extend(repeated);
        rest.sort_unstable();
        Ok(rest)
    }

    /// Puts a row directly above the head. Returns `None` if the head has moved: the row may be
    /// among the rows that were read, or no longer be allowed.
    async fn try_append(&mut self, item: &Item) -> Result<Option<Appended>, StoreError> {
        let before = self.head;
        self.settle().await?;
        if self.head > before {
            return Ok(None);
        }
        let seq = self.head.next();
        let row = LogRow::decode(item.clone())?;
        match self.put(seq, item).await? {
            Put::Stored => {
                self.learn(seq, &row, true);
                Ok(Some(Appended { seq, item: row.item, duplicate: false }))
            }
            Put::Occupied(there) => {
                // The same change of members, from an attempt without an answer.
                let is_own = there.membership.is_some() && there.item == *item;
                self.learn(seq, &there, is_own);
                self.confirm().await?;
                Ok(is_own.then_some(Appended { seq, item: there.item, duplicate: false }))
            }
        }
    }

    /// Stores a change of members and its notices. The first row decides; after an error, another
    /// writer may complete the change. Returns the seq of the first row, or `None` if the head has
    /// moved, so that the caller decides again.
    pub async fn append_membership(&mut self, change: &MembershipRow) -> Result<Option<Seq>, StoreError> {
        let before = self.head;
        self.settle().await?;
        if self.head > before {
            return Ok(None);
        }
        let first = self.head.next();
        let item = change.item(self.parts.conversation, first, first)?;
        let stored = self.try_append(&item).await?;
        if stored.is_some() {
            self.settle().await?;
        }
        Ok(stored.map(|stored| stored.seq))
    }

    /// Reserves a block for these entries and writes them in parallel. Returns those that are not
    /// stored, because another writer met the block first.
    async fn append_granted(
        &mut self,
        entries: &[LogEntry],
        mut new: Vec<usize>,
        report: &mut (dyn FnMut(usize, Appended) + Send),
    ) -> Result<Vec<usize>, StoreError> {
        let mut rest = new.split_off(new.len().min(MAX_GRANT as usize));
        let grant = RowKind::Grant { holder: self.parts.incarnation, count: new.len() as u64 };
        let seq = self.head.next();
        let row = self.control(seq, grant);
        match self.put(seq, &row.item).await? {
            Put::Stored => self.learn(seq, &row, true),
            // The own grant, from an attempt without an answer.
            Put::Occupied(there) if there.kind == grant => self.learn(seq, &there, true),
            Put::Occupied(there) => {
                self.learn(seq, &there, false);
                self.confirm().await?;
                new.append(&mut rest);
                return Ok(new);
            }
        }
        let mut unstored = self.write_block(entries, new, report).await?;
        unstored.append(&mut rest);
        Ok(unstored)
    }

    async fn write_block(
        &mut self,
        entries: &[LogEntry],
        new: Vec<usize>,
        report: &mut (dyn FnMut(usize, Appended) + Send),
    ) -> Result<Vec<usize>, StoreError> {
        let first = self.head.next();
        let mut puts = FuturesUnordered::new();
        for (offset, index) in new.iter().enumerate() {
            let seq = first.plus(offset as u64);
            let item = match self.has(PlantedBug::EpochInsideBlock) && offset == 1 {
                true => self.control(seq, RowKind::Epoch { partitions: 2, block: 2 }).item,
                false => entries[*index].item.clone(),
            };
            let key = self.map.key(self.parts.conversation, seq);
            let rows = Arc::clone(&self.parts.rows);
            let gives_up = self.has(PlantedBug::NewSeqAfterTimeout);
            puts.push(async move { (seq, *index, put(&rows, &key, &item, gives_up).await, item) });
        }
        let mut answered: BTreeMap<Seq, (usize, LogRow, bool)> = BTreeMap::new();
        let mut unstored = Vec::new();
        while let Some((seq, index, outcome, item)) = puts.next().await {
            let (row, is_own) = match outcome? {
                Put::Stored => (LogRow::decode(item)?, true),
                Put::Occupied(row) => (row, false),
            };
            if self.has(PlantedBug::ReportsAboveGap) && row.is(&entries[index]) {
                report(index, Appended { seq, item: row.item.clone(), duplicate: false });
            }
            answered.insert(seq, (index, row, is_own));
            // Only rows without a gap below them count as stored.
            while let Some((index, row, is_own)) = answered.remove(&self.head.next()) {
                self.learn(self.head.next(), &row, is_own);
                if row.is(&entries[index]) || self.has(PlantedBug::ReusesSeqOfVoid) {
                    report(index, Appended { seq: self.head, item: row.item, duplicate: false });
                } else {
                    unstored.push(index);
                }
            }
        }
        if !unstored.is_empty() {
            // Another writer filled this block, and may have stored the messages above it.
            self.confirm().await?;
        }
        Ok(unstored)
    }

    /// Spreads the rows above over so many partitions, in blocks of `block` seqs (R4). Returns
    /// whether this call began the epoch.
    pub async fn begin_epoch(&mut self, partitions: u16, block: u64) -> Result<bool, StoreError> {
        assert!(partitions > 0 && block > 0, "an epoch has partitions and blocks");
        self.settle().await?;
        let (seq, kind) = (self.head.next(), RowKind::Epoch { partitions, block });
        let row = self.control(seq, kind);
        let began = match self.put(seq, &row.item).await? {
            Put::Stored => {
                self.learn(seq, &row, true);
                true
            }
            Put::Occupied(there) => {
                self.learn(seq, &there, false);
                there.kind == kind
            }
        };
        if began {
            self.index_epochs().await?;
        }
        Ok(began)
    }

    /// Adds the known epochs to the registry. Readers find an epoch that the registry lacks by its
    /// epoch row, so a failure here costs them reads and nothing else.
    async fn index_epochs(&self) -> Result<(), StoreError> {
        let key = Key::new(self.parts.conversation);
        loop {
            let there = self.parts.rows.get(Table::HotRegistry, &key).await?;
            let (known, only, version) = match &there {
                Some(row) => (PartitionMap::decode(row)?, Only::IfVersion(row.version()), row.version() + 1),
                None => (PartitionMap::default(), Only::IfAbsent, 1),
            };
            if known.includes(&self.map) {
                return Ok(());
            }
            let item = self.map.item(version);
            if self.parts.rows.put(Table::HotRegistry, &key, &item, only).await? == Written::Done {
                return Ok(());
            }
        }
    }

    /// Writes the fingerprint rows of blocks that are complete since the last call. Not needed for
    /// correctness: a load reads the rows of a block that has none.
    pub async fn index_ids(&mut self) -> Result<(), StoreError> {
        let length = self.parts.fingerprint_key.ids_per_row;
        if self.has(PlantedBug::IndexesIncompleteBlock)
            && let Some(mut some) = self.ids.block(self.unindexed, 1)
        {
            some.resize(usize::try_from(length).unwrap_or(1), super::Fingerprint::NONE);
            return self.id_rows.write(self.unindexed, &some).await;
        }
        while self.is_block_complete() {
            if let Some(block) = self.ids.block(self.unindexed, length) {
                self.id_rows.write(self.unindexed, &block).await?;
            }
            self.unindexed = self.unindexed.plus(length);
        }
        Ok(())
    }

    /// Raises the stored dedupe floor and forgets the ids below it. The caller has observed by
    /// monotonic time that every row up to `floor` has existed for the whole window.
    pub async fn raise_floor(&mut self, floor: Seq) -> Result<(), StoreError> {
        let floor = floor.min(self.head);
        self.id_rows.raise_floor(floor).await?;
        self.forget_through(floor);
        Ok(())
    }

    /// Returns the end of the newest block, for tests.
    pub fn block_end(&self) -> Option<(Seq, Incarnation)> {
        self.block.map(|block| (block.end, block.holder))
    }
}

fn is_same(one: &LogEntry, other: &LogEntry) -> bool {
    one.sender == other.sender && one.message_id == other.message_id
}

/// Puts a row if there is none, and repeats a put without an answer until the row shows whose it is
/// (R1).
async fn put(rows: &Arc<dyn Rows>, key: &Key, item: &Item, gives_up: bool) -> Result<Put, StoreError> {
    let mut pause = RETRY_PAUSES.0;
    loop {
        match rows.put(Table::Messages, key, item, Only::IfAbsent).await {
            Ok(Written::Done) => return Ok(Put::Stored),
            Ok(Written::Refused(Some(there))) => return Ok(Put::Occupied(LogRow::decode(there)?)),
            // Some engines do not say which row is there.
            Ok(Written::Refused(None)) => {
                if let Some(there) = rows.get(Table::Messages, key).await? {
                    return Ok(Put::Occupied(LogRow::decode(there)?));
                }
            }
            Err(RowsError::NoAnswer(_)) if gives_up => {
                return Ok(Put::Occupied(LogRow::message(item.clone())));
            }
            Err(RowsError::NoAnswer(reason)) => {
                tracing::warn!(reason, "a put has no answer; it is repeated at the same seq");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(RETRY_PAUSES.1);
            }
            Err(refused @ RowsError::Refused(_)) => return Err(refused.into()),
        }
    }
}
