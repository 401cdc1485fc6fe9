//! Fuzz target for archive segments as an object store may return them.

use bluetick_archive::segment::{self, decode_block};
use bluetick_archive::{BlockRef, SegmentName};

use crate::choice;

/// Size of a segment header with its checksum, in bytes. It must match the format in
/// `bluetick_archive`.
const HEADER_BYTES: usize = 53;
/// Size of an index entry, in bytes. It must match the format in `bluetick_archive`.
const ENTRY_BYTES: usize = 24;
/// Size of a segment footer, in bytes. It must match the format in `bluetick_archive`.
const FOOTER_BYTES: usize = 20;

pub fn any_segment(bytes: &[u8]) {
    match choice(bytes, 3) {
        None => {}
        Some((0, bytes)) => opened(bytes),
        Some((1, bytes)) => opened(&with_checksums(bytes)),
        Some((_, bytes)) => one_block(bytes),
    }
}

fn opened(bytes: &[u8]) {
    let Ok(opened) = segment::open(bytes) else { return };
    let records: Vec<Vec<&[u8]>> = opened.blocks.iter().map(|(_, block)| block.records().collect()).collect();
    assert_eq!(opened.records().count() as u64, opened.name.count());
    assert_eq!(opened.name.to_string().parse::<SegmentName>(), Ok(opened.name));
    let sealed = segment::seal(&opened.name, &records);
    let again = segment::open(&sealed.bytes).expect("the lines above sealed it");
    assert_eq!(again.name, opened.name);
    assert!(again.records().eq(opened.records()));
}

/// Decodes one block as returned by a range read. The input sets the uncompressed length.
fn one_block(bytes: &[u8]) {
    let Some((raw_length, stored)) = bytes.split_first_chunk() else { return };
    let block = BlockRef {
        offset: 0,
        length: stored.len() as u32,
        raw_length: u32::from_le_bytes(*raw_length),
        checksum: crc32fast::hash(stored),
    };
    if let Ok(unpacked) = decode_block(stored, &block) {
        assert!(!unpacked.is_empty());
        let taken: usize = unpacked.records().map(<[u8]>::len).sum();
        assert!(taken <= block.raw_length as usize);
        assert_eq!(unpacked.record(unpacked.len()), None);
    }
}

/// Corrects the checksums of the header, of each block in the index, of the index and of the
/// footer.
fn with_checksums(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if bytes.len() < HEADER_BYTES + FOOTER_BYTES {
        return bytes;
    }
    let footer = bytes.len() - FOOTER_BYTES;
    let header = crc32fast::hash(&bytes[..HEADER_BYTES - 4]);
    bytes[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&header.to_le_bytes());
    let index = u64::from_le_bytes(bytes[footer..footer + 8].try_into().expect("eight bytes"));
    if let Some(index) = usize::try_from(index).ok().filter(|index| *index <= footer) {
        for at in (index..footer.saturating_sub(ENTRY_BYTES - 1)).step_by(ENTRY_BYTES) {
            let offset = u64::from_le_bytes(bytes[at + 4..at + 12].try_into().expect("eight bytes"));
            let length = u32::from_le_bytes(bytes[at + 12..at + 16].try_into().expect("four bytes"));
            let stored =
                usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)?.get(..length as usize));
            if let Some(checksum) = stored.map(crc32fast::hash) {
                bytes[at + 20..at + 24].copy_from_slice(&checksum.to_le_bytes());
            }
        }
        let entries = crc32fast::hash(&bytes[index..footer]);
        bytes[footer + 12..footer + 16].copy_from_slice(&entries.to_le_bytes());
    }
    let last = crc32fast::hash(&bytes[footer..footer + 16]);
    bytes[footer + 16..].copy_from_slice(&last.to_le_bytes());
    bytes
}
