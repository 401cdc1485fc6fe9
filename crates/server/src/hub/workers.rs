//! What the fan-out leaves to others because it needs a look into the store. The queues are there from the beginning;
//! the workers start with the server, which owns and joins them.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};

use bluetick_core::Chat;
use futures_util::FutureExt;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::changes::EntryChanged;
use super::entries::{Shower, WAITING_ENTRIES};
use super::presence::{Announcer, PresenceChange, WAITING_CHANGES};
use super::receipts::{Gathering, Teller};
use super::senders::Senders;
use super::{Sessions, Whereabouts};
use crate::metrics::Metrics;

pub(super) struct Errands {
    pub gathering: Arc<Gathering>,
    pub senders: Arc<Senders>,
    pub entries: mpsc::Sender<EntryChanged>,
    pub presence: mpsc::Sender<PresenceChange>,
    waiting: Mutex<Option<Waiting>>,
}

/// The other ends of the queues, until somebody works on them.
struct Waiting {
    entries: mpsc::Receiver<EntryChanged>,
    presence: mpsc::Receiver<PresenceChange>,
}

impl Errands {
    pub fn new(metrics: Arc<Metrics>) -> Errands {
        let (entries, waiting_entries) = mpsc::channel(WAITING_ENTRIES);
        let (presence, waiting_changes) = mpsc::channel(WAITING_CHANGES);
        let waiting = Waiting { entries: waiting_entries, presence: waiting_changes };
        Errands {
            gathering: Arc::new(Gathering::new(metrics)),
            senders: Arc::default(),
            entries,
            presence,
            waiting: Mutex::new(Some(waiting)),
        }
    }

    pub fn start(
        &self,
        chat: &Chat,
        whereabouts: &Whereabouts,
        sessions: &Arc<Sessions>,
        metrics: &Arc<Metrics>,
    ) -> Workers {
        let waiting = self.waiting.lock().expect("nothing panics while it holds the lock").take();
        let waiting = waiting.expect("a hub serves one server");
        let receipts = Teller {
            gathering: Arc::clone(&self.gathering),
            senders: Arc::clone(&self.senders),
            sessions: Arc::clone(sessions),
            chat: chat.clone(),
            metrics: Arc::clone(metrics),
        };
        let entries = Shower {
            changed: waiting.entries,
            sessions: Arc::clone(sessions),
            whereabouts: whereabouts.clone(),
            chat: chat.clone(),
            metrics: Arc::clone(metrics),
        };
        let presence = Announcer::new(
            waiting.presence,
            Arc::clone(sessions),
            whereabouts.clone(),
            chat.clone(),
            Arc::clone(metrics),
        );
        let mut tasks = JoinSet::new();
        tasks.spawn(receipts.run());
        tasks.spawn(entries.run());
        tasks.spawn(presence.run());
        Workers(tasks)
    }
}

/// The running workers. They only read and push, so they may be stopped at any point.
pub(crate) struct Workers(JoinSet<()>);

impl Workers {
    pub async fn stop(&mut self) {
        self.0.shutdown().await;
    }
}

/// A fault with one errand must not end the worker. The panic's text went to the log with its place, by the panic hook.
pub(super) async fn guarded(worker: &'static str, errand: impl Future<Output = ()>) {
    if AssertUnwindSafe(errand).catch_unwind().await.is_err() {
        tracing::error!(worker, "an errand failed");
    }
}
