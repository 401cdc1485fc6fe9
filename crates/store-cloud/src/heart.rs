//! The heartbeat: this node says that it lives, learns who else does, and notices when Redis goes and comes. Nothing that
//! takes long is done here: who does not say that it lives is taken for dead.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::engine::Engine;
use crate::people::shared_key;
use crate::rows::{Item, Only, Table};

const BEAT: Duration = Duration::from_secs(1);

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
    loop {
        match engine.neighbours.beat().await {
            Ok(living) => {
                engine.counters.hints_away.set(0);
                for node in engine.local.set_living(living) {
                    tracing::info!(%node, "a node has left the fleet or has died");
                    tokio::spawn(Arc::clone(&engine).take_care_after(node));
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
