//! Checks whether files and directories are usable. Every check leaves them as they were.

use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::{Access, access};

/// Why `path` could not be a directory to write into. One that is missing is fine where it could be made.
pub fn directory(path: &Path) -> Option<String> {
    match fs::metadata(path) {
        Ok(found) if !found.is_dir() => Some("is not a directory".to_owned()),
        Ok(_) => {
            let needed = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
            let refused = access(path, needed).map_err(io::Error::from).and_then(|()| can_hold_entries(path));
            refused.err().map(|error| format!("cannot be written to: {error}"))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => missing(path),
        Err(error) => Some(error.to_string()),
    }
}

/// Why a directory could not be made, judged by the nearest one above that is there.
fn missing(path: &Path) -> Option<String> {
    let above = path.ancestors().skip(1);
    let above = above.map(|above| if above.as_os_str().is_empty() { Path::new(".") } else { above });
    for above in above {
        match fs::metadata(above) {
            Ok(found) if !found.is_dir() => {
                return Some(format!("cannot be made: {} is not a directory", above.display()));
            }
            Ok(_) => {
                let needed = Access::WRITE_OK | Access::EXEC_OK;
                let refused =
                    access(above, needed).map_err(io::Error::from).and_then(|()| can_hold_entries(above));
                return refused
                    .err()
                    .map(|error| format!("cannot be made in {}: {error}", above.display()));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Some(format!("cannot be made: {}: {error}", above.display())),
        }
    }
    None
}

/// Creates a directory in `directory` and removes it. Permission bits do not show a kernel file system
/// such as `/proc`, nor a file system without free inodes.
fn can_hold_entries(directory: &Path) -> io::Result<()> {
    let probe = directory.join(format!(".bluetick-config-check-{}", std::process::id()));
    fs::create_dir(&probe)?;
    fs::remove_dir(&probe)
}

/// Why a file could not be read and written. One that is missing is fine.
pub fn file_if_there(path: &Path) -> Option<String> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Some("is a directory".to_owned()),
        Ok(_) => access(path, Access::READ_OK | Access::WRITE_OK)
            .err()
            .map(|error| format!("cannot be read and written: {}", io::Error::from(error))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => Some(error.to_string()),
    }
}
