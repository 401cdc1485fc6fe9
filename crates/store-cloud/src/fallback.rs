//! Sending without Redis: slower, and just as right.
//!
//! Whoever writes knows every cell below its own, because it has read them; so an id cannot be stored twice, whoever else
//! writes at the same time: the next place is either free or reveals what stands there. Holes are written into, since a
//! late writer loses its place and takes another one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bluetick_core::ports::{Append, Appended};
use bluetick_core::{ConversationId, Seq, StoreError, Timestamp, decide};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::append::{Way, is_same};
use crate::cells::{Cell, Placed};
use crate::engine::Engine;
use crate::hints::MessageKey;
use crate::seeding::SeedError;

/// What is known of conversations that were written to while Redis was away.
#[derive(Default)]
pub(crate) struct Ledgers {
    ledgers: Mutex<HashMap<ConversationId, Arc<tokio::sync::Mutex<Ledger>>>>,
    /// From where on Redis does not know what was stored here.
    unnoted: Mutex<HashMap<ConversationId, Seq>>,
    /// When Redis last did not answer.
    away_at: Mutex<Option<Instant>>,
    /// There is something to tell Redis.
    pub more: Notify,
}

/// Everything up to `dense` is known.
#[derive(Default)]
struct Ledger {
    read: bool,
    dense: Seq,
    last_at: Option<Timestamp>,
    ids: HashMap<MessageKey, Seq>,
}

impl Ledger {
    fn note(&mut self, cell: &Cell) {
        let message = &cell.message;
        self.dense = self.dense.max(message.seq);
        self.last_at = self.last_at.max(cell.last_at);
        self.ids.entry(MessageKey::new(&message.sender, &message.message_id)).or_insert(message.seq);
    }
}

impl Ledgers {
    fn of(&self, id: ConversationId) -> Arc<tokio::sync::Mutex<Ledger>> {
        let mut ledgers = self.ledgers.lock().expect("nothing panics while it holds the lock");
        Arc::clone(ledgers.entry(id).or_default())
    }

    pub fn was_away(&self) {
        *self.away_at.lock().expect("nothing panics while it holds the lock") = Some(Instant::now());
    }

    /// Redis was away a moment ago. What other nodes have stored without it may not be known there yet, so that an id
    /// could be given a second place.
    pub fn is_unsure(&self, grace: Duration) -> bool {
        let away_at = *self.away_at.lock().expect("nothing panics while it holds the lock");
        away_at.is_some_and(|at| at.elapsed() < grace)
    }

    pub fn has_unnoted(&self, id: ConversationId) -> bool {
        self.unnoted.lock().expect("nothing panics while it holds the lock").contains_key(&id)
    }

    pub fn unnoted(&self) -> Vec<ConversationId> {
        self.unnoted.lock().expect("nothing panics while it holds the lock").keys().copied().collect()
    }

    /// Before it is: whether the answer comes or not, Redis must hear of it.
    fn storing(&self, id: ConversationId, seq: Seq) {
        let mut unnoted = self.unnoted.lock().expect("nothing panics while it holds the lock");
        let first = unnoted.entry(id).or_insert(seq);
        *first = (*first).min(seq);
        drop(unnoted);
        self.more.notify_one();
    }

    fn noted(&self, id: ConversationId) {
        self.unnoted.lock().expect("nothing panics while it holds the lock").remove(&id);
        self.ledgers.lock().expect("nothing panics while it holds the lock").remove(&id);
    }
}

impl Engine {
    pub(crate) async fn send_without_hints(
        self: &Arc<Engine>,
        append: Append,
    ) -> Result<Appended, StoreError> {
        self.counters.fallback_sends.add(1);
        let id = append.conversation;
        let known = self.known_now(id).await?;
        known.member(&append.sender)?;
        let ledger = self.ledgers.of(id);
        let mut ledger = ledger.lock().await;
        if !ledger.read {
            let recent = self.recent(id).await?;
            ledger.dense = recent.settled;
            ledger.last_at = recent.last_at;
            ledger.ids = recent.ids.into_iter().map(|(key, seq, _)| (key, seq)).collect();
            ledger.read = true;
        }
        let deadline = Instant::now() + self.settings.send_deadline();
        let key = MessageKey::new(&append.sender, &append.message_id);
        while Instant::now() < deadline {
            for (seq, cell) in self.written(id, ledger.dense.next(), Seq::MAX).await? {
                // What lies above a hole is looked at again when the hole is filled; its ids count at once.
                let dense = if seq == ledger.dense.next() { seq } else { ledger.dense };
                ledger.note(&cell);
                ledger.dense = dense;
            }
            if let Some(seq) = ledger.ids.get(&key).copied()
                && let Some(cell) = self.cell(id, seq).await?
                && is_same(&cell, &append)
            {
                drop(ledger);
                return self.again(&cell, &append).await;
            }
            let seq = ledger.dense.next();
            let last_at = ledger.last_at.max(Some(append.received_at));
            let message = Arc::new(decide::place(append.clone(), &known.members, seq));
            let cell = Cell { message, last_at, departed: None, cold: None };
            let settled = ledger.dense;
            self.expect(&cell.message, append.origin, settled);
            let standing = self.standing_before(&known, &append.sender, seq).await?;
            self.ledgers.storing(id, seq);
            match self.place(&cell).await? {
                Placed::Done => {
                    ledger.note(&cell);
                    drop(ledger);
                    return self.stored(cell, &known, None, standing, settled, Way::WithoutHints).await;
                }
                Placed::Taken(taken) => ledger.note(&taken),
            }
        }
        Err(StoreError::NoAnswer("no place could be had in time".into()))
    }

    /// Redis is back: it is told what was stored without it.
    pub(crate) async fn note_fallback(&self, id: ConversationId) -> Result<(), StoreError> {
        let first = {
            let unnoted = self.ledgers.unnoted.lock().expect("nothing panics while it holds the lock");
            unnoted.get(&id).copied()
        };
        let Some(first) = first else { return Ok(()) };
        match self.hints.glance(id).await {
            Ok(Some(_)) => match self.seed_from(id, first).await {
                Ok(()) => self.ledgers.noted(id),
                Err(SeedError::Away(_)) => {}
                Err(SeedError::Store(error)) => return Err(error),
            },
            // It will be seeded whole.
            Ok(None) => self.ledgers.noted(id),
            Err(_) => {}
        }
        Ok(())
    }
}
