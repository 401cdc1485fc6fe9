//! A store observer that collects the store's reports during a measurement.

use std::sync::atomic::{AtomicU64, Ordering};

use bluetick_core::ports::{CheckpointReport, CommitReport, StoreObserver};
use parking_lot::Mutex;

use crate::bare_log::BatchSize;
use crate::latencies::Latencies;

/// Collects the store's commit and checkpoint reports.
#[derive(Default)]
pub struct ReportCollector {
    pub committed: AtomicU64,
    state: Mutex<Option<CollectedReports>>,
}

pub struct CollectedReports {
    pub batches: Vec<BatchSize>,
    pub batch_count: u64,
    pub sync: Latencies,
    pub checkpoints: Vec<CheckpointReport>,
}

/// Upper bound on recorded batches, which the bare log replays. It bounds memory use; a smaller
/// bound ends the replay early.
const REPLAYED_BATCHES: usize = 200_000;

impl ReportCollector {
    fn with<T>(&self, act: impl FnOnce(&mut CollectedReports) -> T) -> T {
        let mut state = self.state.lock();
        act(state.get_or_insert_with(|| CollectedReports {
            batches: Vec::new(),
            batch_count: 0,
            sync: Latencies::default(),
            checkpoints: Vec::new(),
        }))
    }

    /// Returns everything collected so far and resets the collection.
    pub fn take(&self) -> CollectedReports {
        self.committed.store(0, Ordering::Relaxed);
        self.with(|_| {});
        self.state.lock().take().expect("the lines above filled it")
    }
}

impl StoreObserver for ReportCollector {
    fn committed(&self, report: CommitReport) {
        self.committed.fetch_add(report.messages as u64, Ordering::Relaxed);
        self.with(|watched| {
            watched.batch_count += 1;
            watched.sync.record(report.sync);
            if watched.batches.len() < REPLAYED_BATCHES {
                watched.batches.push(BatchSize { messages: report.messages, bytes: report.bytes });
            }
        });
    }

    fn checkpointed(&self, report: CheckpointReport) {
        self.with(|watched| watched.checkpoints.push(report));
    }
}
