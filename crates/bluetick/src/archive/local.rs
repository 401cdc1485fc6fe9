//! Runs archive jobs in this process, on a data directory that no server uses or on the tables of
//! a fleet.

use std::sync::Arc;

use bluetick_core::ports::{Archive, ArchiveError, NoObserver, Progress, Store};
use bluetick_wire::http::{ArchiveBody, ReportBody};
use tokio::runtime::{self, Runtime};

use super::{ArchiveTask, JobMeter};
use crate::failure::Failure;
use crate::settings::Settings;
use crate::stop_signals::StopSignals;
use crate::store::{CannotOpen, OpenStore};

pub struct LocalArchive {
    runtime: Runtime,
    store: Arc<dyn Store>,
    archive: Arc<dyn Archive>,
}

impl LocalArchive {
    pub fn open(settings: &Settings) -> Result<LocalArchive, CannotOpen> {
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a process can start a thread");
        let open = OpenStore::open(settings, None, Arc::new(NoObserver), runtime.handle())?;
        Ok(LocalArchive { runtime, store: open.store(), archive: open.archive() })
    }

    pub fn status(&self) -> Result<ArchiveBody, Failure> {
        let status = self.runtime.block_on(self.archive.status()).map_err(failure)?;
        Ok(ArchiveBody::new(status, self.archive.counters(), None, None))
    }

    pub fn carry_out(&self, task: &ArchiveTask, meter: JobMeter) -> Result<ReportBody, Failure> {
        self.runtime.block_on(async {
            let mut stop = StopSignals::listen()?;
            let meter = Arc::new(meter);
            let work = run(&*self.archive, task, Arc::clone(&meter) as Arc<dyn Progress>);
            tokio::pin!(work);
            let done = tokio::select! {
                done = &mut work => done,
                _signal = stop.next() => {
                    meter.say("stopping; a second signal stops immediately");
                    tokio::select! {
                        // Closing the store ends the job.
                        (done, ()) = async { tokio::join!(&mut work, self.store.close()) } => done,
                        // Completed steps are durable, so exiting at once is safe.
                        _signal = stop.next() => std::process::exit(1),
                    }
                }
            };
            meter.clear();
            done?.map_err(failure)
        })
    }

    pub fn close(self) {
        self.runtime.block_on(self.store.close());
    }
}

/// Runs the task. The outer error is an invalid request, the inner one a failed job.
async fn run(
    archive: &dyn Archive,
    task: &ArchiveTask,
    progress: Arc<dyn Progress>,
) -> Result<Result<ReportBody, ArchiveError>, Failure> {
    Ok(match task {
        ArchiveTask::Run(request) => {
            archive.run(request.run().map_err(Failure::usage)?, progress).await.map(Into::into)
        }
        ArchiveTask::Verify => archive.verify(progress).await.map(Into::into),
        ArchiveTask::Restore(request) => {
            let conversation = request.conversation().map_err(Failure::usage)?;
            archive.restore(conversation, progress).await.map(Into::into)
        }
        ArchiveTask::Erase(request) => {
            archive.erase(request.erase().map_err(Failure::usage)?, progress).await.map(Into::into)
        }
        ArchiveTask::Backup(request) => {
            archive.backup(request.backup().map_err(Failure::usage)?, progress).await.map(Into::into)
        }
    })
}

fn failure(error: ArchiveError) -> Failure {
    match error {
        ArchiveError::Off | ArchiveError::Refused(_) => Failure::usage(error),
        ArchiveError::Stopped => {
            Failure::failed("stopped; completed work stays, and the same command continues from there")
        }
        other => Failure::failed(other),
    }
}
