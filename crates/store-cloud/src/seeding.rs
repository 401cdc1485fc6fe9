//! Telling Redis what the tables say, after it has forgotten or fallen behind.

use std::collections::HashMap;

use bluetick_core::{ConversationId, Seq, StoreError, Timestamp, UserId};

use crate::cells::IdRow;
use crate::engine::Engine;
use crate::hints::{Away, MessageKey, Seed};

/// What a walk over recent rows has found.
#[derive(Default)]
pub(crate) struct Recent {
    pub head: Seq,
    pub settled: Seq,
    pub last_at: Option<Timestamp>,
    pub ids: Vec<(MessageKey, Seq, Timestamp)>,
    pub sent: HashMap<UserId, Seq>,
    lowest: Option<Seq>,
    lowest_hole: Option<Seq>,
}

impl Recent {
    /// Rows come from the newest downward.
    fn note(&mut self, row: IdRow) {
        let above = self.lowest.map_or(row.seq, Seq::previous);
        if above > row.seq {
            self.lowest_hole = Some(row.seq.next());
        }
        self.lowest = Some(row.seq);
        self.head = self.head.max(row.seq);
        self.last_at = self.last_at.max(row.last_at);
        if !row.is_void {
            let key = MessageKey::new(&row.sender, &row.message_id);
            self.ids.push((key, row.seq, row.received_at));
            self.sent.entry(row.sender).or_insert(row.seq);
        }
        self.settled = self.lowest_hole.map_or(self.head, Seq::previous);
    }
}

impl Engine {
    /// Everything within the dedupe window, from the rows.
    pub(crate) async fn recent(&self, id: ConversationId) -> Result<Recent, StoreError> {
        let since = self.clock.now().plus_millis(-self.settings.dedupe_window_ms());
        let mut recent = Recent::default();
        self.each_id_downward(id, |row| {
            let is_old = row.last_at.is_some_and(|at| at < since);
            // One more than the window, so that there is a head and a settled mark in any case.
            recent.note(row);
            !is_old
        })
        .await?;
        Ok(recent)
    }

    /// Seeds a conversation that Redis knows nothing of. Only Redis being away again is an error for the caller.
    pub(crate) async fn seed(&self, id: ConversationId) -> Result<(), SeedError> {
        let _one = self.seeding.enter(&id).await;
        if self.hints.glance(id).await?.is_some() {
            return Ok(());
        }
        let recent = self.recent(id).await?;
        self.seed_with(id, recent).await
    }

    /// The counter is behind: tells of everything from `first` on.
    pub(crate) async fn seed_from(&self, id: ConversationId, first: Seq) -> Result<(), SeedError> {
        let _one = self.seeding.enter(&id).await;
        let mut recent = Recent::default();
        self.each_id_downward(id, |row| {
            let goes_on = row.seq > first;
            recent.note(row);
            goes_on
        })
        .await?;
        // Nothing below was looked at.
        recent.settled = Seq::ZERO;
        self.seed_with(id, recent).await
    }

    async fn seed_with(&self, id: ConversationId, recent: Recent) -> Result<(), SeedError> {
        self.counters.reseeds.add(1);
        let row = self.room_row(id).await?;
        let seed = Seed {
            conversation: id,
            head: recent.head,
            settled: recent.settled,
            last_at: recent.last_at.unwrap_or_default(),
            members_version: row.map_or(0, |row| row.members_version),
            ids: recent.ids,
            sent: recent.sent.into_iter().collect(),
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
