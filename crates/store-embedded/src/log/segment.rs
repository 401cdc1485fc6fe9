//! A segment file: its name and its header.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::{BatchNumber, LogError, SegmentNumber, StoreTag};

/// Marks a segment file. Part of the on-disk format.
const MAGIC: &[u8; 8] = b"BLUETLOG";
/// The newest format version that this program reads, and the one it writes. Raise it when older
/// programs would misread a segment.
pub const FORMAT_VERSION: u32 = 1;
/// The length of the header in bytes. Part of the on-disk format.
const HEADER_BYTES: usize = 48;
/// The offset of the first batch in bytes. Batches start on the second page, so no batch write
/// touches the header's page. Part of the on-disk format.
pub const FIRST_FRAME: u64 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    pub number: SegmentNumber,
    pub tag: StoreTag,
    /// The first batch of this segment. A frame in the previous segment with this number or a
    /// higher one was never acknowledged.
    pub first_batch: BatchNumber,
    /// The length of the file at its creation. A shorter file has lost data.
    pub length: u64,
}

impl SegmentHeader {
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.number.0.to_le_bytes());
        bytes[20..28].copy_from_slice(&self.first_batch.0.to_le_bytes());
        bytes[28..36].copy_from_slice(&self.tag.0);
        bytes[36..44].copy_from_slice(&self.length.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..44]);
        bytes[44..48].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Returns `None` if there is no complete, undamaged header. Fails for a newer format version.
    pub fn read(bytes: &[u8], path: &Path) -> Result<Option<SegmentHeader>, LogError> {
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let word = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
        let checksum = u32::from_le_bytes(header[44..48].try_into().expect("four bytes"));
        if header[0..8] != *MAGIC || crc32fast::hash(&header[..44]) != checksum {
            return Ok(None);
        }
        let found = u32::from_le_bytes(header[8..12].try_into().expect("four bytes"));
        if found > FORMAT_VERSION {
            return Err(LogError::TooNew { path: path.to_owned(), found, known: FORMAT_VERSION });
        }
        Ok(Some(SegmentHeader {
            number: SegmentNumber(word(12)),
            first_batch: BatchNumber(word(20)),
            tag: StoreTag(header[28..36].try_into().expect("eight bytes")),
            length: word(36),
        }))
    }
}

pub fn path_of(directory: &Path, number: SegmentNumber) -> PathBuf {
    directory.join(format!("{:020}.log", number.0))
}

fn number_of(path: &Path) -> Option<SegmentNumber> {
    let name = path.file_name()?.to_str()?.strip_suffix(".log")?;
    name.parse().ok().map(SegmentNumber)
}

/// Returns the segments of a log, oldest first.
pub fn list(directory: &Path) -> io::Result<Vec<(SegmentNumber, PathBuf)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        found.extend(number_of(&path).map(|number| (number, path)));
    }
    found.sort();
    Ok(found)
}

pub fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

pub fn read_header(path: &Path) -> Result<Option<SegmentHeader>, LogError> {
    let io_error = |error| LogError::Io { path: path.to_owned(), error };
    let file = File::open(path).map_err(io_error)?;
    let mut bytes = [0; HEADER_BYTES];
    match file.read_exact_at(&mut bytes, 0) {
        Ok(()) => SegmentHeader::read(&bytes, path),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(io_error(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::testing::hex;

    fn header() -> SegmentHeader {
        SegmentHeader {
            number: SegmentNumber(3),
            tag: StoreTag(*b"storetag"),
            first_batch: BatchNumber(9),
            length: 8192,
        }
    }

    #[test]
    fn segment_header_matches_bytes_of_version_1() {
        assert_eq!(
            hex(&header().encode()),
            "424c5545 544c4f47 01000000 03000000 00000000 09000000 00000000 73746f72 65746167 00200000 00000000 25d08a1b"
        );
        assert_eq!(SegmentHeader::read(&header().encode(), Path::new("x")).unwrap(), Some(header()));
    }

    #[test]
    fn segment_of_newer_version_is_refused() {
        let mut bytes = header().encode();
        bytes[8] = 2;
        let checksum = crc32fast::hash(&bytes[..44]);
        bytes[44..48].copy_from_slice(&checksum.to_le_bytes());
        let refused = SegmentHeader::read(&bytes, Path::new("x"));
        assert!(matches!(refused, Err(LogError::TooNew { found: 2, known: 1, .. })));
    }

    #[test]
    fn damaged_segment_header_is_not_read() {
        let mut bytes = header().encode();
        bytes[13] ^= 1;
        assert_eq!(SegmentHeader::read(&bytes, Path::new("x")).unwrap(), None);
    }
}
