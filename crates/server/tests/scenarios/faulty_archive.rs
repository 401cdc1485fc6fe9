//! An archive that a test controls: its jobs wait, report progress, fail or panic.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bluetick_core::ConversationId;
use bluetick_core::ports::{
    Archive, ArchiveCounters, ArchiveError, ArchiveRun, ArchiveStatus, ColdCount, Erase, EraseReport,
    Progress, RestoreReport, RunReport, Stage, VerifyReport,
};
use tokio::sync::watch;

use crate::harness::Setup;

/// A call that started a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArchiveCall {
    Run(ArchiveRun),
    Verify,
    Restore(Option<ConversationId>),
    Erase(Erase),
}

#[derive(Clone, Default)]
pub struct FaultyArchive {
    status: Arc<Mutex<ArchiveStatus>>,
    counters: Arc<Mutex<ArchiveCounters>>,
    /// Errors of the next jobs, before they report progress. Later jobs succeed.
    failures: Arc<Mutex<VecDeque<ArchiveError>>>,
    calls: Arc<Mutex<Vec<ArchiveCall>>>,
    held: Arc<watch::Sender<bool>>,
    panics: Arc<Mutex<bool>>,
    pub running_jobs: Arc<AtomicU64>,
}

impl FaultyArchive {
    pub fn on() -> FaultyArchive {
        let archive = FaultyArchive::default();
        archive.change_status(|status| status.place = "directory /cold".into());
        archive
    }

    pub fn setup(&self) -> Setup {
        Setup { archive: Arc::new(self.clone()), ..Setup::default() }
    }

    pub fn change_status(&self, change: impl FnOnce(&mut ArchiveStatus)) {
        change(&mut self.status.lock().unwrap());
    }

    pub fn change_counters(&self, change: impl FnOnce(&mut ArchiveCounters)) {
        change(&mut self.counters.lock().unwrap());
    }

    /// While held, started jobs wait.
    pub fn hold(&self, held: bool) {
        self.held.send_replace(held);
    }

    pub fn fail_next(&self, error: ArchiveError) {
        self.failures.lock().unwrap().push_back(error);
    }

    pub fn panic_next(&self) {
        *self.panics.lock().unwrap() = true;
    }

    pub fn calls(&self) -> Vec<ArchiveCall> {
        self.calls.lock().unwrap().clone()
    }

    async fn work(
        &self,
        asked: ArchiveCall,
        stage: Stage,
        progress: &dyn Progress,
    ) -> Result<(), ArchiveError> {
        self.calls.lock().unwrap().push(asked);
        if let Some(error) = self.failures.lock().unwrap().pop_front() {
            return Err(error);
        }
        self.running_jobs.fetch_add(1, Ordering::SeqCst);
        let _done = RunningJobGuard(&self.running_jobs);
        progress.advanced(stage, 1, 4);
        assert!(!std::mem::take(&mut *self.panics.lock().unwrap()), "rigged to panic");
        self.held.subscribe().wait_for(|held| !held).await.unwrap();
        progress.advanced(stage, 4, 4);
        Ok(())
    }
}

struct RunningJobGuard<'a>(&'a AtomicU64);

impl Drop for RunningJobGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

const TOOK: Duration = Duration::from_millis(420);
const COLD: ColdCount = ColdCount { segments: 3, messages: 2_950, bytes: 300_000, raw_bytes: 1_200_000 };

#[async_trait]
impl Archive for FaultyArchive {
    async fn status(&self) -> Result<ArchiveStatus, ArchiveError> {
        Ok(self.status.lock().unwrap().clone())
    }

    async fn run(&self, run: ArchiveRun, progress: Arc<dyn Progress>) -> Result<RunReport, ArchiveError> {
        self.work(ArchiveCall::Run(run), Stage::Moving, &*progress).await?;
        Ok(RunReport {
            conversations: 2,
            moved: COLD,
            hot_file_bytes_before: 9_000_000,
            hot_file_bytes_after: 7_000_000,
            took: TOOK,
            ..RunReport::default()
        })
    }

    async fn verify(&self, progress: Arc<dyn Progress>) -> Result<VerifyReport, ArchiveError> {
        self.work(ArchiveCall::Verify, Stage::Verifying, &*progress).await?;
        let problems = (0..1_001).map(|number| format!("segment {number} is gone")).collect();
        Ok(VerifyReport { checked: COLD, problems, took: TOOK })
    }

    async fn restore(
        &self,
        conversation: Option<ConversationId>,
        progress: Arc<dyn Progress>,
    ) -> Result<RestoreReport, ArchiveError> {
        self.work(ArchiveCall::Restore(conversation), Stage::Restoring, &*progress).await?;
        Ok(RestoreReport { segments: 3, messages: 2_950, took: TOOK })
    }

    async fn erase(&self, erase: Erase, progress: Arc<dyn Progress>) -> Result<EraseReport, ArchiveError> {
        self.work(ArchiveCall::Erase(erase), Stage::Erasing, &*progress).await?;
        Ok(EraseReport { conversations: 1, messages: 7, took: TOOK, ..EraseReport::default() })
    }

    fn counters(&self) -> ArchiveCounters {
        self.counters.lock().unwrap().clone()
    }
}
