//! `bluetick backup`: copies everything to another place.

use bluetick_wire::http::BackupRequest;

use super::archive::carry_out;
use crate::archive::Task;
use crate::cli::BackupArgs;
use crate::failure::Failure;

pub fn run(arguments: &BackupArgs) -> Result<(), Failure> {
    let to = match arguments.to.contains("://") {
        true => arguments.to.clone(),
        // The server's working directory is another one.
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
    carry_out(&Task::Backup(BackupRequest { to, keys }), &arguments.places, arguments.output)
}
