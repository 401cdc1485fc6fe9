//! A chunk whose content is in the archive: all other data of its messages, and a reference to the
//! content.
//!
//! It replaces the hot chunk under the same key and with the same header. Deduplication, notice
//! counts and contiguous seqs work as before. The body:
//!
//! ```text
//! segment first, last, revision (varints)
//! block offset, length, raw length (varints), checksum u32
//! index of the first message in the block (varint)
//! zstd of: (length varint, record without content) × count,
//!   then a hash of each content u64 × count
//! ```

use bluetick_archive::{BlockRef, SegmentRef};
use bluetick_core::Seq;

use super::chunk::{self, COLD, Fingerprint, Fingerprinter, Header, HeaderFields, Unpacked};
use super::record::Record;
use super::{DecodeError, Reader, put_varint};

/// The part of an archived chunk that stays in the hot store.
#[derive(Debug)]
pub struct ColdChunk {
    pub location: SegmentRef,
    /// The records, without their content.
    pub stubs: Unpacked,
    hashes: Vec<u64>,
}

impl ColdChunk {
    pub fn read(header: &Header<'_>) -> Result<ColdChunk, DecodeError> {
        if header.packing != COLD {
            return Err(DecodeError::Unknown { what: "packing", value: header.packing.into() });
        }
        let mut reader = Reader(header.checked_body()?);
        let location = read_location(&mut reader)?;
        let raw = chunk::decompress(reader.rest(), header.raw_bytes)?;
        let mut stubs = Reader(&raw);
        let mut records = Vec::with_capacity(header.count);
        for _ in 0..header.count {
            records.push(chunk::next_record(&raw, &mut stubs)?);
        }
        let hashes = (0..header.count).map(|_| stubs.u64()).collect::<Result<_, _>>()?;
        if !stubs.is_empty() {
            return Err(DecodeError::Malformed("a chunk's count"));
        }
        Ok(ColdChunk { location, stubs: Unpacked::new(raw, records), hashes })
    }

    /// Returns each record without its content, and the hash of the content.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (&[u8], u64)> {
        self.stubs.records().zip(self.hashes.iter().copied())
    }
}

fn read_location(reader: &mut Reader<'_>) -> Result<SegmentRef, DecodeError> {
    let small =
        |value: u64| u32::try_from(value).map_err(|_| DecodeError::Malformed("a location in the archive"));
    Ok(SegmentRef {
        first: Seq::new(reader.varint()?),
        last: Seq::new(reader.varint()?),
        revision: small(reader.varint()?)?,
        block: BlockRef {
            offset: reader.varint()?,
            length: small(reader.varint()?)?,
            raw_length: small(reader.varint()?)?,
            checksum: reader.u32()?,
        },
        index: small(reader.varint()?)?,
    })
}

/// Returns the part of a record that stays in the hot store, and the hash of its content.
pub fn stub_of(record: &[u8], hasher: &Fingerprinter) -> Result<(Vec<u8>, u64), DecodeError> {
    let decoded = Record::decode(record)?;
    let kept = record.len() - decoded.content.len();
    Ok((record[..kept].to_vec(), hasher.of_content(decoded.content)))
}

/// Returns the record that replaces `record` when its content is erased.
pub fn erased(record: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let decoded = Record::decode(record)?;
    let mut out = Vec::with_capacity(record.len() - decoded.content.len());
    Record { content_type: bluetick_core::ContentType::Erased, content: "", ..decoded }.encode(&mut out);
    Ok(out)
}

/// The largest row, in bytes, that shares an LMDB page with others. A larger row occupies whole
/// pages of its own, so a wrong value wastes disk space.
const SHARED_PAGE_BYTES: usize = 2_000;

/// Chunks with their first seqs.
pub type PackedChunks = Vec<(Seq, Vec<u8>)>;

/// Builds the archived form of the chunk with this header. Returns one chunk, or several if a
/// single row would waste most of a page. Panics unless `stubs` has one entry for each message.
pub fn pack(
    first: Seq,
    header: &Header<'_>,
    location: &SegmentRef,
    stubs: &[(Vec<u8>, u64)],
) -> PackedChunks {
    let prints: Vec<Fingerprint> = header.fingerprints().collect();
    assert_eq!(prints.len(), stubs.len(), "each message leaves a row");
    let mut parts = Vec::with_capacity(1);
    let whole = ColdPart {
        first,
        location: *location,
        notices_before: header.notices_before,
        prints: &prints,
        stubs,
    };
    whole.pack_into(header, &mut parts);
    parts
}

/// A run of consecutive messages of a chunk.
struct ColdPart<'a> {
    first: Seq,
    location: SegmentRef,
    notices_before: u64,
    prints: &'a [Fingerprint],
    stubs: &'a [(Vec<u8>, u64)],
}

impl ColdPart<'_> {
    fn pack_into(&self, header: &Header<'_>, parts: &mut PackedChunks) {
        let packed = self.pack(header);
        let count = self.stubs.len();
        if packed.len() <= SHARED_PAGE_BYTES || count == 1 {
            return parts.push((self.first, packed));
        }
        let (prints, later_prints) = self.prints.split_at(count / 2);
        let (stubs, later_stubs) = self.stubs.split_at(count / 2);
        let notices = prints.iter().filter(|print| **print == Fingerprint::NONE).count() as u64;
        let later = ColdPart {
            first: self.first.plus(stubs.len() as u64),
            location: SegmentRef { index: self.location.index + stubs.len() as u32, ..self.location },
            notices_before: self.notices_before + notices,
            prints: later_prints,
            stubs: later_stubs,
        };
        ColdPart { prints, stubs, ..*self }.pack_into(header, parts);
        later.pack_into(header, parts);
    }

    fn pack(&self, header: &Header<'_>) -> Vec<u8> {
        let ColdPart { location, prints, stubs, notices_before, .. } = self;
        let mut raw = Vec::new();
        for (stub, _) in *stubs {
            put_varint(&mut raw, stub.len() as u64);
            raw.extend_from_slice(stub);
        }
        for (_, hash) in *stubs {
            raw.extend_from_slice(&hash.to_le_bytes());
        }
        let facts = HeaderFields {
            packing: COLD,
            raw_bytes: raw.len(),
            newest: header.newest_received_at,
            notices_before: *notices_before,
        };
        let mut out = Vec::new();
        chunk::put_chunk(&mut out, prints.iter().copied(), facts, |out| {
            put_varint(out, location.first.get());
            put_varint(out, location.last.get());
            put_varint(out, location.revision.into());
            put_varint(out, location.block.offset);
            put_varint(out, location.block.length.into());
            put_varint(out, location.block.raw_length.into());
            out.extend_from_slice(&location.block.checksum.to_le_bytes());
            put_varint(out, location.index.into());
            // The row is written once and kept for long, so a slow level pays off.
            let mut zstd = zstd::bulk::Compressor::new(STUB_LEVEL)
                .expect("creating a compressor fails only without memory");
            chunk::compress(&mut zstd, &raw, out);
        });
        out
    }
}

/// zstd level for the records of archived chunks. A high one, because these rows are written once.
const STUB_LEVEL: i32 = 9;

#[cfg(test)]
mod tests {
    use bluetick_core::{ContentType, Timestamp};

    use super::super::chunk::{ChunkEntry, ChunkPacker};
    use super::*;

    const HASHER: Fingerprinter = Fingerprinter([7; 16]);

    fn record(number: u64, content: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        Record {
            received_at: Timestamp::from_millis(1_000 + number as i64),
            timestamp: Timestamp::from_millis(5),
            sender: "alice",
            message_id: format!("m{number}").parse().unwrap(),
            content_type: ContentType::Text,
            content,
        }
        .encode(&mut bytes);
        bytes
    }

    fn hot() -> Vec<u8> {
        let records = [record(1, "one"), record(2, "two words"), record(3, "")];
        let entries: Vec<_> = records
            .iter()
            .zip([9, 0, 8])
            .map(|(record, print)| ChunkEntry { record, fingerprint: Fingerprint(print) })
            .collect();
        let mut chunk = Vec::new();
        ChunkPacker::default().pack(&entries, Timestamp::from_millis(77), 5, &mut chunk);
        chunk
    }

    fn location() -> SegmentRef {
        let block = BlockRef { offset: 4_000, length: 900, raw_length: 2_000, checksum: 0xdead_beef };
        SegmentRef { first: Seq::new(1), last: Seq::new(1_000), revision: 2, block, index: 64 }
    }

    fn cold() -> Vec<u8> {
        let hot = hot();
        let header = Header::read(&hot).unwrap();
        let unpacked = chunk::unpack(&header).unwrap();
        let stubs: Vec<_> = unpacked.records().map(|record| stub_of(record, &HASHER).unwrap()).collect();
        let mut parts = pack(Seq::new(65), &header, &location(), &stubs);
        assert_eq!(parts.len(), 1);
        parts.remove(0).1
    }

    #[test]
    fn large_cold_chunk_is_split_and_keeps_every_location() {
        let records: Vec<Vec<u8>> = (0..64).map(|number| record(number * 7_919, "words")).collect();
        // Incompressible bytes, and every fifth message is a notice.
        let mut dice = 1u64;
        let stubs: Vec<(Vec<u8>, u64)> = records
            .iter()
            .map(|record| {
                let (mut stub, hash) = stub_of(record, &HASHER).unwrap();
                for _ in 0..40 {
                    dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    stub.push((dice >> 56) as u8);
                }
                (stub, hash)
            })
            .collect();
        let print = |number: usize| Fingerprint(if number.is_multiple_of(5) { 0 } else { 9 });
        let entries: Vec<_> = records
            .iter()
            .enumerate()
            .map(|(number, record)| ChunkEntry { record, fingerprint: print(number) })
            .collect();
        let mut hot = Vec::new();
        ChunkPacker::default().pack(&entries, Timestamp::from_millis(77), 5, &mut hot);
        let header = Header::read(&hot).unwrap();
        let parts = pack(Seq::new(65), &header, &location(), &stubs);
        assert!(parts.len() > 1);
        let mut number = 0;
        for (first, bytes) in &parts {
            assert!(bytes.len() <= SHARED_PAGE_BYTES, "{}", bytes.len());
            assert_eq!(first.get(), 65 + number as u64);
            let part = Header::read(bytes).unwrap();
            let chunk = ColdChunk::read(&part).unwrap();
            assert_eq!(chunk.location.index as usize, location().index as usize + number);
            for (index, (stub, hash)) in chunk.entries().enumerate() {
                assert_eq!((stub, hash), (&stubs[number].0[..], stubs[number].1));
                assert_eq!(part.notices_through(index), header.notices_through(number));
                number += 1;
            }
        }
        assert_eq!(number, 64);
    }

    #[test]
    fn cold_chunk_keeps_everything_except_content() {
        let (hot, cold) = (hot(), cold());
        let (before, after) = (Header::read(&hot).unwrap(), Header::read(&cold).unwrap());
        assert_eq!((after.is_cold(), chunk::is_cold(&cold), chunk::is_cold(&hot)), (true, true, false));
        assert_eq!(after.count, before.count);
        assert_eq!(after.newest_received_at, before.newest_received_at);
        assert_eq!(after.notices_through(2), before.notices_through(2));
        assert!(after.fingerprints().eq(before.fingerprints()));
        let read = ColdChunk::read(&after).unwrap();
        assert_eq!(read.location, location());
        for ((stub, hash), number) in read.entries().zip(1..) {
            let (stub, whole) = (
                Record::decode(stub).unwrap(),
                record(number, ["", "one", "two words", ""][number as usize]),
            );
            let whole = Record::decode(&whole).unwrap();
            assert_eq!((stub.content, hash), ("", HASHER.of_content(whole.content)));
            assert_eq!(Record { content: whole.content, ..stub }, whole);
        }
    }

    #[test]
    fn flipped_bit_anywhere_in_cold_chunk_is_an_error() {
        let chunk = cold();
        for bit in 0..chunk.len() * 8 {
            let mut damaged = chunk.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::read(&damaged).and_then(|header| ColdChunk::read(&header)).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn erased_record_keeps_its_fields_and_loses_its_content() {
        let erased = erased(&record(2, "two words")).unwrap();
        let read = Record::decode(&erased).unwrap();
        assert_eq!((read.content, read.content_type, read.sender), ("", ContentType::Erased, "alice"));
        assert_eq!(read.received_at, Timestamp::from_millis(1_002));
    }
}
