//! The bytes of a segment: consecutive messages of one conversation, sealed for good.
//!
//! Messages are packed in frames, each compressed and checked by itself, so that a page is one range read. Every bit is
//! under a checksum: of the header, of a frame, of the index or of the footer. What a record says is the store's.
//!
//! ```text
//! header   magic "BTSG" | version u8 | store [8] | conversation [16] | first u64 | last u64 | revision u32 | checksum u32
//! frames   zstd of (length varint, record) × count, one after the other
//! index    per frame: count u32 | offset u64 | length u32 | raw length u32 | checksum u32
//! footer   offset of the index u64 | how many frames u32 | checksum of the index u32 | checksum of these 16 bytes u32
//! ```

mod frame;

use bluetick_core::{ConversationId, Seq};
use bytes::Bytes;
use thiserror::Error;

pub use self::frame::{Frame, decode_frame};
use crate::SegmentName;

/// How many messages a frame should hold, and at how many bytes before compression it should end sooner.
pub const FRAME_MESSAGES: usize = 256;
pub const FRAME_RAW_BYTES: usize = 64 << 10;

const MAGIC: [u8; 4] = *b"BTSG";
const VERSION: u8 = 1;
const HEADER_BYTES: usize = 53;
const INDEX_ENTRY_BYTES: usize = 24;
const FOOTER_BYTES: usize = 20;
const CHECKSUM_BYTES: usize = 4;

/// One part of a segment that is read and decoded by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrameRef {
    pub offset: u64,
    pub length: u32,
    pub raw_length: u32,
    /// CRC-32 of the stored bytes.
    pub checksum: u32,
}

/// Why bytes are not what was sealed.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Damage {
    #[error("not a segment")]
    NotASegment,
    #[error("a segment of version {0}, which is not known here")]
    Version(u8),
    #[error("the bytes end too early")]
    Short,
    #[error("{0} does not match its checksum")]
    Checksum(&'static str),
    #[error("{0} is malformed")]
    Malformed(&'static str),
}

/// A segment, ready to be put.
#[derive(Clone, Debug)]
pub struct Sealed {
    pub bytes: Bytes,
    pub frames: Vec<FrameRef>,
    /// Before compression.
    pub raw_bytes: u64,
}

/// Packs the records of `name.first` to `name.last`, in their order. The same records give the same bytes,
/// as long as zstd is the same.
pub fn seal(name: &SegmentName, frames: &[Vec<&[u8]>]) -> Sealed {
    let count: usize = frames.iter().map(Vec::len).sum();
    assert_eq!(count as u64, name.count(), "a segment holds what its name says");
    let mut out = Vec::new();
    put_header(&mut out, name);
    let mut packer = frame::Packer::default();
    let sealed: Vec<FrameRef> = frames.iter().map(|records| packer.pack(records, &mut out)).collect();
    let index = out.len();
    for (frame, records) in sealed.iter().zip(frames) {
        out.extend_from_slice(&length_u32(records.len()).to_le_bytes());
        out.extend_from_slice(&frame.offset.to_le_bytes());
        for word in [frame.length, frame.raw_length, frame.checksum] {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }
    let index_checksum = crc32fast::hash(&out[index..]);
    let footer = out.len();
    out.extend_from_slice(&(index as u64).to_le_bytes());
    out.extend_from_slice(&length_u32(sealed.len()).to_le_bytes());
    out.extend_from_slice(&index_checksum.to_le_bytes());
    let footer_checksum = crc32fast::hash(&out[footer..]);
    out.extend_from_slice(&footer_checksum.to_le_bytes());
    let raw_bytes = sealed.iter().map(|frame| u64::from(frame.raw_length)).sum();
    Sealed { bytes: out.into(), frames: sealed, raw_bytes }
}

fn length_u32(length: usize) -> u32 {
    u32::try_from(length).expect("a part of a segment is far smaller than 4 GiB")
}

fn put_header(out: &mut Vec<u8>, name: &SegmentName) {
    out.extend_from_slice(&MAGIC);
    out.push(VERSION);
    out.extend_from_slice(&name.store);
    out.extend_from_slice(name.conversation.as_bytes());
    out.extend_from_slice(&name.first.get().to_le_bytes());
    out.extend_from_slice(&name.last.get().to_le_bytes());
    out.extend_from_slice(&name.revision.to_le_bytes());
    out.extend_from_slice(&crc32fast::hash(out).to_le_bytes());
    debug_assert_eq!(out.len(), HEADER_BYTES);
}

/// A whole segment, checked and unpacked.
#[derive(Debug)]
pub struct Opened {
    /// As its header says.
    pub name: SegmentName,
    pub frames: Vec<(FrameRef, Frame)>,
}

impl Opened {
    pub fn records(&self) -> impl Iterator<Item = &[u8]> {
        self.frames.iter().flat_map(|(_, frame)| frame.records())
    }
}

/// A whole object: header, index and every frame checked.
pub fn open(bytes: &[u8]) -> Result<Opened, Damage> {
    let name = read_header(bytes)?;
    let mut frames = Vec::new();
    let mut records = 0u64;
    for (count, frame) in read_index(bytes)? {
        let start = usize::try_from(frame.offset).map_err(|_| Damage::Short)?;
        let stored =
            bytes.get(start..).and_then(|rest| rest.get(..frame.length as usize)).ok_or(Damage::Short)?;
        let unpacked = decode_frame(stored, &frame)?;
        if unpacked.len() != count as usize {
            return Err(Damage::Malformed("the count of a frame"));
        }
        records += u64::from(count);
        frames.push((frame, unpacked));
    }
    if records != name.count() {
        return Err(Damage::Malformed("the count of a segment"));
    }
    Ok(Opened { name, frames })
}

fn read_header(bytes: &[u8]) -> Result<SegmentName, Damage> {
    let mut reader = Reader(bytes);
    if reader.array().ok() != Some(MAGIC) {
        return Err(Damage::NotASegment);
    }
    let [version] = reader.array()?;
    if version != VERSION {
        return Err(Damage::Version(version));
    }
    let store = reader.array()?;
    let conversation = ConversationId::from_bytes(reader.array()?);
    let first = Seq::new(reader.u64()?);
    let last = Seq::new(reader.u64()?);
    let revision = reader.u32()?;
    if crc32fast::hash(&bytes[..HEADER_BYTES - CHECKSUM_BYTES]) != reader.u32()? {
        return Err(Damage::Checksum("the header"));
    }
    let conversation = conversation.ok_or(Damage::Malformed("the conversation"))?;
    if first < Seq::FIRST || last < first || last > Seq::MAX {
        return Err(Damage::Malformed("the range of a segment"));
    }
    Ok(SegmentName { store, conversation, first, last, revision })
}

/// Counts and places of the frames, which fill the room between header and index without a gap.
fn read_index(bytes: &[u8]) -> Result<Vec<(u32, FrameRef)>, Damage> {
    let (before, footer) = bytes.split_last_chunk::<FOOTER_BYTES>().ok_or(Damage::Short)?;
    let mut reader = Reader(footer);
    let (index, count, index_checksum) = (reader.u64()?, reader.u32()?, reader.u32()?);
    if crc32fast::hash(&footer[..FOOTER_BYTES - CHECKSUM_BYTES]) != reader.u32()? {
        return Err(Damage::Checksum("the footer"));
    }
    let start = usize::try_from(index).map_err(|_| Damage::Short)?;
    let entries = before.get(start..).ok_or(Damage::Short)?;
    if entries.len() / INDEX_ENTRY_BYTES != count as usize || entries.len() % INDEX_ENTRY_BYTES != 0 {
        return Err(Damage::Malformed("the length of the index"));
    }
    if crc32fast::hash(entries) != index_checksum {
        return Err(Damage::Checksum("the index"));
    }
    let mut reader = Reader(entries);
    let mut frames = Vec::with_capacity(entries.len() / INDEX_ENTRY_BYTES);
    let mut end = HEADER_BYTES as u64;
    while !reader.0.is_empty() {
        let count = reader.u32()?;
        let frame = FrameRef {
            offset: reader.u64()?,
            length: reader.u32()?,
            raw_length: reader.u32()?,
            checksum: reader.u32()?,
        };
        if frame.offset != end {
            return Err(Damage::Malformed("the place of a frame"));
        }
        end += u64::from(frame.length);
        frames.push((count, frame));
    }
    if end != index { Err(Damage::Malformed("the place of the index")) } else { Ok(frames) }
}

/// Reads from the front of a slice.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Damage> {
        let (front, rest) = self.0.split_at_checked(count).ok_or(Damage::Short)?;
        self.0 = rest;
        Ok(front)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Damage> {
        let (front, rest) = self.0.split_first_chunk().ok_or(Damage::Short)?;
        self.0 = rest;
        Ok(*front)
    }

    fn u32(&mut self) -> Result<u32, Damage> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Damage> {
        self.array().map(u64::from_le_bytes)
    }

    fn varint(&mut self) -> Result<u64, Damage> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Damage::Malformed("a varint"))
    }
}

#[cfg(test)]
mod tests;
