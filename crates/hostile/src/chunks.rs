//! Fuzz target for chunks of the tables: several messages, complete or with archived content.

use bluetick_core::Timestamp;
use bluetick_store_embedded::codec::chunk::{self, CAPACITY, ChunkEntry, ChunkPacker, Fingerprint, Header};
use bluetick_store_embedded::codec::cold::ColdChunk;

use crate::choice;
use crate::events::any_record;

pub fn any_chunk(bytes: &[u8]) {
    match choice(bytes, 3) {
        None => {}
        Some((0, bytes)) => read(bytes),
        Some((1, bytes)) => read(&with_checksums(bytes)),
        Some((_, bytes)) => packed(bytes),
    }
}

fn read(bytes: &[u8]) {
    let _ = (chunk::count_of(bytes), chunk::is_cold(bytes));
    let Ok(header) = Header::read(bytes) else { return };
    assert_eq!(header.fingerprints().len(), header.count);
    assert_eq!(header.count, chunk::count_of(bytes));
    if let Ok(unpacked) = chunk::unpack(&header) {
        assert_eq!(unpacked.records().len(), header.count);
        unpacked.records().for_each(any_record);
    }
    if let Ok(cold) = ColdChunk::read(&header) {
        assert_eq!(cold.entries().len(), header.count);
        cold.entries().for_each(|(stub, _)| any_record(stub));
    }
}

/// Corrects the checksums of a chunk, because the fuzzer does not compute them.
fn with_checksums(bytes: &[u8]) -> Vec<u8> {
    let mut chunk = bytes.to_vec();
    let header_bytes = 32 + chunk::count_of(bytes) * 4;
    if chunk.len() < header_bytes {
        return chunk;
    }
    // The input controls the uncompressed length. Bound it, because allocating 64 MiB each time
    // would slow the fuzzer down.
    chunk[15] = 0;
    chunk[14] &= 0x0f;
    let body = crc32fast::hash(&chunk[header_bytes..]);
    chunk[8..12].copy_from_slice(&body.to_le_bytes());
    let mut header = crc32fast::Hasher::new();
    header.update(&chunk[..4]);
    header.update(&chunk[8..header_bytes]);
    chunk[4..8].copy_from_slice(&header.finalize().to_le_bytes());
    chunk
}

/// Asserts that packed records of arbitrary bytes are read back unchanged. Each record begins with
/// its length.
fn packed(mut bytes: &[u8]) {
    let mut records = Vec::new();
    while let Some((&length, rest)) = bytes.split_first()
        && records.len() < CAPACITY
    {
        let (record, rest) = rest.split_at(rest.len().min(usize::from(length) * 4));
        records.push(record);
        bytes = rest;
    }
    if records.is_empty() {
        return;
    }
    let entries: Vec<_> = records
        .iter()
        .map(|record| ChunkEntry { record, fingerprint: Fingerprint(crc32fast::hash(record)) })
        .collect();
    let mut packed = Vec::new();
    ChunkPacker::default().pack(&entries, Timestamp::from_millis(9), 3, &mut packed);
    let header = Header::read(&packed).expect("the lines above packed it");
    let unpacked = chunk::unpack(&header).expect("the lines above packed it");
    assert!(unpacked.records().eq(records));
}
