//! The byte format of a segment: consecutive messages of one conversation, immutable.
//!
//! Messages are packed in blocks (`Block`). Each block is compressed and checked by itself, so that
//! a page needs one range read. A checksum covers every bit: of the header, a block, the index or
//! the footer. The store defines the content of a record.
//!
//! ```text
//! header   magic "BTSG" | version u8 | store [8] | conversation [16] | first u64 | last u64
//!          | revision u32 | checksum u32
//! blocks   zstd of (length varint, record) × count, one after the other
//! index    per block: count u32 | offset u64 | length u32 | raw length u32 | checksum u32
//! footer   offset of the index u64 | number of blocks u32 | checksum of the index u32
//!          | checksum of these 16 bytes u32
//! ```

mod block;

use bluetick_core::{ConversationId, Seq};
use bytes::Bytes;
use thiserror::Error;

pub use self::block::{Block, decode_block};
use crate::SegmentName;

/// Target number of messages in a block. Larger blocks compress better and cost more per page read.
pub const BLOCK_MESSAGES: usize = 256;
/// Size before compression at which a block ends, even with fewer messages, in bytes. A larger
/// block makes a page read fetch more bytes.
pub const BLOCK_RAW_BYTES: usize = 64 << 10;

/// First bytes of every segment. Part of the stored format: a change makes all segments unreadable.
/// The same holds for the sizes below.
const MAGIC: [u8; 4] = *b"BTSG";
/// Version of the format. Readers refuse all others, so a new version must keep reading this one.
const VERSION: u8 = 1;
/// Size of the header, in bytes.
const HEADER_BYTES: usize = 53;
/// Size of an index entry, in bytes.
const INDEX_ENTRY_BYTES: usize = 24;
/// Size of the footer, in bytes.
const FOOTER_BYTES: usize = 20;
/// Size of a CRC-32 checksum, in bytes.
const CHECKSUM_BYTES: usize = 4;

/// Location and checksum of a block in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockRef {
    pub offset: u64,
    pub length: u32,
    pub raw_length: u32,
    /// CRC-32 of the compressed bytes.
    pub checksum: u32,
}

/// Why bytes are not a valid segment or block.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Damage {
    #[error("not a segment")]
    NotASegment,
    #[error("a segment of the unknown version {0}")]
    Version(u8),
    #[error("the bytes end too early")]
    Short,
    #[error("{0} does not match its checksum")]
    Checksum(&'static str),
    #[error("{0} is malformed")]
    Malformed(&'static str),
}

/// An encoded segment.
#[derive(Clone, Debug)]
pub struct EncodedSegment {
    pub bytes: Bytes,
    pub blocks: Vec<BlockRef>,
    /// Total size of all blocks before compression.
    pub raw_bytes: u64,
}

/// Encodes the records of `name.first` to `name.last`, in order and grouped in blocks. The output
/// is deterministic for one version of zstd. Panics if the number of records does not match the
/// name.
pub fn seal(name: &SegmentName, blocks: &[Vec<&[u8]>]) -> EncodedSegment {
    let count: usize = blocks.iter().map(Vec::len).sum();
    assert_eq!(count as u64, name.count(), "the name states the number of records");
    let mut out = Vec::new();
    put_header(&mut out, name);
    let mut packer = block::BlockPacker::default();
    let sealed: Vec<BlockRef> = blocks.iter().map(|records| packer.pack(records, &mut out)).collect();
    let index = out.len();
    for (block, records) in sealed.iter().zip(blocks) {
        out.extend_from_slice(&length_u32(records.len()).to_le_bytes());
        out.extend_from_slice(&block.offset.to_le_bytes());
        for word in [block.length, block.raw_length, block.checksum] {
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
    let raw_bytes = sealed.iter().map(|block| u64::from(block.raw_length)).sum();
    EncodedSegment { bytes: out.into(), blocks: sealed, raw_bytes }
}

/// Panics from 4 GiB on.
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

/// A decoded segment whose checksums have been verified.
#[derive(Debug)]
pub struct DecodedSegment {
    /// The name in the header. Compare it with the name of the object.
    pub name: SegmentName,
    pub blocks: Vec<(BlockRef, Block)>,
}

impl DecodedSegment {
    /// Iterates over all records in order.
    pub fn records(&self) -> impl Iterator<Item = &[u8]> {
        self.blocks.iter().flat_map(|(_, block)| block.records())
    }
}

/// Decodes a whole segment. Verifies header, index and every block.
pub fn open(bytes: &[u8]) -> Result<DecodedSegment, Damage> {
    let name = read_header(bytes)?;
    let mut blocks = Vec::new();
    let mut records = 0u64;
    for (count, block) in read_index(bytes)? {
        let start = usize::try_from(block.offset).map_err(|_| Damage::Short)?;
        let stored =
            bytes.get(start..).and_then(|rest| rest.get(..block.length as usize)).ok_or(Damage::Short)?;
        let unpacked = decode_block(stored, &block)?;
        if unpacked.len() != count as usize {
            return Err(Damage::Malformed("the count of a block"));
        }
        records += u64::from(count);
        blocks.push((block, unpacked));
    }
    if records != name.count() {
        return Err(Damage::Malformed("the count of a segment"));
    }
    Ok(DecodedSegment { name, blocks })
}

fn read_header(bytes: &[u8]) -> Result<SegmentName, Damage> {
    let mut reader = SliceReader(bytes);
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

/// Reads the index: message count and location of every block. Fails unless the blocks fill the
/// bytes between header and index without a gap.
fn read_index(bytes: &[u8]) -> Result<Vec<(u32, BlockRef)>, Damage> {
    let (before, footer) = bytes.split_last_chunk::<FOOTER_BYTES>().ok_or(Damage::Short)?;
    let mut reader = SliceReader(footer);
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
    let mut reader = SliceReader(entries);
    let mut blocks = Vec::with_capacity(entries.len() / INDEX_ENTRY_BYTES);
    let mut end = HEADER_BYTES as u64;
    while !reader.0.is_empty() {
        let count = reader.u32()?;
        let block = BlockRef {
            offset: reader.u64()?,
            length: reader.u32()?,
            raw_length: reader.u32()?,
            checksum: reader.u32()?,
        };
        if block.offset != end {
            return Err(Damage::Malformed("the offset of a block"));
        }
        end += u64::from(block.length);
        blocks.push((count, block));
    }
    if end != index { Err(Damage::Malformed("the offset of the index")) } else { Ok(blocks) }
}

/// A cursor that reads from the front of a slice.
struct SliceReader<'a>(&'a [u8]);

impl<'a> SliceReader<'a> {
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
