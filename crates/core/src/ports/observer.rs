//! Reports of a store about its own work, for metrics.

use std::time::Duration;

/// The report of one durable batch of writes.
#[derive(Clone, Copy, Debug)]
pub struct CommitReport {
    pub messages: usize,
    pub bytes: usize,
    pub sync: Duration,
}

/// The report of one checkpoint, which applies the commit log to the tables.
#[derive(Clone, Copy, Debug)]
pub struct CheckpointReport {
    pub conversations: usize,
    pub messages: usize,
    pub took: Duration,
}

/// Receives the reports. The store calls it on the commit path, so an implementation must not
/// block.
pub trait StoreObserver: Send + Sync + 'static {
    fn committed(&self, _report: CommitReport) {}
    fn checkpointed(&self, _report: CheckpointReport) {}
}

/// An observer that ignores all reports.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl StoreObserver for NoObserver {}
