//! Where one node has to store without Redis, all do.
//!
//! Redis may be away from one node alone. If others went on with it, they could give an id a second place: the one writes
//! into a hole that was handed out to somebody slow, and the next place that is handed out tells nobody. So whoever must do
//! without says so in a row of the tables, waits until everybody has read it, and says it again for as long as it lasts.
//! Everybody goes on without for a while after it was said last, and begins no more writes before that while is over.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use bluetick_core::ports::Append;
use bluetick_core::{ConversationId, StoreError};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::EngineSettings;
use crate::append::LATE_WRITES;
use crate::engine::Engine;
use crate::people::shared_key;
use crate::rows::{Item, Key, Only, Table};

#[derive(Default)]
pub(crate) struct Outage {
    known: Mutex<Option<Known>>,
    /// From then on it is known whether anybody does without Redis, as of the last look.
    sure_from: Mutex<Option<Instant>>,
    /// When the last look began that was answered.
    looked: Mutex<Option<Instant>>,
    /// When this node started and found that it had been said, at whatever time.
    found: Mutex<Option<Instant>>,
    /// One says it at a time.
    turn: tokio::sync::Mutex<u64>,
}

/// Somebody does without Redis, be it this node, and everybody knows or is about to: from when on, and as of when.
#[derive(Clone, Copy)]
struct Known {
    first: Instant,
    last: Instant,
    /// It was said then or later: whoever said it goes back to Redis by that, and not by when it was heard.
    said: Instant,
}

/// Between two looks whether Redis is back.
const NEXT_LOOK: Duration = Duration::from_millis(50);
/// It is said so often while others are waited for.
const SAID_WITHIN: u32 = 3;
/// It is over when nobody has said it for this many times as long as others do without after they heard it.
const OVER_AFTER: u32 = 20;
/// A Redis that has not answered for this part of the patience is away.
const AWAY_AFTER: u32 = 5;

impl Outage {
    /// A node that has just started, or does not know whether others were told, or has not been able to look for a while,
    /// does not know what they do: returns when it does.
    async fn until_sure(&self, settings: &EngineSettings) {
        while !self.is_sure(settings) && !self.lasts(settings.return_grace()) {
            sleep(NEXT_LOOK.min(settings.outage_look())).await;
        }
    }

    fn is_sure(&self, settings: &EngineSettings) -> bool {
        let sure_from = *self.sure_from.lock().expect("nothing panics while it holds the lock");
        let looked = *self.looked.lock().expect("nothing panics while it holds the lock");
        sure_from.is_some_and(|from| from <= Instant::now())
            && looked.is_some_and(|began| began.elapsed() < settings.outage_looks_count())
    }

    fn is_sure_from(&self, moment: Instant) {
        *self.sure_from.lock().expect("nothing panics while it holds the lock") = Some(moment);
    }

    fn known(&self) -> Option<Known> {
        *self.known.lock().expect("nothing panics while it holds the lock")
    }

    /// Heard or said. After a long silence others may have gone back to Redis, so that it begins anew.
    fn note(&self, at: Instant, said: Instant, settings: &EngineSettings) {
        let goes_on = self.known().filter(|known| known.last.elapsed() < settings.outage_goes_on_within());
        let known = Known { first: goes_on.map_or(at, |known| known.first), last: at, said };
        *self.known.lock().expect("nothing panics while it holds the lock") = Some(known);
    }

    /// Somebody stores without Redis, or has done so within this time: whoever asks does so as well.
    pub fn lasts(&self, grace: Duration) -> bool {
        self.known().is_some_and(|known| known.last.elapsed() < grace)
    }

    /// How long it has been over, or at least may have been.
    fn over_for(&self, grace: Duration) -> Option<Duration> {
        let found = *self.found.lock().expect("nothing panics while it holds the lock");
        let last = self.known().map(|known| known.last).max(found);
        last.map(|last| last.elapsed().saturating_sub(grace))
    }
}

fn row() -> (Table, Key) {
    (Table::Users, shared_key("without-redis"))
}

/// Listens for others who have to do without Redis.
pub(crate) async fn run(engine: Arc<Engine>) {
    let (table, key) = row();
    let grace = engine.settings.return_grace();
    let mut heard: Option<Option<Item>> = None;
    let mut unchanged_since = Instant::now();
    let mut last_look = Instant::now();
    loop {
        let began = Instant::now();
        // One that takes long is worth nothing.
        let look = timeout(engine.settings.outage_looks_count() / 2, engine.rows.get(table, &key)).await;
        match look {
            Ok(Ok(said)) => {
                let by = said.as_ref().and_then(|said| said.find_text("by")).map(AsRef::as_ref);
                if heard.is_none() {
                    // It may have been said long ago, or just now.
                    let pause = if said.is_some() { grace } else { Duration::ZERO };
                    if said.is_some() {
                        engine.ledgers.was_away();
                        *engine.outage.found.lock().expect("nothing panics while it holds the lock") =
                            Some(began);
                    }
                    engine.outage.is_sure_from(Instant::now() + pause);
                } else if heard.as_ref() != Some(&said) && by.is_some_and(|by| by != engine.node.as_str()) {
                    engine.ledgers.was_away();
                    engine.outage.note(Instant::now(), last_look, &engine.settings);
                }
                last_look = began;
                *engine.outage.looked.lock().expect("nothing panics while it holds the lock") = Some(began);
                if heard.as_ref() != Some(&said) {
                    unchanged_since = Instant::now();
                } else if said.is_some() && unchanged_since.elapsed() > OVER_AFTER * grace {
                    // Who says it just now says it again in a moment.
                    let version = said.as_ref().map_or(0, Item::version);
                    let _may_fail = engine.rows.delete(table, &key, Only::IfVersion(version)).await;
                }
                heard = Some(said);
            }
            Ok(Err(error)) => tracing::debug!(%error, "whether others do without Redis cannot be asked now"),
            Err(_) => continue,
        }
        sleep_until(began + engine.settings.outage_look()).await;
    }
}

impl Engine {
    /// Returns when Redis may be used, or when it is known that it is done without.
    pub(crate) async fn until_sure_of_redis(&self, deadline: Instant) -> Result<(), StoreError> {
        let sure = tokio::time::timeout_at(deadline, self.outage.until_sure(&self.settings)).await;
        sure.map_err(|_| StoreError::NoAnswer("whether others do without Redis is not known".into()))
    }

    /// Whether all nodes know that Redis is done without, and will do without it themselves until what is written now is
    /// there. What is sent again also waits for the earlier attempt, which may be on its way to a place that was handed
    /// out before.
    pub(crate) fn may_store_without_redis(&self, append: &Append) -> bool {
        let (grace, patience) = (self.settings.return_grace(), self.settings.patience());
        let wait = if append.retry_after.is_some() { patience.max(LATE_WRITES) } else { patience };
        let known = self.outage.known();
        known.is_some_and(|known| {
            known.first.elapsed() >= wait && known.said.elapsed() < self.settings.time_to_store_without()
        }) && self.outage.lasts(grace)
    }

    /// Whether that is so after a while. If not, Redis is to be used again.
    pub(crate) async fn until_all_have_noticed(&self, append: &Append) -> Result<bool, StoreError> {
        let id = append.conversation;
        let (grace, patience) = (self.settings.return_grace(), self.settings.patience());
        let deadline = Instant::now() + self.settings.send_deadline();
        while self.outage.lasts(grace) {
            if self.may_store_without_redis(append) {
                return Ok(true);
            }
            if Instant::now() > deadline {
                return Err(StoreError::NoAnswer("other nodes could not be told that Redis is away".into()));
            }
            if self.hints.glance(id).await.is_err() {
                self.ledgers.was_away();
                self.say_that_redis_is_away().await?;
            }
            sleep(NEXT_LOOK.min(patience)).await;
        }
        Ok(false)
    }

    /// Redis did not answer. Returns when it does again, or when others have been told that it is done without.
    pub(crate) async fn until_back_or_away(&self, id: ConversationId) -> Result<(), StoreError> {
        self.ledgers.was_away();
        let (noticed, patience) = (Instant::now(), self.settings.patience());
        while !self.outage.lasts(self.settings.return_grace()) && self.hints.glance(id).await.is_err() {
            self.ledgers.was_away();
            if noticed.elapsed() >= patience / AWAY_AFTER {
                self.say_that_redis_is_away().await?;
            }
            sleep(NEXT_LOOK.min(patience / AWAY_AFTER)).await;
        }
        Ok(())
    }

    /// What was stored without Redis a moment ago may be on its way to the tables yet, and nobody has told Redis of it.
    pub(crate) fn outage_was_within(&self, time: Duration) -> bool {
        self.outage.over_for(self.settings.return_grace()).is_some_and(|over| over < time)
    }

    /// What was said once is said again, so that others do not go back to Redis before.
    pub(crate) async fn say_again_that_redis_is_away(&self) {
        if self.outage.lasts(self.settings.return_grace())
            && let Err(error) = self.say_that_redis_is_away().await
        {
            tracing::debug!(%error, "other nodes could not be told that Redis is away");
        }
    }

    async fn say_that_redis_is_away(&self) -> Result<(), StoreError> {
        let Ok(mut count) = self.outage.turn.try_lock() else { return Ok(()) };
        let soon = self.settings.patience() / SAID_WITHIN;
        if self.outage.lasts(soon) {
            return Ok(());
        }
        *count += 1;
        let (table, key) = row();
        let item = Item::new().text("by", self.node.as_str()).versioned(*count);
        let began = Instant::now();
        let grace = self.settings.return_grace();
        if let Err(error) = self.rows.put(table, &key, &item, Only::Always).await {
            // Others may have heard it all the same.
            self.outage.is_sure_from(Instant::now() + grace);
            return Err(error.into());
        }
        let known = self.outage.known();
        // Whoever was told before goes on; whoever is told now has to be waited for from now on.
        let goes_on = known.is_some_and(|known| known.last.elapsed() < self.settings.outage_goes_on_within());
        let at = if goes_on { began } else { Instant::now() };
        self.outage.note(at, began, &self.settings);
        Ok(())
    }
}
