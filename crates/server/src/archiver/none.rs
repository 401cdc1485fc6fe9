//! The archive port for a store without an archive.

use std::sync::Arc;

use async_trait::async_trait;
use bluetick_core::ConversationId;
use bluetick_core::ports::{
    Archive, ArchiveCounters, ArchiveError, ArchiveRun, ArchiveStatus, Erase, EraseReport, Progress,
    RestoreReport, RunReport, VerifyReport,
};

/// An archive that is always empty and refuses every job with [`ArchiveError::Off`].
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
