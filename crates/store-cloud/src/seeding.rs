//! Telling Redis what the tables say, after it has forgotten or fallen behind.

use std::collections::HashMap;
use std::sync::Mutex;

use bluetick_core::{ConversationId, Seq, StoreError, Timestamp, UserId};
use tokio::time::Instant;

use crate::append::WRITES_TAKE;
use crate::cells::IdRow;
use crate::engine::Engine;
use crate::hints::{Away, MessageKey, Seed};
use crate::rooms::NEWS_TAKE;

/// What a walk over recent rows has found.
#[derive(Default)]
pub(crate) struct Recent {
    pub head: Seq,
    /// Every cell up to here is written.
    pub dense: Seq,
    /// And was so long ago that everybody has been told.
    pub settled: Seq,
    pub last_at: Option<Timestamp>,
    pub ids: Vec<(MessageKey, Seq, Timestamp)>,
    pub sent: HashMap<UserId, Seq>,
    lowest: Option<Seq>,
    lowest_hole: Option<Seq>,
    lowest_young: Option<Seq>,
}

impl Recent {
    /// Rows come from the newest downward.
    fn note(&mut self, row: IdRow, long_ago: Timestamp) {
        let above = self.lowest.map_or(row.seq, Seq::previous);
        if above > row.seq {
            self.lowest_hole = Some(row.seq.next());
        }
        self.lowest = Some(row.seq);
        if row.received_at >= long_ago {
            self.lowest_young = Some(row.seq);
        }
        self.head = self.head.max(row.seq);
        self.last_at = self.last_at.max(row.last_at);
        if !row.is_void {
            let key = MessageKey::new(&row.sender, &row.message_id);
            self.ids.push((key, row.seq, row.received_at));
            self.sent.entry(row.sender).or_insert(row.seq);
        }
        self.dense = self.lowest_hole.map_or(self.head, Seq::previous);
        self.settled = self.dense.min(self.lowest_young.map_or(Seq::MAX, Seq::previous));
    }
}

/// Conversations that this node has seeded lately: when, and up to where every cell was written then.
#[derive(Default)]
pub(crate) struct Seeded(Mutex<HashMap<ConversationId, (Instant, Seq)>>);

impl Seeded {
    fn note(&self, id: ConversationId, at: Instant, settled: Seq) {
        let mut seeded = self.0.lock().expect("nothing panics while it holds the lock");
        seeded.retain(|_, (at, _)| at.elapsed() <= WRITES_TAKE);
        seeded.insert(id, (at, settled));
    }

    /// Up to where every cell was written, if what was being written then may not be there yet.
    pub fn lately(&self, id: ConversationId) -> Option<Seq> {
        let seeded = self.0.lock().expect("nothing panics while it holds the lock");
        seeded.get(&id).filter(|(at, _)| at.elapsed() <= WRITES_TAKE).map(|(_, settled)| *settled)
    }
}

impl Engine {
    /// Everything within the dedupe window, from the rows.
    pub(crate) async fn recent(&self, id: ConversationId) -> Result<Recent, StoreError> {
        let since = self.clock.now().plus_millis(-self.settings.dedupe_window_ms());
        let mut recent = Recent::default();
        let long_ago = self.long_ago();
        self.each_id_downward(id, |row| {
            let is_old = row.last_at.is_some_and(|at| at < since);
            // One more than the window, so that there is a head and a settled mark in any case.
            recent.note(row, long_ago);
            !is_old
        })
        .await?;
        Ok(recent)
    }

    /// What was received before this was told to everybody.
    pub(crate) fn long_ago(&self) -> Timestamp {
        self.clock.now().plus_millis(-(NEWS_TAKE.as_millis() as i64))
    }

    /// Seeds a conversation that Redis knows nothing of. Only Redis being away again is an error for the caller.
    pub(crate) async fn seed(&self, id: ConversationId) -> Result<(), SeedError> {
        let _one = self.seeding.enter(&id).await;
        if self.hints.glance(id).await?.is_some() {
            return Ok(());
        }
        self.seed_whole(id).await
    }

    async fn seed_whole(&self, id: ConversationId) -> Result<(), SeedError> {
        let read_at = Instant::now();
        let recent = self.recent(id).await?;
        self.seeded.note(id, read_at, recent.settled);
        self.seed_with(id, recent, read_at, true).await
    }

    /// The counter is behind: tells of everything from `first` on, or of all where nothing is known.
    pub(crate) async fn seed_from(&self, id: ConversationId, first: Seq) -> Result<(), SeedError> {
        let _one = self.seeding.enter(&id).await;
        let Some(glance) = self.hints.glance(id).await? else { return self.seed_whole(id).await };
        // Others may have stored without Redis as well and died before they could tell. The counter must not pass a place
        // whose id is not told with it, or that id is given a second one.
        let first = first.min(glance.reserved.next()).min(glance.settled.next());
        let read_at = Instant::now();
        let mut recent = Recent::default();
        let long_ago = self.long_ago();
        self.each_id_downward(id, |row| {
            let goes_on = row.seq > first;
            recent.note(row, long_ago);
            goes_on
        })
        .await?;
        // Nothing below was looked at.
        recent.settled = Seq::ZERO;
        self.seed_with(id, recent, read_at, false).await
    }

    async fn seed_with(
        &self,
        id: ConversationId,
        recent: Recent,
        read_at: Instant,
        is_whole: bool,
    ) -> Result<(), SeedError> {
        self.counters.reseeds.add(1);
        let row = self.room_row(id).await?;
        let seed = Seed {
            conversation: id,
            is_whole,
            read_at: Some(read_at),
            head: recent.head,
            settled: recent.settled,
            last_at: recent.last_at.unwrap_or_default(),
            members_version: row.map_or(0, |row| row.members_version),
            ids: recent.ids,
            sent: recent.sent.into_iter().collect(),
            registry: self.registry_copy(id),
        };
        Ok(self.hints.seed(&seed).await?)
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SeedError {
    #[error(transparent)]
    Away(#[from] Away),
    #[error(transparent)]
    Store(#[from] StoreError),
}
