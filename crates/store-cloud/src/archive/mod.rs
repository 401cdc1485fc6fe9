//! The cold tier of this store. Runs of messages move: their records into a sealed segment in the object store, and each
//! row keeps who wrote when and, in place of the content, where that lies ([`place`]).
//!
//! What every job keeps to:
//! - **An object is whole and durable before a row refers to it**, and no row refers to it before it was read back.
//! - **A row is changed on the condition that it still is what was read.** Rows are flipped one by one: wherever a job
//!   stops, each has its content in one of the two places, and the next run goes on with those that are left.
//! - **An object is deleted only after no row refers to it**, and when nobody can be about to.

mod erase;
mod fill;
mod job;
mod move_out;
mod objects;
mod record;
mod restore;
mod retention;
mod rewrite;
mod rows;
mod shared;
mod verify;
mod way;

use std::sync::Arc;

use async_trait::async_trait;
use bluetick_archive::jobs::state::{ArchiverState, LastRun};
use bluetick_archive::{ArchiveSettings, ObjectArchive, jobs};
use bluetick_core::ports::{
    Archive, ArchiveCounters, ArchiveError, ArchiveRun, ArchiveStatus, Erase, EraseReport, Progress, Random,
    RestoreReport, RunReport, SystemRandom, VerifyReport,
};
use bluetick_core::{ConversationId, StoreError};
use tokio::sync::OnceCell;

#[cfg(feature = "fuzzing")]
pub(crate) use self::record::Record;
pub(crate) use self::record::content_hash;
pub(crate) use self::way::Way;
use crate::engine::{CloudStore, Engine};
use crate::people::in_common;
pub(crate) use bluetick_archive::SegmentRef;

/// What a node remembers about the archive.
pub(crate) struct Archiver {
    pub object_archive: Option<Arc<ObjectArchive>>,
    pub settings: ArchiveSettings,
    /// Which store the objects are of, the same for all nodes.
    tag: OnceCell<[u8; 8]>,
    /// Held by the one job that runs here.
    job: tokio::sync::Mutex<()>,
    pub state: ArchiverState,
}

/// The shared text that says which store this is.
const TAG: &str = "archive-store";

impl Archiver {
    pub fn new(object_archive: Option<Arc<ObjectArchive>>, settings: ArchiveSettings) -> Archiver {
        Archiver {
            object_archive,
            settings,
            tag: OnceCell::new(),
            job: tokio::sync::Mutex::default(),
            state: ArchiverState::default(),
        }
    }
}

#[async_trait]
impl Archive for CloudStore {
    async fn status(&self) -> Result<ArchiveStatus, ArchiveError> {
        self.engine.archive_status().await
    }

    async fn run(&self, request: ArchiveRun, progress: Arc<dyn Progress>) -> Result<RunReport, ArchiveError> {
        self.engine.run_archive(&request, &*progress).await
    }

    async fn verify(&self, progress: Arc<dyn Progress>) -> Result<VerifyReport, ArchiveError> {
        let mut job = self.engine.begin_job().await?;
        let outcome = jobs::verify(&mut job, &*progress).await;
        job.end(outcome).await
    }

    async fn restore(
        &self,
        conversation: Option<ConversationId>,
        progress: Arc<dyn Progress>,
    ) -> Result<RestoreReport, ArchiveError> {
        let mut job = self.engine.begin_job().await?;
        let outcome = jobs::restore(&mut job, conversation, &*progress).await;
        job.end(outcome).await
    }

    async fn erase(&self, erase: Erase, progress: Arc<dyn Progress>) -> Result<EraseReport, ArchiveError> {
        let mut job = self.engine.begin_job().await?;
        let outcome = jobs::erase(&mut job, &erase, &*progress).await;
        job.end(outcome).await
    }

    fn counters(&self) -> ArchiveCounters {
        let archive = &self.engine.archive;
        archive.state.counters(archive.object_archive.as_deref())
    }
}

impl Engine {
    /// Made by whoever asks first.
    pub(crate) async fn archive_tag(&self) -> Result<[u8; 8], StoreError> {
        let tag = self.archive.tag.get_or_try_init(|| async {
            let mut ours = [0; 8];
            SystemRandom.fill(&mut ours);
            let ours = format!("{:016x}", u64::from_be_bytes(ours));
            let text = in_common(&*self.rows, TAG, &ours).await?;
            let tag = u64::from_str_radix(&text, 16);
            tag.map(u64::to_be_bytes)
                .map_err(|_| StoreError::Damaged("the name of this store in the archive".into()))
        });
        tag.await.copied()
    }

    async fn archive_status(&self) -> Result<ArchiveStatus, ArchiveError> {
        let ((shared, _), noted) = (self.read_shared().await?, self.noted_erasures().await?);
        let last_run = LastRun { at: shared.last_run_at, paused: shared.paused.clone() };
        self.archive.state.set_last_run(last_run);
        Ok(ArchiveStatus {
            place: self
                .archive
                .object_archive
                .as_ref()
                .map_or_else(String::new, |object_archive| object_archive.place()),
            cold: shared.cold,
            // What the tables take is the engine's to say.
            hot_file_bytes: 0,
            hot_free_bytes: 0,
            kept_hot: shared.kept_hot,
            unfinished_erasures: noted.unfinished(),
        })
    }

    async fn run_archive(
        &self,
        request: &ArchiveRun,
        progress: &dyn Progress,
    ) -> Result<RunReport, ArchiveError> {
        let mut job = self.begin_job().await?;
        let outcome = jobs::run(&mut job, request, progress).await;
        job.end(outcome).await
    }
}
