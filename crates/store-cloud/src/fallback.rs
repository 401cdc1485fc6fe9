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

use crate::append::{Way, heard, is_same};
use crate::cells::{Cell, Placed};
use crate::engine::Engine;
use crate::hints::MessageKey;
use crate::seeding::SeedError;

/// What is known of conversations that were written to while Redis was away.
#[derive(Default)]
pub(crate) struct Ledgers {
    ledgers: Mutex<HashMap<ConversationId, Arc<tokio::sync::Mutex<Ledger>>>>,
    unnoted: Mutex<HashMap<ConversationId, Unnoted>>,
    /// When Redis did not answer last, here or, as it has been told, somewhere.
    away: Mutex<Option<Instant>>,
    /// There is something to tell Redis.
    pub more: Notify,
}

/// What Redis does not know of a conversation.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Unnoted {
    /// From where on.
    first: Seq,
    /// How many were stored; tells whether there was another one meanwhile.
    count: u64,
}

/// Everything up to `dense` is known.
#[derive(Default)]
struct Ledger {
    read: bool,
    settled: Seq,
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
        *self.away.lock().expect("nothing panics while it holds the lock") = Some(Instant::now());
    }

    /// Redis was away a moment ago. What other nodes have stored without it may not be known there yet, so that an id
    /// could be given a second place.
    pub fn is_unsure(&self, grace: Duration) -> bool {
        let away = *self.away.lock().expect("nothing panics while it holds the lock");
        away.is_some_and(|last| last.elapsed() < grace)
    }

    pub fn has_unnoted(&self, id: ConversationId) -> bool {
        self.unnoted.lock().expect("nothing panics while it holds the lock").contains_key(&id)
    }

    pub fn unnoted(&self) -> Vec<ConversationId> {
        self.unnoted.lock().expect("nothing panics while it holds the lock").keys().copied().collect()
    }

    /// Before it is: whether the answer comes or not, Redis must hear of it.
    pub fn storing(&self, id: ConversationId, seq: Seq) {
        let mut unnoted = self.unnoted.lock().expect("nothing panics while it holds the lock");
        let of_it = unnoted.entry(id).or_insert(Unnoted { first: seq, count: 0 });
        *of_it = Unnoted { first: of_it.first.min(seq), count: of_it.count + 1 };
        drop(unnoted);
        self.more.notify_one();
    }

    fn noted(&self, id: ConversationId, what: Unnoted) {
        let mut unnoted = self.unnoted.lock().expect("nothing panics while it holds the lock");
        if unnoted.get(&id) == Some(&what) {
            unnoted.remove(&id);
        }
    }

    /// Nobody sends without Redis any more.
    pub fn close(&self) {
        let mut ledgers = self.ledgers.lock().expect("nothing panics while it holds the lock");
        ledgers.retain(|_, ledger| Arc::strong_count(ledger) > 1);
    }
}

impl Engine {
    /// `None` when it is not done without Redis any more.
    pub(crate) async fn send_without_hints(
        self: &Arc<Engine>,
        append: &Append,
    ) -> Result<Option<Appended>, StoreError> {
        let id = append.conversation;
        if !self.until_all_have_noticed(append).await? {
            return Ok(None);
        }
        self.counters.fallback_sends.add(1);
        let known = self.known_now(id).await?;
        known.member(&append.sender)?;
        let ledger = self.ledgers.of(id);
        let mut ledger = ledger.lock().await;
        if !ledger.read {
            let recent = self.recent(id).await?;
            ledger.dense = recent.dense;
            ledger.settled = recent.settled;
            ledger.last_at = recent.last_at;
            ledger.ids = recent.ids.into_iter().map(|(key, seq, _)| (key, seq)).collect();
            ledger.read = true;
        }
        let deadline = Instant::now() + self.settings.send_deadline();
        let key = MessageKey::new(&append.sender, &append.message_id);
        while Instant::now() < deadline {
            for (seq, cell) in self.written_since(id, ledger.dense.next()).await? {
                // What lies above a hole is looked at again when the hole is filled; its ids count at once.
                let dense = if seq == ledger.dense.next() { seq } else { ledger.dense };
                ledger.note(&cell);
                ledger.dense = dense;
            }
            if let Some(seq) = ledger.ids.get(&key).copied()
                && let Some(cell) = self.cell(id, seq).await?
                && is_same(&cell, append)
            {
                let settled = ledger.settled;
                drop(ledger);
                return self.again(cell, append, &known, settled).await.map(Some);
            }
            let seq = ledger.dense.next();
            let last_at = ledger.last_at.max(Some(append.received_at));
            let message = Arc::new(decide::place(append.clone(), &known.members, seq));
            let cell = Cell { message, last_at, departed: None, cold: None };
            let settled = ledger.settled;
            let member_state = self.standing_before(&known, &append.sender, seq).await?;
            if !self.may_store_without_redis(append) {
                return Ok(None);
            }
            self.ledgers.storing(id, seq);
            let message = Arc::clone(&cell.message);
            let expectation = self.expect(&message, &known, append.origin, settled);
            let outcome = match self.place(&cell).await {
                Ok(Placed::Done) => {
                    ledger.note(&cell);
                    drop(ledger);
                    // Once more: whoever told Redis meanwhile did not find it yet.
                    self.ledgers.storing(id, seq);
                    // Redis may be away from this node alone. Others who do not hear of the id at once could give it a
                    // second place.
                    self.note_fallback(id).await?;
                    // Nobody compares versions without Redis, so the members may have changed. The message stands.
                    let now = self.known_now(id).await?;
                    let known = if now.members.contains(&append.sender) { now } else { known };
                    let stored =
                        self.stored(cell, &known, None, member_state, settled, Way::WithoutHints).await;
                    if stored.is_err() {
                        self.look_after(append, seq, settled);
                    }
                    return heard(&expectation, &message, stored.map(Some));
                }
                Ok(Placed::Taken(taken)) if is_same(&taken, append) => {
                    ledger.note(&taken);
                    drop(ledger);
                    let again = self.again(taken, append, &known, settled).await;
                    return heard(&expectation, &message, again.map(Some));
                }
                Ok(Placed::Taken(taken)) => {
                    ledger.note(&taken);
                    Ok(None)
                }
                Err(error) => {
                    self.look_after(append, seq, settled);
                    Err(error)
                }
            };
            if let Some(appended) = heard(&expectation, &message, outcome)? {
                return Ok(Some(appended));
            }
        }
        Err(StoreError::NoAnswer("no place could be had in time".into()))
    }

    /// Redis is back: it is told what was stored without it.
    pub(crate) async fn note_fallback(&self, id: ConversationId) -> Result<(), StoreError> {
        let unnoted = {
            let unnoted = self.ledgers.unnoted.lock().expect("nothing panics while it holds the lock");
            unnoted.get(&id).copied()
        };
        let Some(unnoted) = unnoted else { return Ok(()) };
        match self.seed_from(id, unnoted.first).await {
            Ok(()) => self.ledgers.noted(id, unnoted),
            Err(SeedError::Away(_)) => {}
            Err(SeedError::Store(error)) => return Err(error),
        }
        Ok(())
    }
}
