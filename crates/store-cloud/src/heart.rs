//! The heartbeat: this node says that it lives, learns who else does, and notices when Redis goes and comes. Nothing that
//! takes long is done here: who does not say that it lives is taken for dead.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::NodeId;
use crate::engine::Engine;
use crate::local::LivingNow;
use crate::people::shared_key;
use crate::rows::{Item, Only, Table};

const BEAT: Duration = Duration::from_secs(1);

/// By then every node has heard of one that said for the first time that it lives, unless its own heart has missed a beat.
const KNOWN_AFTER: Duration = Duration::from_millis(1_500);

/// Where somebody is connected is said again, in case Redis was emptied without anybody noticing.
const SAY_AGAIN: Duration = Duration::from_secs(300);

/// Whether the tables take a row, for whoever asks if this node takes work.
pub(crate) async fn feel(engine: Arc<Engine>) {
    let item = Item::new().versioned(1);
    loop {
        let answer = engine.rows.put(Table::Users, &shared_key("health"), &item, Only::Always).await;
        let trouble = answer.err().map(|error| format!("the tables cannot be written to: {error}"));
        let before = {
            let mut known = engine.trouble.lock().expect("nothing panics while it holds the lock");
            std::mem::replace(&mut *known, trouble.clone())
        };
        match (before, trouble) {
            (None, Some(trouble)) => tracing::warn!("{trouble}"),
            (Some(_), None) => tracing::info!("the tables can be written to again"),
            _ => {}
        }
        sleep(engine.settings.health_interval()).await;
    }
}

pub(crate) async fn run(engine: Arc<Engine>) {
    let (mut was_away, mut said) = (false, Instant::now());
    let mut last_beat: Option<Instant> = None;
    loop {
        let began = Instant::now();
        match engine.neighbours.beat().await {
            Ok(living) => {
                engine.counters.hints_away.set(0);
                let LivingNow { newcomers, dead } = engine.local.set_living(living);
                for node in dead {
                    tracing::info!(%node, "a node has left the fleet or has died");
                    tokio::spawn(Arc::clone(&engine).take_care_after(node));
                }
                match last_beat.replace(began) {
                    None => engine.said_that_it_lives(&newcomers),
                    // They may have been there for a while, and were not told anything by this node.
                    Some(last) if last.elapsed() >= KNOWN_AFTER => engine.outgoing.was_not_heard(newcomers),
                    Some(_) => {}
                }
                if was_away || said.elapsed() > SAY_AGAIN {
                    said = Instant::now();
                    engine.mending.say_who_is_here();
                }
                if !engine.ledgers.is_unsure(2 * engine.settings.return_grace()) {
                    engine.ledgers.close();
                }
                if was_away {
                    tracing::info!("Redis is back");
                    engine.repair.notify_one();
                }
                was_away = false;
            }
            Err(away) => {
                if !was_away {
                    tracing::warn!(%away, "Redis is away: sends go on, slower");
                }
                was_away = true;
                engine.nobody_can_be_told();
                engine.ledgers.was_away();
                let sayer = Arc::clone(&engine);
                tokio::spawn(async move { sayer.say_again_that_redis_is_away().await });
                engine.counters.hints_away.set(1);
                // Nobody brings news meanwhile.
                engine.local.trouble();
                engine.repair.notify_one();
            }
        }
        sleep(BEAT).await;
    }
}

impl Engine {
    /// This node has said for the first time that it lives.
    fn said_that_it_lives(&self, newcomers: &[NodeId]) {
        let others: Vec<_> = newcomers.iter().filter(|node| **node != self.node).cloned().collect();
        let pause = if others.is_empty() { Duration::ZERO } else { KNOWN_AFTER };
        self.arrival.send_replace(Some(Instant::now() + pause));
        if self.local.was_asked_early() {
            self.outgoing.was_not_heard(others);
        }
    }

    /// Redis is away. Whoever comes meanwhile is looked after when it is back.
    fn nobody_can_be_told(&self) {
        self.arrival.send_if_modified(|known_from| {
            let is_first = known_from.is_none();
            known_from.get_or_insert_with(Instant::now);
            is_first
        });
    }

    /// Returns when all other nodes know that this one is there, or nobody can be told: whoever comes here earlier would
    /// miss what they say, and nobody would notice.
    pub(crate) async fn until_known(&self) {
        let mut arrival = self.arrival.subscribe();
        let Ok(known_from) = arrival.wait_for(Option::is_some).await.map(|known_from| *known_from) else {
            return;
        };
        if let Some(known_from) = known_from {
            tokio::time::sleep_until(known_from).await;
        }
    }
}
