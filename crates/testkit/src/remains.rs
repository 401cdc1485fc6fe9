//! Finds texts in the files of a directory, in plain form and inside zstd frames that begin
//! anywhere. It includes free pages, gaps and spare files.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

/// First bytes of every zstd frame.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Upper bound on the decoded bytes of a zstd frame, above the size of the largest chunk. Bytes
/// that only look like a frame fail much earlier.
const MOST_DECODED_BYTES: u64 = 64 << 20;

/// Returns each of `texts` that a file below `directory` still contains, with the file.
pub fn remains(directory: &Path, texts: &[String]) -> BTreeSet<(String, PathBuf)> {
    let mut found = BTreeSet::new();
    for path in files_below(directory) {
        // The server may delete a file between listing and reading.
        let Ok(bytes) = std::fs::read(&path) else { continue };
        for used in used_parts(&bytes) {
            search(used, texts, &path, &mut found);
            let frames = used.windows(4).enumerate().filter(|(_, four)| *four == ZSTD_MAGIC);
            for (at, _) in frames {
                search(&decoded(&used[at..]), texts, &path, &mut found);
            }
        }
    }
    found
}

/// Splits off runs of zero blocks, which make up most of a log file.
fn used_parts(bytes: &[u8]) -> Vec<&[u8]> {
    /// Size of a block that is tested for zeros, in bytes. It affects only the speed.
    const BLOCK: usize = 4096;
    let (mut parts, mut begin) = (Vec::new(), None);
    for (number, block) in bytes.chunks(BLOCK).enumerate() {
        let at = number * BLOCK;
        match (begin, *block == [0; BLOCK][..block.len()]) {
            (None, false) => begin = Some(at),
            (Some(first), true) => {
                parts.push(&bytes[first..at]);
                begin = None;
            }
            _ => {}
        }
    }
    parts.extend(begin.map(|first| &bytes[first..]));
    parts
}

fn search(bytes: &[u8], texts: &[String], path: &Path, found: &mut BTreeSet<(String, PathBuf)>) {
    let Some(first) = texts.first() else { return };
    // All texts of a test share a prefix, so one pass finds all candidates.
    let common = texts.iter().fold(first.len(), |common, text| {
        first.bytes().zip(text.bytes()).take(common).take_while(|(one, other)| one == other).count()
    });
    assert!(common >= 4, "the texts have a common prefix of at least 4 bytes");
    let start = &first.as_bytes()[..common];
    for (at, _) in bytes.windows(common).enumerate().filter(|(_, window)| *window == start) {
        let here = &bytes[at..];
        for text in texts.iter().filter(|text| here.starts_with(text.as_bytes())) {
            found.insert((text.clone(), path.to_owned()));
        }
    }
}

/// Decodes as much as possible: the end of a frame may be overwritten.
fn decoded(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    if let Ok(decoder) = zstd::stream::read::Decoder::with_buffer(bytes) {
        let mut decoder = decoder.single_frame().take(MOST_DECODED_BYTES);
        let mut part = [0; 4096];
        while let Ok(length @ 1..) = decoder.read(&mut part) {
            out.extend_from_slice(&part[..length]);
        }
    }
    out
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => files.extend(files_below(&path)),
            path => files.push(path),
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remains_are_found_in_plain_compressed_and_truncated_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let texts: Vec<String> = (1..=4).map(|number| format!("secret number {number};")).collect();
        std::fs::write(directory.path().join("plain"), format!("..{}..", texts[0])).unwrap();
        std::fs::create_dir(directory.path().join("below")).unwrap();
        let whole = zstd::bulk::compress(format!("-{}-", texts[1].repeat(300)).as_bytes(), 1).unwrap();
        std::fs::write(directory.path().join("below/whole"), [b"abc", &whole[..], b"x"].concat()).unwrap();
        let noise: String = (0..40_000_u64).map(|number| format!("{:x}", number * number)).collect();
        let long = format!("{}{noise}{noise}", texts[2]);
        let long = zstd::bulk::compress(long.as_bytes(), 1).unwrap();
        std::fs::write(directory.path().join("cut"), &long[..long.len() * 9 / 10]).unwrap();
        let found: BTreeSet<_> =
            remains(directory.path(), &texts).into_iter().map(|(text, _)| text).collect();
        assert_eq!(found, texts[..3].iter().cloned().collect());
    }
}
