//! For a store that keeps everything in one place.

use std::sync::Arc;

use async_trait::async_trait;
use bluetick_core::ConversationId;
use bluetick_core::ports::{
    Archive, ArchiveCounters, ArchiveError, ArchiveRun, ArchiveStatus, Erase, EraseReport, Progress,
    RestoreReport, RunReport, VerifyReport,
};

/// No archive: there is nothing in it, and every job is refused.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoArchive;

#[async_trait]
impl Archive for NoArchive {
    async fn status(&self) -> Result<ArchiveStatus, ArchiveError> {
        Ok(ArchiveStatus::default())
    }

    async fn run(&self, _run: ArchiveRun, _progress: Arc<dyn Progress>) -> Result<RunReport, ArchiveError> {
        Err(ArchiveError::Off)
    }

    async fn verify(&self, _progress: Arc<dyn Progress>) -> Result<VerifyReport, ArchiveError> {
        Err(ArchiveError::Off)
    }

    async fn restore(
        &self,
        _conversation: Option<ConversationId>,
        _progress: Arc<dyn Progress>,
    ) -> Result<RestoreReport, ArchiveError> {
        Err(ArchiveError::Off)
    }

    async fn erase(&self, _erase: Erase, _progress: Arc<dyn Progress>) -> Result<EraseReport, ArchiveError> {
        Err(ArchiveError::Off)
    }

    fn counters(&self) -> ArchiveCounters {
        ArchiveCounters::default()
    }
}
