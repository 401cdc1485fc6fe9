//! Where one node has to store without Redis, all do.
//!
//! Redis may be away from one node alone. If others went on with it, they could give an id a second place: the one writes
//! into a hole that was handed out to somebody slow, and the next place that is handed out tells nobody. So whoever must do
//! without says so in a row of the tables, waits until everybody has read it, and says it again for as long as it lasts.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use bluetick_core::{ConversationId, StoreError};
use tokio::time::{Instant, sleep};

use crate::engine::Engine;
use crate::people::shared_key;
use crate::rows::{Item, Key, Only, Table};

#[derive(Default)]
pub(crate) struct Outage {
    said: Mutex<Option<Said>>,
    /// One says it at a time.
    turn: tokio::sync::Mutex<u64>,
}

#[derive(Clone, Copy)]
struct Said {
    first: Instant,
    last: Instant,
}

/// Between two looks whether Redis is back.
const NEXT_LOOK: Duration = Duration::from_millis(50);
/// It is said so often while others are waited for.
const SAID_WITHIN: u32 = 3;

impl Outage {
    /// Since when it has been said without a break.
    fn said(&self, grace: Duration) -> Option<Said> {
        let said = *self.said.lock().expect("nothing panics while it holds the lock");
        said.filter(|said| said.last.elapsed() < grace)
    }

    fn note(&self, at: Instant, grace: Duration) {
        let first = self.said(grace).map_or(at, |said| said.first);
        *self.said.lock().expect("nothing panics while it holds the lock") = Some(Said { first, last: at });
    }
}

fn row() -> (Table, Key) {
    (Table::Users, shared_key("without-redis"))
}

/// Listens for others who have to do without Redis.
pub(crate) async fn run(engine: Arc<Engine>) {
    let (table, key) = row();
    let mut heard = None;
    loop {
        match engine.rows.get(table, &key).await {
            Ok(said) => {
                let by = said.as_ref().and_then(|said| said.find_text("by")).map(AsRef::as_ref);
                if said != heard && by != Some(engine.node.as_str()) {
                    engine.ledgers.was_away();
                }
                heard = said;
            }
            Err(error) => tracing::debug!(%error, "whether others do without Redis cannot be asked now"),
        }
        sleep(engine.settings.outage_look()).await;
    }
}

impl Engine {
    /// Returns when all nodes know that this one stores without Redis, or when Redis answers: then it can be told at once
    /// what is stored.
    pub(crate) async fn until_all_have_noticed(&self, id: ConversationId) -> Result<(), StoreError> {
        let deadline = Instant::now() + self.settings.send_deadline();
        while self.hints.glance(id).await.is_err() {
            self.ledgers.was_away();
            self.say_that_redis_is_away().await?;
            let (grace, patience) = (self.settings.return_grace(), self.settings.patience());
            if self.outage.said(grace).is_some_and(|said| said.first.elapsed() >= patience) {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(StoreError::NoAnswer("other nodes could not be told that Redis is away".into()));
            }
            sleep(NEXT_LOOK.min(patience)).await;
        }
        Ok(())
    }

    /// What was said once is said again, so that others do not go back to Redis before.
    pub(crate) async fn say_again_that_redis_is_away(&self) {
        if self.outage.said(self.settings.return_grace()).is_some()
            && let Err(error) = self.say_that_redis_is_away().await
        {
            tracing::debug!(%error, "other nodes could not be told that Redis is away");
        }
    }

    async fn say_that_redis_is_away(&self) -> Result<(), StoreError> {
        let Ok(mut count) = self.outage.turn.try_lock() else { return Ok(()) };
        let (grace, soon) = (self.settings.return_grace(), self.settings.patience() / SAID_WITHIN);
        if self.outage.said(grace).is_some_and(|said| said.last.elapsed() < soon) {
            return Ok(());
        }
        *count += 1;
        let (table, key) = row();
        let item = Item::new().text("by", self.node.as_str()).versioned(*count);
        self.rows.put(table, &key, &item, Only::Always).await?;
        self.outage.note(Instant::now(), grace);
        Ok(())
    }
}
