//! File operations that the directory object store lacks: deleting temporary files of interrupted
//! puts, and syncing puts and deletions.
//!
//! A put writes a temporary file `<name>#<digits>` next to the object and renames it. A crash in
//! between leaves that file, with message content in it, and no list shows it.

use std::io;
use std::path::Path;

use crate::SegmentName;
use crate::engine::sync_directory;
use crate::marker;

/// Fails if the directory does not exist, such as on an unmounted volume. Without this check, a put
/// would create it, and a list would find it empty.
pub(crate) fn is_there(root: &Path) -> io::Result<u64> {
    if root.is_dir() { Ok(0) } else { Err(io::Error::new(io::ErrorKind::NotFound, "no such directory")) }
}

/// Syncs an existing object and its parent directories, so that it survives a power loss.
pub(crate) fn settle_put(root: &Path, object: &str) -> io::Result<u64> {
    let object = root.join(object);
    std::fs::File::open(&object)?.sync_all()?;
    for directory in object.ancestors().skip(1).take_while(|ancestor| ancestor.starts_with(root)) {
        sync_directory(directory)?;
    }
    Ok(0)
}

/// Syncs the deletion of an object, and deletes temporary files of earlier puts of it.
pub(crate) fn settle_deletion(root: &Path, object: &str) -> io::Result<u64> {
    let object = root.join(object);
    let mut swept = 0;
    if let (Some(directory), Some(name)) = (object.parent(), object.file_name()) {
        swept = sweep_files(directory, &|file| staged_for(file) == name.to_str())?;
    }
    // The directory of the object may be gone too; then sync the nearest one that exists.
    let nearest = object.ancestors().skip(1).find(|ancestor| ancestor.is_dir());
    nearest.map_or(Ok(()), sync_directory)?;
    Ok(swept)
}

/// Deletes all temporary files of puts below one store's directory and returns their number.
pub(crate) fn sweep(root: &Path, below: &str) -> io::Result<u64> {
    let store = root.join(below);
    let mut swept = sweep_files(&store, &|file| staged_for(file) == Some(marker::FILE))?;
    for entry in entries(&store)? {
        let conversation = entry?;
        if conversation.file_type()?.is_dir() {
            let is_ours = |file: &str| {
                let text = staged_for(file)
                    .map(|name| format!("{below}/{}/{name}", conversation.file_name().to_string_lossy()));
                text.is_some_and(|text| text.parse::<SegmentName>().is_ok())
            };
            swept += sweep_files(&conversation.path(), &is_ours)?;
        }
    }
    Ok(swept)
}

/// Returns the name of the object that a temporary file belongs to.
fn staged_for(file: &str) -> Option<&str> {
    let (name, number) = file.split_once('#')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(name)
}

/// Deletes the files of a directory that `is_ours` selects, syncs it, and returns their number.
fn sweep_files(directory: &Path, is_ours: &dyn Fn(&str) -> bool) -> io::Result<u64> {
    let mut swept = 0;
    for entry in entries(directory)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(is_ours) && entry.file_type()?.is_file() {
            std::fs::remove_file(entry.path())?;
            swept += 1;
        }
    }
    if swept > 0 {
        sync_directory(directory)?;
    }
    Ok(swept)
}

/// Lists a directory; empty if it does not exist.
fn entries(directory: &Path) -> io::Result<impl Iterator<Item = io::Result<std::fs::DirEntry>>> {
    match std::fs::read_dir(directory) {
        Ok(entries) => Ok(Some(entries).into_iter().flatten()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None.into_iter().flatten()),
        Err(error) => Err(error),
    }
}
