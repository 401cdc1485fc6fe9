//! The archive as an operator works with it: on the data directory or the tables themselves, or through the server that is
//! using the directory.
//! Both speak the bodies of the HTTP calls, so what is shown and what `--json` prints is the same either way.

mod here;
mod meter;
mod running;
mod table;

use bluetick_server::audit::{Act, Subject};
use bluetick_wire::http::{
    ArchiveBody, ArchiveRunRequest, BackupRequest, ErasureRequest, ReportBody, RestoreRequest,
};

use self::here::StoreDesk;
pub use self::meter::Meter;
use self::running::ServerDesk;
pub use self::table::{reported, status};
use crate::audit::audited;
use crate::failure::Failure;
use crate::settings::{Engine, Settings};
use crate::store::CannotOpen;

/// What is to be done.
pub enum Task {
    Run(ArchiveRunRequest),
    Verify,
    Restore(RestoreRequest),
    Erase(ErasureRequest),
    Backup(BackupRequest),
}

impl Task {
    /// What is written down about it. What means nothing is refused later, and is about nobody.
    fn audited_as(&self) -> (Act, Option<Subject>) {
        match self {
            Task::Run(request) => {
                let only = request.run().ok().and_then(|run| run.only);
                (Act::ArchiveRun, only.map(Subject::conversation))
            }
            Task::Verify => (Act::ArchiveVerify, None),
            Task::Restore(request) => {
                let conversation = request.conversation().ok().flatten();
                (Act::ArchiveRestore, conversation.map(Subject::conversation))
            }
            Task::Erase(request) => (Act::Erase, request.erase().ok().map(|erase| erase.scope.into())),
            Task::Backup(_) => (Act::Backup, None),
        }
    }
}

pub enum Desk {
    /// With the settings, which say where what is done is written down.
    Store(StoreDesk, Box<Settings>),
    Server(ServerDesk),
}

impl Desk {
    /// A directory that is not there is a mistyped one.
    pub fn open(settings: &Settings) -> Result<Desk, Failure> {
        let data_dir = &settings.store.data_dir;
        if settings.store.engine == Engine::Embedded && !data_dir.exists() {
            return Err(Failure::usage(format!("there is no data directory {}", data_dir.display())));
        }
        if settings.store.engine == Engine::DynamoDb
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
        match StoreDesk::open(settings) {
            Ok(desk) => Ok(Desk::Store(desk, Box::new(settings.clone()))),
            Err(CannotOpen::InUse { address: Some(address), .. }) => {
                ServerDesk::open(settings, address).map(Desk::Server)
            }
            Err(error) => Err(error.into()),
        }
    }

    pub fn status(&self) -> Result<ArchiveBody, Failure> {
        match self {
            Desk::Store(desk, _) => desk.status(),
            Desk::Server(desk) => desk.status(),
        }
    }

    /// Does it and waits for its end, or until the person at the keyboard has enough.
    pub fn carry_out(&self, task: &Task, meter: Meter) -> Result<ReportBody, Failure> {
        match self {
            Desk::Store(desk, settings) => {
                let (act, subject) = task.audited_as();
                audited(settings, act, subject, || desk.carry_out(task, meter))
            }
            Desk::Server(desk) => desk.carry_out(task, &meter),
        }
    }

    /// Lets go of the store; what was done is durable before.
    pub fn close(self) {
        if let Desk::Store(desk, _) = self {
            desk.close();
        }
    }
}
