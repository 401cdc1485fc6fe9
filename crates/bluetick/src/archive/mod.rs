//! The archive as an operator works with it: on the data directory or the tables themselves, or through the server that is
//! using the directory.
//! Both speak the bodies of the HTTP calls, so what is shown and what `--json` prints is the same either way.

mod here;
mod meter;
mod running;
mod table;

use bluetick_wire::http::{ArchiveBody, ArchiveRunRequest, ErasureRequest, ReportBody, RestoreRequest};

use self::here::StoreDesk;
pub use self::meter::Meter;
use self::running::ServerDesk;
pub use self::table::{reported, status};
use crate::failure::Failure;
use crate::settings::{Engine, Settings};
use crate::store::CannotOpen;

/// What is to be done.
pub enum Task {
    Run(ArchiveRunRequest),
    Verify,
    Restore(RestoreRequest),
    Erase(ErasureRequest),
}

pub enum Desk {
    Store(StoreDesk),
    Server(ServerDesk),
}

impl Desk {
    /// A directory that is not there is a mistyped one.
    pub fn open(settings: &Settings) -> Result<Desk, Failure> {
        let data_dir = &settings.store.data_dir;
        if settings.store.engine == Engine::Embedded && !data_dir.exists() {
            return Err(Failure::usage(format!("there is no data directory {}", data_dir.display())));
        }
        match StoreDesk::open(settings) {
            Ok(desk) => Ok(Desk::Store(desk)),
            Err(CannotOpen::InUse { address: Some(address), .. }) => {
                ServerDesk::open(settings, address).map(Desk::Server)
            }
            Err(error) => Err(error.into()),
        }
    }

    pub fn status(&self) -> Result<ArchiveBody, Failure> {
        match self {
            Desk::Store(desk) => desk.status(),
            Desk::Server(desk) => desk.status(),
        }
    }

    /// Does it and waits for its end, or until the person at the keyboard has enough.
    pub fn carry_out(&self, task: &Task, meter: Meter) -> Result<ReportBody, Failure> {
        match self {
            Desk::Store(desk) => desk.carry_out(task, meter),
            Desk::Server(desk) => desk.carry_out(task, &meter),
        }
    }

    /// Lets go of the store; what was done is durable before.
    pub fn close(self) {
        if let Desk::Store(desk) = self {
            desk.close();
        }
    }
}
