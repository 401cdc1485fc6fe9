//! Rows that follow from messages, written once in a while: inbox rows, and the status rows of those who sent.
//!
//! Nobody relies on them alone. An inbox row gives the order of the inbox after Redis was lost; what an entry shows is
//! read from the messages.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bluetick_core::{ConversationId, StoreError, Timestamp, UserId};
use tokio::time::{Instant, sleep};

use crate::append::LARGE;
use crate::cells::Cell;
use crate::engine::Engine;
use crate::inbox::{decode_preferences, inbox_item};
use crate::keyed::side_by_side;
use crate::memberships::Known;
use crate::rows::{Item, Key, Only, Table, Written};

#[derive(Default)]
pub(crate) struct Flush(Mutex<HashMap<ConversationId, Dirty>>);

/// The newest message that the inbox rows of a conversation do not show yet.
#[derive(Clone)]
struct Dirty {
    cell: Cell,
    known: Known,
    since: Instant,
}

/// Conversations written side by side.
const CONVERSATIONS: usize = 32;
/// Rows of one written side by side.
const AT_ONCE: usize = 16;
/// Inboxes moved in one go.
const INBOXES: usize = 500;

impl Flush {
    fn lock(&self) -> MutexGuard<'_, HashMap<ConversationId, Dirty>> {
        self.0.lock().expect("nothing panics while it holds the lock")
    }

    pub fn note_message(&self, cell: &Cell, known: &Known) {
        self.note(Dirty { cell: cell.clone(), known: known.clone(), since: Instant::now() });
    }

    fn note(&self, dirty: Dirty) {
        let mut all = self.lock();
        match all.get_mut(&dirty.known.facts.id) {
            Some(there) if there.cell.seq() < dirty.cell.seq() => {
                *there = Dirty { since: there.since.min(dirty.since), ..dirty };
            }
            Some(_) => {}
            None => {
                all.insert(dirty.known.facts.id, dirty);
            }
        }
    }

    /// The rows of a large group cost more, so they wait longer.
    fn take_due(&self, interval: Duration, all_of_it: bool) -> Vec<Dirty> {
        let mut all = self.lock();
        let is_due = |dirty: &Dirty| {
            let share = u32::try_from(dirty.known.members.len() / LARGE).unwrap_or(u32::MAX).max(1);
            all_of_it || dirty.since.elapsed() >= interval.saturating_mul(share)
        };
        let due: Vec<_> = all.iter().filter(|(_, dirty)| is_due(dirty)).map(|(id, _)| *id).collect();
        due.iter().filter_map(|id| all.remove(id)).collect()
    }

    /// Conversations of this user whose rows, or whose places in Redis, are behind.
    pub fn behind_for(&self, user: &UserId, only_large: bool) -> Vec<(ConversationId, Timestamp)> {
        let all = self.lock();
        let theirs = all.values().filter(|dirty| {
            (!only_large || dirty.known.members.len() > LARGE) && dirty.known.members.contains(user)
        });
        theirs.filter_map(|dirty| Some((dirty.known.facts.id, dirty.cell.last_at?))).collect()
    }
}

pub(crate) async fn run(engine: Arc<Engine>) {
    let interval = engine.settings.flush_interval();
    loop {
        sleep(interval / 2).await;
        engine.flush_due(interval, false).await;
    }
}

impl Engine {
    pub(crate) async fn flush_everything(&self) {
        self.flush_due(Duration::ZERO, true).await;
    }

    async fn flush_due(&self, interval: Duration, all_of_it: bool) {
        let due = self.flush.take_due(interval, all_of_it).into_iter().map(|dirty| async move {
            if let Err(error) = self.flush_inboxes(&dirty).await {
                tracing::debug!(conversation = %dirty.known.facts.id, %error, "inbox rows wait");
                self.flush.note(dirty);
            }
        });
        side_by_side(CONVERSATIONS, due.collect()).await;
        let member_states = self.member_states.dirty();
        let writing = member_states.into_iter().map(|whose| async move {
            if let Err(error) = self.flush_standing(&whose).await {
                tracing::debug!(conversation = %whose.0, %error, "a status row waits");
            }
        });
        side_by_side(AT_ONCE, writing.collect()).await;
    }

    pub(crate) async fn write_inboxes(&self, cell: &Cell, known: &Known) -> Result<(), StoreError> {
        let dirty = Dirty { cell: cell.clone(), known: known.clone(), since: Instant::now() };
        self.flush_inboxes(&dirty).await
    }

    async fn flush_inboxes(&self, dirty: &Dirty) -> Result<(), StoreError> {
        let id = dirty.known.facts.id;
        let users: Vec<_> = dirty.known.members.iter().map(|member| member.user.clone()).collect();
        if users.len() > LARGE
            && let Some(last_at) = dirty.cell.last_at
        {
            for part in users.chunks(INBOXES) {
                let _may_fail = self.hints.touch(id, last_at, part).await;
            }
        }
        let keys = users.iter().map(|user| (Table::Conversations, Key::text(user, id)));
        let rows = self.rows.get_many(keys.collect()).await?;
        // Somebody without a row has left meanwhile, or is just being added.
        let there = users.iter().zip(rows).filter_map(|(user, row)| Some((user, row?)));
        let writing = there.map(|(user, row)| self.flush_inbox(dirty, user, row)).collect();
        side_by_side(AT_ONCE, writing).await.into_iter().collect()
    }

    async fn flush_inbox(&self, dirty: &Dirty, user: &UserId, mut row: Item) -> Result<(), StoreError> {
        let seq = dirty.cell.seq();
        let key = Key::text(user, dirty.known.facts.id);
        while row.find_count("last_seq") < seq.get() {
            let before = Timestamp::from_millis(row.find_number("last_at").unwrap_or(i64::MIN));
            let last_at = dirty.cell.last_at.map_or(before, |at| at.max(before));
            let version = row.version();
            let item = inbox_item(decode_preferences(&row), last_at, Some(&dirty.cell), version + 1);
            match self.rows.put(Table::Conversations, &key, &item, Only::IfVersion(version)).await? {
                Written::Done | Written::Refused(None) => return Ok(()),
                Written::Refused(Some(newer)) => row = newer,
            }
        }
        Ok(())
    }
}
