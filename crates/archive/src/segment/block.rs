//! One block: consecutive messages, compressed together, with a checksum of their own.

use std::cell::RefCell;
use std::ops::Range;

use super::{BlockRef, Damage, SliceReader, length_u32};

/// zstd level. A change gives other bytes for the same segment, so an interrupted put is then
/// replaced instead of reused.
const COMPRESSION_LEVEL: i32 = 9;
/// Maximum size of a block before compression, in bytes. Rejects damaged lengths before memory is
/// allocated. Too small a value makes blocks of large messages unreadable.
const MAX_RAW_BYTES: usize = 64 << 20;

/// The decompressed records of a block.
#[derive(Debug)]
pub struct Block {
    raw: Vec<u8>,
    records: Vec<Range<u32>>,
}

impl Block {
    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns the record at `index`, from 0.
    pub fn record(&self, index: usize) -> Option<&[u8]> {
        self.records.get(index).map(|range| self.bytes(range))
    }

    pub fn records(&self) -> impl DoubleEndedIterator<Item = &[u8]> + ExactSizeIterator {
        self.records.iter().map(|range| self.bytes(range))
    }

    /// Returns the memory that it uses, in bytes.
    pub fn weight(&self) -> usize {
        size_of::<Block>() + self.raw.capacity() + self.records.capacity() * size_of::<Range<u32>>()
    }

    fn bytes(&self, range: &Range<u32>) -> &[u8] {
        &self.raw[range.start as usize..range.end as usize]
    }
}

/// Compresses blocks and reuses its buffers.
pub(super) struct BlockPacker {
    zstd: zstd::bulk::Compressor<'static>,
    raw: Vec<u8>,
}

impl Default for BlockPacker {
    fn default() -> BlockPacker {
        let zstd = zstd::bulk::Compressor::new(COMPRESSION_LEVEL).expect("a compressor needs memory only");
        BlockPacker { zstd, raw: Vec::new() }
    }
}

impl BlockPacker {
    /// Appends one block to `out`. Panics if it is empty or larger than `MAX_RAW_BYTES`.
    pub(super) fn pack(&mut self, records: &[&[u8]], out: &mut Vec<u8>) -> BlockRef {
        assert!(!records.is_empty(), "a block has at least one record");
        self.raw.clear();
        for record in records {
            put_varint(&mut self.raw, record.len() as u64);
            self.raw.extend_from_slice(record);
        }
        assert!(self.raw.len() <= MAX_RAW_BYTES, "a block holds a few hundred messages");
        let start = out.len();
        out.resize(start + zstd::zstd_safe::compress_bound(self.raw.len()), 0);
        let written = self.zstd.compress_to_buffer(&self.raw, &mut out[start..]);
        out.truncate(start + written.expect("the buffer has the size zstd asks for"));
        BlockRef {
            offset: start as u64,
            length: length_u32(out.len() - start),
            raw_length: length_u32(self.raw.len()),
            checksum: crc32fast::hash(&out[start..]),
        }
    }
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

thread_local! {
    static DECOMPRESSOR: RefCell<zstd::bulk::Decompressor<'static>> =
        RefCell::new(zstd::bulk::Decompressor::new().expect("a decompressor needs memory only"));
}

/// Checks and decompresses the stored bytes of one block.
pub fn decode_block(bytes: &[u8], block: &BlockRef) -> Result<Block, Damage> {
    if bytes.len() != block.length as usize {
        return Err(Damage::Short);
    }
    if crc32fast::hash(bytes) != block.checksum {
        return Err(Damage::Checksum("a block"));
    }
    let raw_length = block.raw_length as usize;
    // Check before allocating: a wrong length must cost an error, not memory.
    let promised = zstd::zstd_safe::get_frame_content_size(bytes).ok().flatten();
    if raw_length > MAX_RAW_BYTES || promised != Some(raw_length as u64) {
        return Err(Damage::Malformed("the length of a block"));
    }
    let raw = DECOMPRESSOR
        .with_borrow_mut(|zstd| zstd.decompress(bytes, raw_length))
        .map_err(|_| Damage::Malformed("a compressed block"))?;
    if raw.len() != raw_length {
        return Err(Damage::Malformed("the length of a block"));
    }
    let mut records = Vec::new();
    let mut reader = SliceReader(&raw);
    while !reader.0.is_empty() {
        let length = usize::try_from(reader.varint()?).map_err(|_| Damage::Short)?;
        let record = reader.take(length)?;
        let end = length_u32(raw.len() - reader.0.len());
        records.push(end - length_u32(record.len())..end);
    }
    if records.is_empty() { Err(Damage::Malformed("an empty block")) } else { Ok(Block { raw, records }) }
}
