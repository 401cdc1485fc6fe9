//! What the object store over a directory leaves to us: files of puts that were cut off, and deletions that last.
//!
//! A put writes a file beside the object, `<name>#<digits>`, and renames it. A crash in between leaves that file, with
//! the text of messages in it, and no list shows it.

use std::io;
use std::path::Path;

use crate::SegmentName;
use crate::engine::sync_directory;
use crate::marker;

/// Fails where the directory is gone, such as a volume that is not mounted. A put would make it anew, and a list would
/// find it empty.
pub(crate) fn is_there(root: &Path) -> io::Result<u64> {
    if root.is_dir() { Ok(0) } else { Err(io::Error::new(io::ErrorKind::NotFound, "it is not there")) }
}

/// Makes an object that is there outlast a power loss, with the directories on the way to it.
pub(crate) fn settle_put(root: &Path, object: &str) -> io::Result<u64> {
    let object = root.join(object);
    std::fs::File::open(&object)?.sync_all()?;
    for directory in object.ancestors().skip(1).take_while(|ancestor| ancestor.starts_with(root)) {
        sync_directory(directory)?;
    }
    Ok(0)
}

/// Makes the deletion of an object last through a power loss, and takes what earlier puts of it left.
pub(crate) fn settle_deletion(root: &Path, object: &str) -> io::Result<u64> {
    let object = root.join(object);
    let mut swept = 0;
    if let (Some(directory), Some(name)) = (object.parent(), object.file_name()) {
        swept = sweep_files(directory, &|file| staged_for(file) == name.to_str())?;
    }
    // A directory that went with its last object is gone from the one above it.
    let nearest = object.ancestors().skip(1).find(|ancestor| ancestor.is_dir());
    nearest.map_or(Ok(()), sync_directory)?;
    Ok(swept)
}

/// Takes all that puts left below one store's directory.
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

/// The name of the object a file was staged for.
fn staged_for(file: &str) -> Option<&str> {
    let (name, number) = file.split_once('#')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(name)
}

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

/// What is in a directory; nothing where there is none.
fn entries(directory: &Path) -> io::Result<impl Iterator<Item = io::Result<std::fs::DirEntry>>> {
    match std::fs::read_dir(directory) {
        Ok(entries) => Ok(Some(entries).into_iter().flatten()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None.into_iter().flatten()),
        Err(error) => Err(error),
    }
}
