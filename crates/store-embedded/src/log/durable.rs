//! A file beside the log that records the newest durable batch.
//!
//! The last segment alone can't distinguish its end from damage: both are an unreadable frame with
//! no newer frame behind it. The writer therefore records each batch in the file `durable` after
//! the log sync returned. A log that ends before the recorded batch has lost it.
//!
//! The file is never synced. It is never newer than the log, whatever part of it the kernel has
//! written:
//!
//! - After `kill -9` it lacks at most the batch whose sync had just returned.
//! - After a power failure it may be older, torn or absent. It then claims less, or nothing.
//! - Each entry has a checksum and the tag of its store, so bytes from elsewhere claim nothing.
//! - A log loses segments only at its front, also in a scrub, so no claim has to be withdrawn.
//!
//! ```text
//! magic 4 bytes | checksum u32 | batch number u64 | segment number u64
//! | checksum of the frame u32 | store tag 8 bytes
//! ```
//! The checksum covers everything behind it. Batch `n` uses slot `n % 64`, so a torn write leaves
//! the entries of the batches before it intact.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use super::{BatchNumber, SegmentNumber, StoreTag};
use crate::disk::Disk;

/// The file's name in the log directory. Part of the on-disk format: under another name, damage at
/// the end of the log goes unnoticed.
pub const NAME: &str = "durable";
/// Marks an entry. Part of the on-disk format.
const MAGIC: &[u8; 4] = b"BTDU";
/// The length of an entry in bytes. Part of the on-disk format.
pub(super) const ENTRY_BYTES: usize = 36;
/// The distance between entries in bytes. Part of the on-disk format; must not be below
/// `ENTRY_BYTES`.
const SLOT_BYTES: usize = 64;
/// Number of the newest batches that have an entry. With one, a torn write would lose the only
/// claim. Part of the on-disk format.
const SLOTS: u64 = 64;
/// The length of the file in bytes. A file of another length is replaced.
const FILE_BYTES: u64 = SLOT_BYTES as u64 * SLOTS;

/// The claim that a batch was durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    pub batch: BatchNumber,
    pub segment: SegmentNumber,
    /// The checksum in the header of the batch's frame.
    pub frame_checksum: u32,
}

impl Claim {
    fn encode(&self, tag: StoreTag) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..4].copy_from_slice(MAGIC);
        bytes[8..16].copy_from_slice(&self.batch.0.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.segment.0.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.frame_checksum.to_le_bytes());
        bytes[28..36].copy_from_slice(&tag.0);
        let checksum = crc32fast::hash(&bytes[8..]);
        bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Returns `None` for an entry that was never written, is torn or damaged, or belongs to
    /// another store.
    fn read(slot: &[u8], tag: StoreTag) -> Option<Claim> {
        let entry = slot.first_chunk::<ENTRY_BYTES>()?;
        let word = |at: usize| u64::from_le_bytes(entry[at..at + 8].try_into().expect("eight bytes"));
        let claim = Claim {
            batch: BatchNumber(word(8)),
            segment: SegmentNumber(word(16)),
            frame_checksum: u32::from_le_bytes(entry[24..28].try_into().expect("four bytes")),
        };
        (*entry == claim.encode(tag)).then_some(claim)
    }

    /// Returns an explanation if a log whose next batch is `next` has lost the claimed batch.
    pub fn missing_from(&self, next: BatchNumber) -> Option<String> {
        (next <= self.batch).then(|| {
            let (first, last) = (next.0, self.batch.0);
            format!(
                "batches {first} to {last} are lost: log/{NAME} records them as stored (see \"Lost batches\" in \
                 docs/guides/backups.md)"
            )
        })
    }

    /// Returns an explanation if the frame with the claimed number is not the one that was stored.
    pub fn contradicts(&self, batch: BatchNumber, segment: SegmentNumber, checksum: u32) -> Option<String> {
        let is_other = self.segment != segment || self.frame_checksum != checksum;
        (batch == self.batch && is_other).then(|| {
            let number = batch.0;
            format!("batch {number} is not the stored one: its checksum differs from the one in log/{NAME}")
        })
    }
}

/// Returns the newest claim about the log in `directory`. Returns `None` without the file: in
/// backups, in copies older than the file, and after an operator deleted it to accept a loss.
pub fn newest_claim(directory: &Path, tag: StoreTag) -> Option<Claim> {
    let bytes = match std::fs::read(directory.join(NAME)) {
        Ok(bytes) => bytes,
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!(%error, "file log/durable unreadable; damage at the end of the log may go unnoticed");
            }
            return None;
        }
    };
    bytes.chunks(SLOT_BYTES).filter_map(|slot| Claim::read(slot, tag)).max_by_key(|claim| claim.batch)
}

/// Writes the claims. A failed write loses the claim, not the batch.
pub struct ClaimFile {
    file: Option<File>,
    disk: Disk,
    tag: StoreTag,
    is_failing: bool,
}

impl ClaimFile {
    pub fn open(directory: &Path, disk: &Disk, tag: StoreTag) -> ClaimFile {
        let path = directory.join(NAME);
        let existing = OpenOptions::new().read(true).write(true).open(&path);
        let file = match existing {
            Ok(file) if file.metadata().is_ok_and(|metadata| metadata.len() == FILE_BYTES) => Ok(file),
            // Allocates the blocks now, so that a full disk cannot refuse them later.
            _ => disk.create_zeroed(&path, FILE_BYTES),
        };
        let mut notes = ClaimFile { file: None, disk: disk.clone(), tag, is_failing: false };
        match file {
            Ok(file) => notes.file = Some(file),
            Err(error) => notes.failed(&error),
        }
        notes
    }

    /// Records a claim. Call it only after the sync of the batch returned.
    pub fn note(&mut self, claim: &Claim) {
        let Some(file) = &self.file else { return };
        let offset = claim.batch.0 % SLOTS * SLOT_BYTES as u64;
        match self.disk.write_at(file, &claim.encode(self.tag), offset) {
            Ok(()) => self.is_failing = false,
            Err(error) => self.failed(&error),
        }
    }

    /// Logs the first failure; stays silent until a write succeeds again.
    fn failed(&mut self, error: &io::Error) {
        if !self.is_failing {
            tracing::warn!(%error, "file log/durable not written; damage at the end of the log may go unnoticed");
        }
        self.is_failing = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::testing::hex;

    const TAG: StoreTag = StoreTag(*b"storetag");

    fn claim(batch: u64) -> Claim {
        Claim { batch: BatchNumber(batch), segment: SegmentNumber(3), frame_checksum: 9 }
    }

    #[test]
    fn claim_matches_stored_bytes() {
        assert_eq!(
            hex(&claim(7).encode(TAG)),
            "42544455 2af60106 07000000 00000000 03000000 00000000 09000000 73746f72 65746167"
        );
        assert_eq!(Claim::read(&claim(7).encode(TAG), TAG), Some(claim(7)));
    }

    #[test]
    fn torn_flipped_or_foreign_entry_claims_nothing() {
        let bytes = claim(7).encode(TAG);
        for length in 0..ENTRY_BYTES {
            assert_eq!(Claim::read(&bytes[..length], TAG), None, "{length} bytes");
        }
        for bit in 0..ENTRY_BYTES * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Claim::read(&damaged, TAG), None, "bit {bit}");
        }
        assert_eq!(Claim::read(&bytes, StoreTag(*b"another-")), None);
    }

    #[test]
    fn newest_of_many_entries_is_the_claim() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(newest_claim(directory.path(), TAG), None);
        let mut notes = ClaimFile::open(directory.path(), &Disk::default(), TAG);
        assert_eq!(newest_claim(directory.path(), TAG), None);
        for batch in 1..=200 {
            notes.note(&claim(batch));
            assert_eq!(newest_claim(directory.path(), TAG), Some(claim(batch)));
        }
        assert_eq!(directory.path().join(NAME).metadata().unwrap().len(), FILE_BYTES);
        ClaimFile::open(directory.path(), &Disk::default(), TAG);
        assert_eq!(newest_claim(directory.path(), TAG), Some(claim(200)), "opening keeps the claims");
    }
}
