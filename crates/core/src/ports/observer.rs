//! What a store reports about its own work, for metrics.

use std::time::Duration;

/// One durable batch.
#[derive(Clone, Copy, Debug)]
pub struct CommitReport {
    pub messages: usize,
    pub bytes: usize,
    pub sync: Duration,
}

/// One checkpoint: log turned into tables.
#[derive(Clone, Copy, Debug)]
pub struct CheckpointReport {
    pub conversations: usize,
    pub messages: usize,
    pub took: Duration,
}

/// Called on the commit path; must be quick.
pub trait StoreObserver: Send + Sync + 'static {
    fn committed(&self, _report: CommitReport) {}
    fn checkpointed(&self, _report: CheckpointReport) {}
}

#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl StoreObserver for NoObserver {}
