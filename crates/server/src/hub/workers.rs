//! Workers that do the fan-out's work that needs the store. The queues exist from the start. The
//! server starts, owns and joins the worker tasks.

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

/// The queues of the workers.
pub(super) struct Errands {
    pub gathering: Arc<Gathering>,
    pub senders: Arc<Senders>,
    pub entries: mpsc::Sender<EntryChanged>,
    pub presence: mpsc::Sender<PresenceChange>,
    waiting: Mutex<Option<Waiting>>,
}

/// The receiving ends of the queues, until [`Errands::start`] takes them.
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

    /// Spawns the workers. Panics if called twice.
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

/// The running worker tasks. They only read the store and push frames, so they may be stopped at
/// any point.
pub(crate) struct Workers(JoinSet<()>);

impl Workers {
    pub async fn stop(&mut self) {
        self.0.shutdown().await;
    }
}

/// Runs one job of a worker and catches its panic, so that the worker continues. The panic hook has
/// already logged the message and its location.
pub(super) async fn guarded(worker: &'static str, errand: impl Future<Output = ()>) {
    if AssertUnwindSafe(errand).catch_unwind().await.is_err() {
        tracing::error!(worker, "an errand failed");
    }
}
