//! Workers that do the fan-out's work that needs the store. The queues exist from the start. The
//! server starts, owns and joins the worker tasks.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bluetick_core::Chat;
use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::changes::EntryChanged;
use super::inbox_entries::{EntryPublisher, QUEUED_ENTRIES};
use super::presence::{PresenceChange, PresencePublisher, QUEUED_CHANGES};
use super::receipts::{ReceiptBatches, ReceiptPublisher};
use super::recent_senders::RecentSenders;
use super::{PresenceDirectory, Sessions};
use crate::metrics::Metrics;

/// The queues of the workers.
pub(super) struct WorkerQueues {
    pub receipt_batches: Arc<ReceiptBatches>,
    pub senders: Arc<RecentSenders>,
    pub entries: mpsc::Sender<EntryChanged>,
    pub presence: mpsc::Sender<PresenceChange>,
    receivers: Mutex<Option<QueueReceivers>>,
}

/// The receiving ends of the queues, until [`WorkerQueues::start`] takes them.
struct QueueReceivers {
    entries: mpsc::Receiver<EntryChanged>,
    presence: mpsc::Receiver<PresenceChange>,
}

impl WorkerQueues {
    pub fn new(metrics: Arc<Metrics>) -> WorkerQueues {
        let (entries, entries_receiver) = mpsc::channel(QUEUED_ENTRIES);
        let (presence, presence_receiver) = mpsc::channel(QUEUED_CHANGES);
        let receivers = QueueReceivers { entries: entries_receiver, presence: presence_receiver };
        WorkerQueues {
            receipt_batches: Arc::new(ReceiptBatches::new(metrics)),
            senders: Arc::default(),
            entries,
            presence,
            receivers: Mutex::new(Some(receivers)),
        }
    }

    /// Spawns the workers. Panics if called twice.
    pub fn start(
        &self,
        chat: &Chat,
        presence_directory: &PresenceDirectory,
        sessions: &Arc<Sessions>,
        metrics: &Arc<Metrics>,
    ) -> Workers {
        let receivers = self.receivers.lock().take();
        let receivers = receivers.expect("a hub starts its workers once");
        let receipts = ReceiptPublisher {
            receipt_batches: Arc::clone(&self.receipt_batches),
            senders: Arc::clone(&self.senders),
            sessions: Arc::clone(sessions),
            chat: chat.clone(),
            metrics: Arc::clone(metrics),
        };
        let entries = EntryPublisher {
            changed: receivers.entries,
            sessions: Arc::clone(sessions),
            presence_directory: presence_directory.clone(),
            chat: chat.clone(),
            metrics: Arc::clone(metrics),
        };
        let presence = PresencePublisher::new(
            receivers.presence,
            Arc::clone(sessions),
            presence_directory.clone(),
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
pub(super) async fn catch_panics(worker: &'static str, job: impl Future<Output = ()>) {
    if AssertUnwindSafe(job).catch_unwind().await.is_err() {
        tracing::error!(worker, "worker job panicked");
    }
}
