//! A chunk: up to 64 consecutive messages of one conversation, compressed together.
//!
//! The header holds a fingerprint of every message id outside the compressed part. Deduplication
//! therefore finds candidates of any age from headers alone, at four bytes per message. Header and
//! body have separate checksums, so reading a header does not read the body.
//!
//! ```text
//! version u8 | count u8 | packing u8 | 0 u8 | header checksum u32 | body checksum u32
//! raw length u32 | newest received_at i64 | notices before u64 | fingerprint u32 × count
//! (length varint, record) × count, plain or in zstd
//! ```
//!
//! A chunk whose content is in the archive has the same header ([`super::cold`]).

use std::cell::RefCell;
use std::hash::Hasher;

use bluetick_core::{MessageId, Timestamp};
use siphasher::sip::SipHasher13;

use super::{DecodeError, KEYED_VERSION, Reader, UNKEYED_VERSION, put_varint};

/// Length of the header without the fingerprints, in bytes. Part of the stored format.
const HEADER_BYTES: usize = 32;
/// zstd level for hot chunks. A low level, because chunks are often rewritten; a higher one makes
/// checkpoints slower.
const COMPRESSION_LEVEL: i32 = 1;
/// Packing of a chunk's body: plain records. Stored, so the value must never change.
const PLAIN: u8 = 0;
/// Packing of a chunk's body: records compressed with zstd. Stored, so the value must never change.
const ZSTD: u8 = 1;
/// Packing of a chunk's body: the content is in the archive. Stored, so the value must never
/// change.
pub(super) const COLD: u8 = 2;
/// Chunks below this many raw bytes are stored uncompressed. They gain little, and the next
/// messages soon rewrite them.
const PLAIN_BELOW_BYTES: usize = 768;
/// Upper bound on the raw length in a header, so that a damaged length cannot exhaust memory. 64
/// messages of 64 KiB and their records fit easily.
const MAX_RAW_BYTES: usize = 64 << 20;

/// Upper bound on the messages of one chunk. The header stores the count in one byte. A larger
/// chunk makes a page read decompress more.
pub const CAPACITY: usize = 64;
/// A checkpoint rewrites the last chunk and fills it up if it holds fewer messages than this. A
/// fuller chunk stays unchanged, and new messages start the next one. A higher value rewrites more;
/// a lower one makes more chunks.
pub const MERGE_BELOW: usize = 32;

/// 32 bits of a keyed hash of (sender, message id). Equal ids have equal fingerprints. Different
/// ids may collide, so callers compare the ids on a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub u32);

impl Fingerprint {
    /// The fingerprint of a notice, which has no id that a client could resend.
    pub const NONE: Fingerprint = Fingerprint(0);
}

/// Computes fingerprints with a key of this store, so that clients cannot construct collisions.
#[derive(Clone, Copy)]
pub struct Fingerprinter(pub [u8; 16]);

impl Fingerprinter {
    /// Returns the fingerprint of a message id. It never equals [`Fingerprint::NONE`].
    pub fn of(&self, sender: &str, message_id: &MessageId) -> Fingerprint {
        let mut hasher = SipHasher13::new_with_key(&self.0);
        hasher.write(sender.as_bytes());
        match message_id {
            MessageId::Uuid(bytes) => {
                hasher.write_u8(0);
                hasher.write(bytes);
            }
            MessageId::Text(text) => {
                hasher.write_u8(1);
                hasher.write(text.as_bytes());
            }
        }
        let hash = hasher.finish();
        Fingerprint(((hash >> 32) as u32).max(1))
    }

    /// Returns a hash of the content. It shows whether a resent message equals one whose content is
    /// in the archive.
    pub fn of_content(&self, content: &str) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.0);
        hasher.write(b"content");
        hasher.write(content.as_bytes());
        hasher.finish()
    }
}

/// The verified header of a chunk.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    pub count: usize,
    /// No message in this chunk or before it was received later. It never decreases, even if the
    /// clock went back.
    pub newest_received_at: Timestamp,
    /// The number of notices in the conversation before this chunk. Notices in the chunk itself
    /// have no fingerprint, so [`Header::notices_through`] counts them without unpacking.
    pub notices_before: u64,
    pub(super) packing: u8,
    body_checksum: u32,
    pub(super) raw_bytes: usize,
    fingerprints: &'a [u8],
    body: &'a [u8],
}

impl<'a> Header<'a> {
    /// Reads and verifies the header. Unpacking verifies the body.
    pub fn read(chunk: &'a [u8]) -> Result<Header<'a>, DecodeError> {
        let mut reader = Reader(chunk);
        let version = reader.u8()?;
        if ![UNKEYED_VERSION, KEYED_VERSION].contains(&version) {
            return Err(DecodeError::Unknown { what: "chunk version", value: version.into() });
        }
        let count = usize::from(reader.u8()?);
        let packing = reader.u8()?;
        reader.u8()?;
        let checksum = reader.u32()?;
        let end = HEADER_BYTES + count * 4;
        if header_checksum(chunk.get(..end).ok_or(DecodeError::Short)?) != checksum {
            return Err(DecodeError::Checksum);
        }
        let body_checksum = reader.u32()?;
        let raw_bytes = reader.u32()? as usize;
        if raw_bytes > MAX_RAW_BYTES {
            return Err(DecodeError::Malformed("a chunk's length"));
        }
        let newest_received_at = Timestamp::from_millis(reader.u64()? as i64);
        let notices_before = reader.u64()?;
        let fingerprints = reader.take(count * 4)?;
        let body = reader.rest();
        Ok(Header {
            count,
            newest_received_at,
            notices_before,
            packing,
            body_checksum,
            raw_bytes,
            fingerprints,
            body,
        })
    }

    /// Returns whether the content is in the archive.
    pub fn is_cold(&self) -> bool {
        self.packing == COLD
    }

    /// Returns the body. Errors if its checksum does not match.
    pub(super) fn checked_body(&self) -> Result<&'a [u8], DecodeError> {
        match crc32fast::hash(self.body) == self.body_checksum {
            true => Ok(self.body),
            false => Err(DecodeError::Checksum),
        }
    }

    /// Returns the number of notices in the conversation up to the message at `index` of this
    /// chunk.
    pub fn notices_through(&self, index: usize) -> u64 {
        let here = self.fingerprints().take(index + 1).filter(|print| *print == Fingerprint::NONE);
        self.notices_before + here.count() as u64
    }

    pub fn fingerprints(&self) -> impl DoubleEndedIterator<Item = Fingerprint> + ExactSizeIterator + use<'a> {
        let words = self.fingerprints.as_chunks::<4>().0;
        words.iter().map(|bytes| Fingerprint(u32::from_le_bytes(*bytes)))
    }
}

/// Returns the count in the header, unverified. Enough to decide whether to unpack the chunk.
pub fn count_of(chunk: &[u8]) -> usize {
    chunk.get(1).copied().map_or(0, usize::from)
}

/// Returns the number of record bytes before compression.
pub fn raw_length(header: &Header<'_>) -> usize {
    header.raw_bytes
}

/// Returns whether the content of a chunk is in the archive, from its unverified header. Enough to
/// decide whether to skip the chunk.
pub fn is_cold(chunk: &[u8]) -> bool {
    chunk.get(2) == Some(&COLD)
}

/// Computes the checksum over the whole header except the checksum itself.
fn header_checksum(header: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&header[..4]);
    hasher.update(&header[8..]);
    hasher.finalize()
}

/// The unpacked records of a chunk.
#[derive(Debug, Default)]
pub struct Unpacked {
    raw: Vec<u8>,
    records: Vec<std::ops::Range<usize>>,
}

impl Unpacked {
    pub(super) fn new(raw: Vec<u8>, records: Vec<std::ops::Range<usize>>) -> Unpacked {
        Unpacked { raw, records }
    }

    pub fn records(&self) -> impl DoubleEndedIterator<Item = &[u8]> + ExactSizeIterator {
        self.records.iter().map(|range| &self.raw[range.clone()])
    }

    pub fn get(&self, index: usize) -> Option<&[u8]> {
        self.records.get(index).map(|range| &self.raw[range.clone()])
    }
}

thread_local! {
    static DECOMPRESSOR: RefCell<zstd::bulk::Decompressor<'static>> =
        RefCell::new(zstd::bulk::Decompressor::new().expect("creating a decompressor fails only without memory"));
}

/// Unpacks the records of a chunk whose content is in the hot store. Errors if the chunk is damaged
/// or archived.
pub fn unpack(header: &Header<'_>) -> Result<Unpacked, DecodeError> {
    let body = header.checked_body()?;
    let raw = match header.packing {
        PLAIN => body.to_vec(),
        ZSTD => decompress(body, header.raw_bytes)?,
        value => return Err(DecodeError::Unknown { what: "packing", value: value.into() }),
    };
    let mut records = Vec::with_capacity(header.count);
    let mut reader = Reader(&raw);
    while !reader.is_empty() {
        records.push(next_record(&raw, &mut reader)?);
    }
    if records.len() != header.count {
        return Err(DecodeError::Malformed("a chunk's count"));
    }
    Ok(Unpacked { raw, records })
}

pub(super) fn decompress(bytes: &[u8], raw_bytes: usize) -> Result<Vec<u8>, DecodeError> {
    let raw = DECOMPRESSOR.with_borrow_mut(|zstd| zstd.decompress(bytes, raw_bytes));
    raw.map_err(|_| DecodeError::Malformed("a compressed chunk"))
}

/// Returns the range of the next record in `raw`. `reader` must read the end of `raw`.
pub(super) fn next_record(
    raw: &[u8],
    reader: &mut Reader<'_>,
) -> Result<std::ops::Range<usize>, DecodeError> {
    let record = reader.bytes()?;
    let end = raw.len() - reader.rest().len();
    Ok(end - record.len()..end)
}

/// Packs chunks and reuses its buffers.
pub struct ChunkPacker {
    zstd: zstd::bulk::Compressor<'static>,
    raw: Vec<u8>,
}

/// One message of a chunk.
#[derive(Clone, Copy)]
pub struct ChunkEntry<'a> {
    pub record: &'a [u8],
    pub fingerprint: Fingerprint,
}

impl Default for ChunkPacker {
    fn default() -> ChunkPacker {
        let zstd = zstd::bulk::Compressor::new(COMPRESSION_LEVEL)
            .expect("creating a compressor fails only without memory");
        ChunkPacker { zstd, raw: Vec::new() }
    }
}

impl ChunkPacker {
    /// Appends one chunk to `out`. `newest` is at least the `received_at` of every message up to
    /// the last entry. Panics unless `entries` has 1 to 64 elements.
    pub fn pack(
        &mut self,
        entries: &[ChunkEntry<'_>],
        newest: Timestamp,
        notices_before: u64,
        out: &mut Vec<u8>,
    ) {
        assert!((1..=CAPACITY).contains(&entries.len()), "a chunk holds 1 to 64 messages");
        self.raw.clear();
        for entry in entries {
            put_varint(&mut self.raw, entry.record.len() as u64);
            self.raw.extend_from_slice(entry.record);
        }
        let packing = if self.raw.len() < PLAIN_BELOW_BYTES { PLAIN } else { ZSTD };
        let prints = entries.iter().map(|entry| entry.fingerprint);
        let facts = HeaderFields { packing, raw_bytes: self.raw.len(), newest, notices_before };
        put_chunk(out, prints, facts, |out| match packing {
            PLAIN => out.extend_from_slice(&self.raw),
            _ => compress(&mut self.zstd, &self.raw, out),
        });
    }
}

/// The header fields besides the fingerprints.
pub(super) struct HeaderFields {
    pub packing: u8,
    pub raw_bytes: usize,
    pub newest: Timestamp,
    pub notices_before: u64,
}

/// Writes the header, calls `put_body` to append the body, and fills in the checksums.
pub(super) fn put_chunk(
    out: &mut Vec<u8>,
    prints: impl ExactSizeIterator<Item = Fingerprint>,
    facts: HeaderFields,
    put_body: impl FnOnce(&mut Vec<u8>),
) {
    let start = out.len();
    let count = u8::try_from(prints.len()).expect("a chunk holds 1 to 64 messages");
    out.extend_from_slice(&[KEYED_VERSION, count, facts.packing, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    out.extend_from_slice(&u32::try_from(facts.raw_bytes).expect("64 records are below 4 GiB").to_le_bytes());
    out.extend_from_slice(&facts.newest.millis().to_le_bytes());
    out.extend_from_slice(&facts.notices_before.to_le_bytes());
    debug_assert_eq!(out.len() - start, HEADER_BYTES);
    for print in prints {
        out.extend_from_slice(&print.0.to_le_bytes());
    }
    let body = out.len();
    put_body(out);
    let body_checksum = crc32fast::hash(&out[body..]);
    out[start + 8..start + 12].copy_from_slice(&body_checksum.to_le_bytes());
    let checksum = header_checksum(&out[start..body]);
    out[start + 4..start + 8].copy_from_slice(&checksum.to_le_bytes());
}

pub(super) fn compress(zstd: &mut zstd::bulk::Compressor<'static>, raw: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + zstd::zstd_safe::compress_bound(raw.len()), 0);
    let written = zstd.compress_to_buffer(raw, &mut out[start..]);
    out.truncate(start + written.expect("the buffer has the size zstd asks for"));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::hex;
    use super::*;

    fn pack(records: &[Vec<u8>]) -> Vec<u8> {
        let entries: Vec<_> = records
            .iter()
            .zip(1..)
            .map(|(record, number)| ChunkEntry { record, fingerprint: Fingerprint(number) })
            .collect();
        let mut out = b"before".to_vec();
        ChunkPacker::default().pack(&entries, Timestamp::from_millis(records.len() as i64), 5, &mut out);
        out.split_off(6)
    }

    #[test]
    fn chunk_header_matches_bytes_of_version_3() {
        let chunk = pack(&[b"one".to_vec(), b"two".to_vec()]);
        assert_eq!(hex(&chunk[..4]), "03020000");
        assert_eq!(
            hex(&chunk[8..]),
            "0b8e4109 08000000 02000000 00000000 05000000 00000000 01000000 02000000 036f6e65 0374776f"
        );
        assert_eq!(count_of(&chunk), 2);
    }

    #[test]
    fn notice_count_comes_from_the_header() {
        let prints = [7, 0, 0, 9].map(Fingerprint);
        let entries = prints.map(|fingerprint| ChunkEntry { record: b"x", fingerprint });
        let mut chunk = Vec::new();
        ChunkPacker::default().pack(&entries, Timestamp::default(), 100, &mut chunk);
        let header = Header::read(&chunk).unwrap();
        assert_eq!([0, 1, 2, 3].map(|index| header.notices_through(index)), [100, 101, 102, 102]);
    }

    #[test]
    fn small_chunk_stays_plain_and_large_chunk_is_compressed() {
        let packing_of = |count: usize| pack(&vec![b"see you tomorrow at the station".to_vec(); count])[2];
        assert_eq!((packing_of(3), packing_of(40)), (PLAIN, ZSTD));
    }

    #[test]
    fn flipped_bit_anywhere_in_chunk_is_an_error() {
        let chunk = pack(&[b"a record of some length".to_vec(), b"and another one".to_vec()]);
        for bit in 0..chunk.len() * 8 {
            let mut damaged = chunk.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::read(&damaged).and_then(|header| unpack(&header)).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn fingerprint_differs_by_sender_and_spelling() {
        let of = |sender: &str, id: &str| Fingerprinter([7; 16]).of(sender, &MessageId::from_stored(id));
        let id = "0190b2a4-7c1e-7000-8000-0123456789ab";
        assert_eq!(of("alice", id), of("alice", id));
        assert_ne!(of("alice", id), of("bob", id));
        assert_ne!(of("alice", id), of("alice", &id.to_uppercase()));
    }

    #[test]
    fn fingerprint_of_known_message_never_changes() {
        let print = Fingerprinter([7; 16]).of("alice", &MessageId::from_stored("m1"));
        assert_eq!(print, Fingerprint(4137210629));
    }

    proptest! {
        #[test]
        fn chunk_round_trips_its_records(records in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..=CAPACITY)) {
            let chunk = pack(&records);
            let header = Header::read(&chunk).unwrap();
            prop_assert_eq!(header.fingerprints().map(|print| print.0 as usize).collect::<Vec<_>>(), (1..=records.len()).collect::<Vec<_>>());
            prop_assert_eq!(header.newest_received_at.millis(), records.len() as i64);
            let unpacked = unpack(&header).unwrap();
            prop_assert_eq!(unpacked.records().map(<[u8]>::to_vec).collect::<Vec<_>>(), records);
        }

        #[test]
        fn reading_arbitrary_bytes_as_chunk_never_panics(bytes: Vec<u8>) {
            if let Ok(header) = Header::read(&bytes) {
                let _ = unpack(&header);
            }
        }
    }
}
