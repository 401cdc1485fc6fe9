//! One job at a time, over all nodes: whoever has the lease. It is renewed between steps, and ends by itself when its
//! holder dies.
//!
//! A holder that is slow finds out when it renews, and looks at its clock before each write. Every write of a row is on a
//! condition besides, and no two jobs put objects under the same name; so what is late all the same does no harm. Only
//! deleting an object has no condition: see [`rows`](super::rows).

use std::time::{Duration, Instant};

use bluetick_archive::{SegmentName, jobs};
use bluetick_core::ports::ArchiveError;
use bluetick_core::time::Clock;
use bluetick_core::{ConversationId, Seq, StoreError, Timestamp};
use tokio::sync::MutexGuard;

use super::shared::{self, Shared};
use super::way::Way;
use crate::cells::{AT_ONCE as MOST_PLACES, Cell};
use crate::engine::Engine;
use crate::keyed::side_by_side;
use crate::memberships::RoomRow;
use crate::people::shared_key;
use crate::rows::{Item, Key, Only, Table, Written};

const LEASE: &str = "archive-lease";
/// A holder that was not heard of for so long is dead. By the clocks of two nodes, so with room for their difference.
const LEASE_MILLIS: i64 = 60_000;
const RENEW_AFTER: Duration = Duration::from_secs(10);
/// So long before its end nothing is begun any more.
const LEASE_MARGIN_MILLIS: i64 = 15_000;

/// Rows written side by side, and how many until the lease is looked at again.
const AT_ONCE: usize = 16;
const BETWEEN_LOOKS: usize = 128;

/// Rooms taken down at a time.
const ROOMS: usize = 100;

pub(super) struct Job<'a> {
    pub engine: &'a Engine,
    pub store: [u8; 8],
    /// What all nodes know, with what this job adds.
    pub shared: Shared,
    written: Shared,
    shared_version: u64,
    lease_version: u64,
    turn: Turn,
    renewed: Instant,
    /// The number of conversations in this walk that a restore keeps hot.
    pub kept_hot_seen: u64,
    /// The conversation that is being restored and already marked.
    pub restoring: Option<ConversationId>,
    _here: MutexGuard<'a, ()>,
}

/// How long the lease lasts, by the clock of its holder. A machine that was asleep has a clock that says so.
#[derive(Clone, Copy)]
struct Turn {
    until: Timestamp,
}

impl Turn {
    /// Asked right before whatever must not be done by two at once.
    fn must_last(self, clock: &dyn Clock) -> Result<(), ArchiveError> {
        let is_over = clock.now().plus_millis(LEASE_MARGIN_MILLIS) >= self.until;
        if is_over { Err(ArchiveError::Busy) } else { Ok(()) }
    }
}

/// A cell with the version of its row, on which every change of it depends.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub version: u64,
    pub cell: Cell,
}

impl Stored {
    /// Returns whether the row refers to this object.
    pub fn is_in(&self, name: &SegmentName) -> bool {
        self.cell.cold.as_ref().is_some_and(|cold| cold.place.is_in(name))
    }

    pub fn seq(&self) -> Seq {
        self.cell.seq()
    }
}

fn in_rows(error: impl Into<StoreError>) -> ArchiveError {
    ArchiveError::Store(error.into())
}

impl Engine {
    /// The turn of one job, until it is [ended](Job::end).
    pub(super) async fn begin_job(&self) -> Result<Job<'_>, ArchiveError> {
        if self.is_closed() {
            return Err(ArchiveError::Stopped);
        }
        let here = self.archive.job.try_lock().map_err(|_| ArchiveError::Busy)?;
        let (lease_version, turn) = self.take_lease().await?;
        let store = self.archive_tag().await?;
        let (shared, shared_version) = self.read_shared().await?;
        let (written, renewed) = (shared.clone(), Instant::now());
        Ok(Job {
            engine: self,
            store,
            shared,
            written,
            shared_version,
            lease_version,
            turn,
            renewed,
            kept_hot_seen: 0,
            restoring: None,
            _here: here,
        })
    }

    async fn take_lease(&self) -> Result<(u64, Turn), ArchiveError> {
        let key = shared_key(LEASE);
        let row = self.rows.get(Table::Users, &key).await.map_err(in_rows)?;
        if let Some(row) = &row {
            // What this very node left was a job that was dropped: there is only one here at a time.
            let is_own = row.find_text("node").is_some_and(|node| **node == *self.node.as_str());
            let is_over = row.find_number("until").is_none_or(|until| until < self.clock.now().millis());
            if !is_own && !is_over {
                return Err(ArchiveError::Busy);
            }
        }
        let version = row.as_ref().map_or(0, Item::version);
        let only = if row.is_some() { Only::IfVersion(version) } else { Only::IfAbsent };
        let (item, turn) = self.lease_item(version + 1);
        match self.rows.put(Table::Users, &key, &item, only).await.map_err(in_rows)? {
            Written::Done => Ok((version + 1, turn)),
            Written::Refused(_) => Err(ArchiveError::Busy),
        }
    }

    fn lease_item(&self, version: u64) -> (Item, Turn) {
        let until = self.clock.now().plus_millis(LEASE_MILLIS);
        let item = Item::new().text("node", self.node.as_str()).number("until", until.millis());
        (item.versioned(version), Turn { until })
    }
}

impl Job<'_> {
    /// Between the steps of a job.
    pub async fn go_on(&mut self) -> Result<(), ArchiveError> {
        if self.engine.is_closed() {
            return Err(ArchiveError::Stopped);
        }
        if self.renewed.elapsed() < RENEW_AFTER && self.turn.must_last(&*self.engine.clock).is_ok() {
            return Ok(());
        }
        let (item, turn) = self.engine.lease_item(self.lease_version + 1);
        let only = Only::IfVersion(self.lease_version);
        let written = self.engine.rows.put(Table::Users, &shared_key(LEASE), &item, only).await;
        if written.map_err(in_rows)? != Written::Done {
            return Err(ArchiveError::Busy);
        }
        (self.lease_version, self.turn) = (self.lease_version + 1, turn);
        self.renewed = Instant::now();
        self.write_shared().await
    }

    pub async fn write_shared(&mut self) -> Result<(), ArchiveError> {
        if self.shared == self.written {
            return Ok(());
        }
        let version = self.shared_version;
        let only = if version == 0 { Only::IfAbsent } else { Only::IfVersion(version) };
        let item = self.shared.item().versioned(version + 1);
        let written = self.engine.rows.put(Table::Users, &shared::key(), &item, only).await;
        if written.map_err(in_rows)? != Written::Done {
            return Err(ArchiveError::Busy);
        }
        self.shared_version += 1;
        self.written = self.shared.clone();
        Ok(())
    }

    /// Writes down what is known, and lets the next one in.
    pub async fn end<T>(mut self, outcome: Result<T, ArchiveError>) -> Result<T, ArchiveError> {
        let written = self.write_shared().await;
        let only = Only::IfVersion(self.lease_version);
        if let Err(error) = self.engine.rows.delete(Table::Users, &shared_key(LEASE), only).await {
            tracing::debug!(%error, "the turn of an archive job could not be given back; it ends by itself");
        }
        let value = outcome?;
        written?;
        Ok(value)
    }

    pub async fn must_exist(&self, id: ConversationId) -> Result<RoomRow, ArchiveError> {
        let row = self.engine.room_row(id).await?.filter(RoomRow::is_whole);
        row.ok_or(ArchiveError::NoSuchConversation)
    }

    /// Some conversations behind one, and behind which to go on. A row that cannot be read is told of and passed over.
    pub async fn rooms(&self, after: Option<&str>) -> Result<(Vec<RoomRow>, Option<String>), ArchiveError> {
        let after = after.map(Key::new);
        let scanned = self.engine.rows.scan(Table::Rooms, after.as_ref(), ROOMS).await.map_err(in_rows)?;
        let mut rooms = Vec::with_capacity(scanned.rows.len());
        for (key, item) in scanned.rows {
            match key.partition.parse().ok().map(|id| RoomRow::decode(id, &item)) {
                Some(Ok(room)) => rooms.extend(Some(room).filter(RoomRow::is_whole)),
                Some(Err(error)) => tracing::error!(%error, "a conversation is passed over by the archive"),
                None => tracing::error!(key = %key.partition, "a row is not of a conversation"),
            }
        }
        Ok((rooms, scanned.next.map(|key| key.partition)))
    }

    /// Cells from `first` on, of about so many places, and whether there may be more up to `last`, which is not above the
    /// head. None means that there are no more.
    pub async fn stored(
        &self,
        id: ConversationId,
        first: Seq,
        last: Seq,
        limit: usize,
    ) -> Result<(Vec<Stored>, bool), ArchiveError> {
        debug_assert!(last < Seq::MAX, "up to a head");
        let (mut first, mut places) = (first, limit as u64);
        while first <= last {
            let end = last.min(first.plus(places - 1));
            let found = self.engine.reader.range(id, (first, end), &[]).await?;
            if !found.is_empty() {
                let cells = found.iter().map(|(seq, item)| {
                    Ok(Stored { version: item.version(), cell: Cell::decode(id, *seq, item)? })
                });
                return Ok((cells.collect::<Result<_, StoreError>>()?, end < last));
            }
            first = end.next();
            places = (places * 2).min(MOST_PLACES);
        }
        Ok((Vec::new(), false))
    }

    /// All cells of a range that is not long, such as that of a segment.
    pub async fn all_stored(
        &self,
        id: ConversationId,
        first: Seq,
        last: Seq,
    ) -> Result<Vec<Stored>, ArchiveError> {
        let (mut all, mut next) = (Vec::new(), first);
        loop {
            let (cells, more) = self.stored(id, next, last, 1_000).await?;
            all.extend(cells);
            match all.last() {
                Some(stored) if more => next = stored.seq().next(),
                _ => return Ok(all),
            }
        }
    }

    /// Writes each cell over the version it was made from. Says of each whether it was still that.
    pub async fn change(&mut self, changed: &[Stored]) -> Result<Vec<bool>, ArchiveError> {
        let mut done = Vec::with_capacity(changed.len());
        for part in changed.chunks(BETWEEN_LOOKS) {
            self.go_on().await?;
            let (engine, turn) = (self.engine, self.turn);
            let writing = part.iter().map(|Stored { version, cell }| async move {
                let key = engine.keeper.key(cell.message.conversation, cell.seq()).await?;
                let (item, only) = (cell.item().versioned(version + 1), Only::IfVersion(*version));
                turn.must_last(&*engine.clock)?;
                let put = engine.rows.put(Table::Messages, &key, &item, only).await.map_err(in_rows)?;
                Ok::<_, ArchiveError>(put == Written::Done)
            });
            for written in side_by_side(AT_ONCE, writing.collect()).await {
                done.push(written?);
            }
        }
        Ok(done)
    }

    /// What this job puts from now on has other names than all that was ever put. Returns the revision of it.
    pub async fn raise_names(&mut self, id: ConversationId) -> Result<u32, ArchiveError> {
        let raise = |way: &mut Way| {
            way.has_cold = true;
            way.names_raised = way.names_raised.saturating_add(1);
        };
        let way = self.engine.change_way(id, raise).await?;
        way.map(|way| way.names_raised).ok_or(ArchiveError::NoSuchConversation)
    }

    pub async fn delete_object(&self, name: &SegmentName) -> Result<(), ArchiveError> {
        self.turn.must_last(&*self.engine.clock)?;
        jobs::object_archive(self)?.delete(name).await.map_err(ArchiveError::from)
    }
}
