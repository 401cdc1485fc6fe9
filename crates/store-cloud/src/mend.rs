//! What is put right beside the heartbeat, which must not wait for it: routes that Redis does not have, messages and
//! changes that it or other nodes were not told of.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bluetick_core::{ConversationId, Seq};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::cells::Cell;
use crate::engine::Engine;
use crate::keyed::side_by_side;

#[derive(Default)]
pub(crate) struct Mending {
    /// Changes of members that this node has finished for another.
    changes: Mutex<Vec<(ConversationId, Vec<Cell>)>>,
    routes_are_missing: AtomicBool,
    /// Something may have been stored for somebody here that no other node could tell, for want of a route.
    somebody_was_missed: AtomicBool,
    more: Notify,
}

/// What was stored without Redis is told to it this soon after it can be.
const SOON: Duration = Duration::from_millis(100);
const AGAIN: Duration = Duration::from_secs(1);

/// Conversations and people side by side.
const AT_ONCE: usize = 16;

impl Mending {
    pub fn announce(&self, id: ConversationId, cells: Vec<Cell>) {
        self.changes.lock().expect("nothing panics while it holds the lock").push((id, cells));
        self.more.notify_one();
    }

    /// Redis may not know who is connected here.
    pub fn say_who_is_here(&self) {
        self.routes_are_missing.store(true, Ordering::SeqCst);
        self.more.notify_one();
    }

    /// Redis does not know of somebody who has come: others may write to it meanwhile and not find it here.
    pub fn say_who_is_missed(&self) {
        self.somebody_was_missed.store(true, Ordering::SeqCst);
        self.say_who_is_here();
    }
}

pub(crate) async fn run(engine: Arc<Engine>) {
    let mending = &engine.mending;
    loop {
        tokio::select! {
            () = mending.more.notified() => {}
            () = engine.ledgers.more.notified() => sleep(SOON).await,
            () = sleep(AGAIN) => {}
        }
        let changes = std::mem::take(&mut *mending.changes.lock().expect("no panic under the lock"));
        for (id, cells) in changes {
            let settled = engine.rooms.settled(id).unwrap_or(Seq::ZERO);
            if let Err(error) = engine.announce_change(id, cells.clone(), settled).await {
                tracing::debug!(conversation = %id, %error, "a change of members cannot be told yet");
                mending.changes.lock().expect("no panic under the lock").push((id, cells));
            }
        }
        if mending.routes_are_missing.swap(false, Ordering::SeqCst) {
            // Before: who comes meanwhile and is not told of has another turn.
            let was_missed = mending.somebody_was_missed.swap(false, Ordering::SeqCst);
            match engine.connect_everybody().await {
                false => {
                    mending.somebody_was_missed.fetch_or(was_missed, Ordering::SeqCst);
                    mending.routes_are_missing.store(true, Ordering::SeqCst);
                }
                true if was_missed => engine.repair.notify_one(),
                true => {}
            }
        }
        engine.note_all_fallbacks().await;
    }
}

impl Engine {
    /// Tells Redis of everything that was stored without it here.
    pub(crate) async fn note_all_fallbacks(&self) {
        let noting = self.ledgers.unnoted().into_iter().map(|id| self.note_fallback(id)).collect();
        for noted in side_by_side(AT_ONCE, noting).await {
            if let Err(error) = noted {
                tracing::debug!(%error, "Redis cannot be told yet what was stored without it");
            }
        }
    }

    /// False when Redis is away.
    async fn connect_everybody(&self) -> bool {
        for users in self.local.everybody().chunks(AT_ONCE) {
            let connecting = users.iter().map(|user| self.hints.connect(user, &self.node)).collect();
            if side_by_side(AT_ONCE, connecting).await.iter().any(Result::is_err) {
                return false;
            }
        }
        true
    }
}
