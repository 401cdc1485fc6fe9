//! `bluetick backup`: copies the data directory to another directory or to a bucket.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use bluetick_wire::http::BackupRequest;

use super::archive::carry_out;
use crate::archive::ArchiveTask;
use crate::cli::BackupArgs;
use crate::failure::Failure;
use crate::settings::{Inputs, Loaded, StoreEngine};

pub fn run(arguments: &BackupArgs) -> Result<(), Failure> {
    let settings = Loaded::load(&Inputs::of_this_process(arguments.places.flags()))?.settings;
    if settings.store.engine != StoreEngine::Embedded {
        return Err(Failure::usage(
            "this copies the data directory of the embedded store; the tables of a fleet are backed up by their engine \
             (point-in-time recovery, docs/guides/fleet.md)",
        ));
    }
    let to = match arguments.to.contains("://") {
        true => arguments.to.clone(),
        // The server has another working directory, so a relative path would name another place.
        false => {
            let whole = std::path::absolute(&arguments.to);
            let whole = whole.map_err(|error| Failure::usage(format!("{}: {error}", arguments.to)))?;
            whole
                .into_os_string()
                .into_string()
                .map_err(|_| Failure::usage("the path of a backup must be UTF-8"))?
        }
    };
    let keys = match (arguments.with_keys, arguments.without_keys) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    };
    carry_out(
        &ArchiveTask::Backup(BackupRequest { to: to.clone(), keys }),
        &arguments.places,
        arguments.output,
    )?;
    if let Some(mode) = open_mode(Path::new(&to)) {
        eprintln!("bluetick: other users can read {to} (mode {mode:04o}); only its owner should be able to");
    }
    Ok(())
}

/// Returns the mode of an existing directory if its group or others have any permission.
fn open_mode(directory: &Path) -> Option<u32> {
    let mode = fs::metadata(directory).ok()?.permissions().mode() & 0o7777;
    (mode & 0o077 != 0).then_some(mode)
}
