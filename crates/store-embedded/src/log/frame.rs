//! The frame around a batch.
//!
//! ```text
//! magic u32 | payload length u32 | batch number u64 | events u32 | checksum u32
//! | store tag 8 bytes | payload
//! ```
//! The checksum covers everything but itself. Frames start at multiples of 8.

use super::{BatchNumber, StoreTag};

/// Marks the start of a frame. Part of the on-disk format.
const MAGIC: u32 = u32::from_le_bytes(*b"BTLB");
/// The length of a frame header in bytes. Part of the on-disk format.
pub const HEADER_BYTES: usize = 32;
/// Frames start at multiples of this many bytes. Part of the on-disk format: with another value, a
/// scan misses frames.
pub const ALIGNMENT: usize = 8;

/// A batch that is being filled. Space for the frame header is reserved in front, so the same
/// buffer goes to disk and then stays in memory without a copy.
#[derive(Debug)]
pub struct BatchBuffer {
    pub bytes: Vec<u8>,
    pub events: u32,
}

impl BatchBuffer {
    pub fn with_capacity(payload_bytes: usize) -> BatchBuffer {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + payload_bytes + ALIGNMENT);
        bytes.resize(HEADER_BYTES, 0);
        BatchBuffer { bytes, events: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.events == 0
    }

    pub fn payload_bytes(&self) -> usize {
        self.bytes.len() - HEADER_BYTES
    }

    /// Writes the header and pads the buffer to the start of the next frame.
    pub fn seal(&mut self, number: BatchNumber, tag: StoreTag) {
        let payload = u32::try_from(self.payload_bytes()).expect("a batch is far smaller than 4 GiB");
        self.bytes[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        self.bytes[4..8].copy_from_slice(&payload.to_le_bytes());
        self.bytes[8..16].copy_from_slice(&number.0.to_le_bytes());
        self.bytes[16..20].copy_from_slice(&self.events.to_le_bytes());
        self.bytes[24..32].copy_from_slice(&tag.0);
        let checksum = checksum(&self.bytes);
        self.bytes[20..24].copy_from_slice(&checksum.to_le_bytes());
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
    }
}

fn checksum(frame: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&frame[..20]);
    hasher.update(&frame[24..]);
    hasher.finalize()
}

/// A batch that was read back and whose checksum matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogFrame<'a> {
    pub number: BatchNumber,
    pub events: u32,
    pub payload: &'a [u8],
}

impl<'a> LogFrame<'a> {
    /// Returns the frame at the start of `bytes`, if it is complete and belongs to this store.
    pub fn read(bytes: &'a [u8], tag: StoreTag) -> Option<LogFrame<'a>> {
        let header: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
        let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
        if word(0) != MAGIC || header[24..32] != tag.0 {
            return None;
        }
        let end = HEADER_BYTES.checked_add(word(4) as usize)?;
        let frame = bytes.get(..end)?;
        if checksum(frame) != word(20) {
            return None;
        }
        let number = u64::from_le_bytes(header[8..16].try_into().expect("eight bytes"));
        Some(LogFrame { number: BatchNumber(number), events: word(16), payload: &frame[HEADER_BYTES..] })
    }

    /// Returns the checksum in the header of the frame at the start of `bytes`. Panics without a
    /// header; [`LogFrame::read`] must have accepted the frame.
    pub fn stored_checksum(bytes: &[u8]) -> u32 {
        let checksum = bytes.get(20..24).and_then(|four| four.try_into().ok());
        u32::from_le_bytes(checksum.expect("LogFrame::read accepted these bytes"))
    }

    /// Returns whether a frame with this batch number starts here, complete or not.
    pub fn begins(bytes: &[u8], tag: StoreTag, number: BatchNumber) -> bool {
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else { return false };
        header[..4] == MAGIC.to_le_bytes()
            && header[8..16] == number.0.to_le_bytes()
            && header[24..32] == tag.0
    }

    pub fn length_on_disk(&self) -> usize {
        (HEADER_BYTES + self.payload.len()).next_multiple_of(ALIGNMENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::testing::hex;

    const TAG: StoreTag = StoreTag(*b"storetag");

    fn frame(payload: &[u8]) -> Vec<u8> {
        let mut buffer = BatchBuffer::with_capacity(0);
        buffer.bytes.extend_from_slice(payload);
        buffer.events = 2;
        buffer.seal(BatchNumber(7), TAG);
        buffer.bytes
    }

    #[test]
    fn frame_matches_bytes_of_version_1() {
        assert_eq!(
            hex(&frame(b"hello")),
            "42544c42 05000000 07000000 00000000 02000000 b8035235 73746f72 65746167 68656c6c 6f000000"
        );
    }

    #[test]
    fn frame_round_trips() {
        let bytes = frame(b"hello");
        let read = LogFrame::read(&bytes, TAG).unwrap();
        assert_eq!(read, LogFrame { number: BatchNumber(7), events: 2, payload: b"hello" });
        assert_eq!(read.length_on_disk(), bytes.len());
    }

    #[test]
    fn torn_flipped_or_foreign_frame_is_not_read() {
        let bytes = frame(b"hello world");
        for length in 0..HEADER_BYTES + 11 {
            assert_eq!(LogFrame::read(&bytes[..length], TAG), None, "{length} bytes");
        }
        for bit in 0..(HEADER_BYTES + 11) * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(LogFrame::read(&damaged, TAG), None, "bit {bit}");
        }
        assert_eq!(LogFrame::read(&bytes, StoreTag(*b"other---")), None);
    }
}
