//! Checks whether files and directories are usable. Every check leaves them as they were.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access, statvfs};

/// Returns why `path` is not a writable directory. A missing directory is fine if it could be
/// created.
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

/// Returns why a directory could not be created, judged by its nearest existing ancestor.
fn missing(path: &Path) -> Option<String> {
    for above in with_ancestors(path) {
        match fs::metadata(above) {
            Ok(found) if !found.is_dir() => {
                return Some(format!("cannot be created: {} is not a directory", above.display()));
            }
            Ok(_) => {
                let needed = Access::WRITE_OK | Access::EXEC_OK;
                let refused =
                    access(above, needed).map_err(io::Error::from).and_then(|()| can_hold_entries(above));
                return refused
                    .err()
                    .map(|error| format!("cannot be created in {}: {error}", above.display()));
            }
            // The name exists, but its target does not.
            Err(error) if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(above).is_ok() => {
                return Some(format!(
                    "cannot be created: {} is a symbolic link to a missing path",
                    above.display()
                ));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Some(format!("cannot be created: {}: {error}", above.display())),
        }
    }
    None
}

/// The path and every directory above it, up to the root or the working directory.
fn with_ancestors(path: &Path) -> impl Iterator<Item = &Path> {
    path.ancestors().map(|above| if above.as_os_str().is_empty() { Path::new(".") } else { above })
}

/// Returns why the file system of `path` has less than `needed` free bytes. `path` may be missing
/// if one of its ancestors exists.
pub fn free_space(path: &Path, needed: u64) -> Option<String> {
    let disk = with_ancestors(path).find_map(|above| statvfs(above).ok())?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    (free < needed).then(|| format!("needs {needed} bytes of free space, and its file system has {free}"))
}

/// Creates a directory in `directory` and removes it. Permission bits do not show a kernel file
/// system such as `/proc`, nor a file system without free inodes.
fn can_hold_entries(directory: &Path) -> io::Result<()> {
    let probe = probe_in(directory);
    // A check that was killed leaves its directory, and the system reuses process ids.
    ignoring(io::ErrorKind::AlreadyExists, fs::create_dir(&probe))?;
    // Another check with the same process id, in another container, may have removed it.
    ignoring(io::ErrorKind::NotFound, fs::remove_dir(&probe))
}

fn ignoring(kind: io::ErrorKind, result: io::Result<()>) -> io::Result<()> {
    result.or_else(|error| if error.kind() == kind { Ok(()) } else { Err(error) })
}

fn probe_in(directory: &Path) -> PathBuf {
    directory.join(format!(".bluetick-config-check-{}", std::process::id()))
}

/// Returns why a file is not readable and writable. A missing file is fine.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probe_directory_left_by_a_killed_check_is_reused_and_removed() {
        let parent = tempfile::tempdir().unwrap();
        let probe = probe_in(parent.path());
        fs::create_dir(&probe).unwrap();
        assert_eq!(directory(parent.path()), None);
        assert!(!probe.exists());
    }
}
