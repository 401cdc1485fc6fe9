//! The archive commands of an operator. They work on the data directory or the tables directly, or
//! through the server that uses the directory.
//!
//! Both paths use the bodies of the HTTP calls, so the output and `--json` are the same.

mod local;
mod meter;
mod remote;
mod table;

use bluetick_server::audit::{Act, Subject};
use bluetick_wire::http::{
    ArchiveBody, ArchiveRunRequest, BackupRequest, ErasureRequest, ReportBody, RestoreRequest,
};

use self::local::LocalArchive;
pub use self::meter::JobMeter;
use self::remote::RemoteArchive;
pub use self::table::{reported, status};
use crate::audit::audited;
use crate::failure::Failure;
use crate::settings::{Settings, StoreEngine};
use crate::store::CannotOpen;

/// A job for the archive.
pub enum ArchiveTask {
    Run(ArchiveRunRequest),
    Verify,
    Restore(RestoreRequest),
    Erase(ErasureRequest),
    Backup(BackupRequest),
}

impl ArchiveTask {
    /// The audit entry of the task. An invalid request has no subject; it is refused later.
    fn audited_as(&self) -> (Act, Option<Subject>) {
        match self {
            ArchiveTask::Run(request) => {
                let only = request.run().ok().and_then(|run| run.only);
                (Act::ArchiveRun, only.map(Subject::conversation))
            }
            ArchiveTask::Verify => (Act::ArchiveVerify, None),
            ArchiveTask::Restore(request) => {
                let conversation = request.conversation().ok().flatten();
                (Act::ArchiveRestore, conversation.map(Subject::conversation))
            }
            ArchiveTask::Erase(request) => (Act::Erase, request.erase().ok().map(|erase| erase.scope.into())),
            ArchiveTask::Backup(_) => (Act::Backup, None),
        }
    }
}

pub enum ArchiveClient {
    /// Holds the settings too, because they name the audit trail.
    Store(LocalArchive, Box<Settings>),
    Server(RemoteArchive),
}

impl ArchiveClient {
    /// Opens the store, or connects to the server that uses it. A missing data directory or archive
    /// directory is a usage error, because the path is probably mistyped.
    pub fn open(settings: &Settings) -> Result<ArchiveClient, Failure> {
        let data_dir = &settings.store.data_dir;
        if settings.store.engine == StoreEngine::Embedded && !data_dir.exists() {
            return Err(Failure::usage(format!("the data directory {} does not exist", data_dir.display())));
        }
        if settings.store.engine == StoreEngine::DynamoDb
            && let Some(directory) = settings.missing_archive()
        {
            let advice = match settings.archive.directory.as_ref().is_some_and(|given| given.is_absolute()) {
                true => "mount it under the path that the nodes use (archive.directory)",
                false => "pass a node's --data-dir, or set archive.directory to a path that all nodes mount",
            };
            let directory = directory.display();
            return Err(Failure::usage(format!(
                "the archive directory {directory} does not exist on this machine; {advice}"
            )));
        }
        match LocalArchive::open(settings) {
            Ok(client) => Ok(ArchiveClient::Store(client, Box::new(settings.clone()))),
            Err(CannotOpen::InUse { address: Some(address), .. }) => {
                RemoteArchive::open(settings, address).map(ArchiveClient::Server)
            }
            Err(error) => Err(error.into()),
        }
    }

    pub fn status(&self) -> Result<ArchiveBody, Failure> {
        match self {
            ArchiveClient::Store(client, _) => client.status(),
            ArchiveClient::Server(client) => client.status(),
        }
    }

    /// Runs the task and waits until it ends or the operator interrupts it.
    pub fn carry_out(&self, task: &ArchiveTask, meter: JobMeter) -> Result<ReportBody, Failure> {
        match self {
            ArchiveClient::Store(client, settings) => {
                let (act, subject) = task.audited_as();
                audited(settings, act, subject, || client.carry_out(task, meter))
            }
            ArchiveClient::Server(client) => client.carry_out(task, &meter),
        }
    }

    /// Closes the store. Completed work is durable before.
    pub fn close(self) {
        if let ArchiveClient::Store(client, _) = self {
            client.close();
        }
    }
}
