//! Reads the archived chunks of a segment, and their records in its object.

use bluetick_archive::SegmentName;
use bluetick_archive::segment::{Block, DecodedSegment};
use bluetick_core::ports::ArchiveError;
use bluetick_core::{Seq, StoreError};

use super::Archiver;
use crate::codec::archive::SegmentRow;
use crate::codec::chunk::{Fingerprint, Fingerprinter, Header};
use crate::codec::cold::ColdChunk;
use crate::tables::{ChunkKey, Engine, TablesError};

impl Archiver {
    pub(super) fn name(&self, key: ChunkKey, row: &SegmentRow) -> SegmentName {
        SegmentName {
            store: self.identity.tag.0,
            conversation: key.conversation,
            first: key.first,
            last: row.last,
            revision: row.revision,
        }
    }
}

/// An archived chunk, as stored in the tables.
pub struct Stub {
    pub first: Seq,
    pub bytes: Vec<u8>,
    pub chunk: ColdChunk,
    pub prints: Vec<Fingerprint>,
}

impl Stub {
    pub fn header(&self) -> Result<Header<'_>, TablesError> {
        Header::read(&self.bytes).map_err(|error| TablesError::Damaged { table: "chunks", error })
    }
}

/// Returns the chunks that refer to a segment, oldest first.
pub fn stubs_of(engine: &Engine, key: ChunkKey, row: &SegmentRow) -> Result<Vec<Stub>, TablesError> {
    let mut stubs = Vec::new();
    engine.snapshot()?.chunks(key.conversation, key.first, |first, bytes| {
        if first > row.last {
            return Ok(false);
        }
        let header = Header::read(bytes)?;
        if header.is_cold() {
            let chunk = ColdChunk::read(&header)?;
            let prints = header.fingerprints().collect();
            stubs.push(Stub { first, bytes: bytes.to_vec(), chunk, prints });
        }
        Ok(true)
    })?;
    Ok(stubs)
}

/// Returns the records of a chunk from its segment. Errors if the segment and the chunk disagree.
pub fn records_of<'o>(
    stub: &Stub,
    opened: &'o DecodedSegment,
    hasher: &Fingerprinter,
) -> Result<Vec<&'o [u8]>, String> {
    let block = opened.blocks.iter().find(|(block, _)| *block == stub.chunk.location.block);
    let (_, block) = block.ok_or_else(|| format!("it has no block for seq {}", stub.first))?;
    records_in(stub, block, hasher)
}

/// Like [`records_of`], from the block that contains the chunk.
pub fn records_in<'f>(
    stub: &Stub,
    block: &'f Block,
    hasher: &Fingerprinter,
) -> Result<Vec<&'f [u8]>, String> {
    let location = &stub.chunk.location;
    let mut records = Vec::with_capacity(stub.prints.len());
    for ((kept, hash), index) in stub.chunk.entries().zip(location.index as usize..) {
        let seq = stub.first.plus((index - location.index as usize) as u64);
        let record = block.record(index).ok_or_else(|| format!("it has no record for seq {seq}"))?;
        let agrees = crate::codec::cold::stub_of(record, hasher)
            .is_ok_and(|(stub, content_hash)| stub == kept && content_hash == hash);
        if !agrees {
            return Err(format!("its record for seq {seq} differs from the row"));
        }
        records.push(record);
    }
    Ok(records)
}

pub fn damaged(name: &SegmentName, why: impl std::fmt::Display) -> ArchiveError {
    ArchiveError::Damaged(format!("{name}: {why}"))
}

/// Error: the rows changed after the job read them.
pub fn moved_meanwhile(key: ChunkKey) -> ArchiveError {
    let text = format!("the rows of {} from seq {} on changed during the job", key.conversation, key.first);
    StoreError::Failed(text.into()).into()
}
