//! Rewrites a segment without the content of some messages. Keeps all readable content of a damaged
//! segment.

use bluetick_archive::jobs::Salvaged;
use bluetick_archive::{BlockRef, segment};
use bluetick_core::ports::ArchiveError;
use bluetick_core::{ContentType, Seq};

use super::erase::in_chunks;
use super::job::{Stub, moved_meanwhile, records_in};
use super::move_out::{SealedSegment, Stubs};
use crate::codec::archive::{Erasure, SegmentRow};
use crate::codec::chunk::Fingerprinter;
use crate::codec::record::Record;
use crate::codec::{DecodeError, cold};
use crate::tables::{ChunkKey, Tables, TablesError};

/// The archived chunks of a segment that is rewritten, and the new records that the rows keep.
pub struct SalvagedChunks {
    key: ChunkKey,
    row: SegmentRow,
    stubs: Vec<Stub>,
    kept: Vec<Stubs>,
}

impl SalvagedChunks {
    pub(super) fn segment(&self) -> (ChunkKey, SegmentRow) {
        (self.key, self.row)
    }
}

/// The readable part of a chunk's messages.
enum SalvagedChunk {
    Whole(Vec<Vec<u8>>),
    /// Only the records without content that the rows keep.
    Lost(Vec<(Vec<u8>, u64)>),
}

impl SalvagedChunk {
    fn lost(&self) -> usize {
        match self {
            SalvagedChunk::Whole(_) => 0,
            SalvagedChunk::Lost(stubs) => stubs.len(),
        }
    }
}

/// Reads the records of a chunk from its block. They are lost if the block is damaged or differs
/// from the rows.
fn salvage_chunk(stub: &Stub, object: &[u8], hasher: &Fingerprinter) -> SalvagedChunk {
    let BlockRef { offset, length, .. } = stub.chunk.location.block;
    let range =
        usize::try_from(offset).ok().and_then(|start| Some(start..start.checked_add(length as usize)?));
    let block = range.and_then(|range| object.get(range));
    let block = block.and_then(|bytes| segment::decode_block(bytes, &stub.chunk.location.block).ok());
    let records = block.as_ref().and_then(|block| records_in(stub, block, hasher).ok());
    match records {
        Some(records) => SalvagedChunk::Whole(records.into_iter().map(<[u8]>::to_vec).collect()),
        None => {
            SalvagedChunk::Lost(stub.chunk.entries().map(|(record, hash)| (record.to_vec(), hash)).collect())
        }
    }
}

/// Returns the records of the segment without the erased content. An empty `object` stands for one
/// that cannot be read.
pub(super) fn salvage(
    key: ChunkKey,
    row: SegmentRow,
    stubs: Vec<Stub>,
    object: &[u8],
    erasure: &Erasure,
    hasher: &Fingerprinter,
) -> Result<Salvaged<SalvagedChunks>, TablesError> {
    let (mut records, mut kept, mut lost) = (Vec::new(), Vec::new(), 0);
    for stub in &stubs {
        let chunk = salvage_chunk(stub, object, hasher);
        lost += chunk.lost() as u64;
        let (chunk_records, chunk_kept) = changed(stub.first, &chunk, erasure, hasher).map_err(in_chunks)?;
        records.push(chunk_records);
        kept.push(chunk_kept);
    }
    Ok(Salvaged { records, lost, rows: SalvagedChunks { key, row, stubs, kept } })
}

/// Returns the new records of a chunk and the part that the rows keep. Lost content keeps its old
/// hash, so that it is never mistaken for an empty message.
fn changed(
    first: Seq,
    salvaged: &SalvagedChunk,
    erasure: &Erasure,
    hasher: &Fingerprinter,
) -> Result<(Vec<Vec<u8>>, Stubs), DecodeError> {
    let (mut records, mut kept) = (Vec::new(), Vec::new());
    let mut keep = |seq: u64, record: &[u8], lost: Option<u64>| {
        let record = without_content(Seq::new(seq), record, erasure)?;
        let (stub, hash) = cold::stub_of(&record, hasher)?;
        let erased = Record::decode(&record)?.content_type == ContentType::Erased;
        kept.push((stub, lost.filter(|_| !erased).unwrap_or(hash)));
        records.push(record);
        Ok(())
    };
    match salvaged {
        SalvagedChunk::Whole(whole) => {
            whole.iter().zip(first.get()..).try_for_each(|(record, seq)| keep(seq, record, None))?;
        }
        SalvagedChunk::Lost(stubs) => {
            stubs
                .iter()
                .zip(first.get()..)
                .try_for_each(|((stub, hash), seq)| keep(seq, stub, Some(*hash)))?;
        }
    }
    Ok((records, kept))
}

/// Returns the record unchanged, or its erased form if the erasure affects it.
pub fn without_content(seq: Seq, record: &[u8], erasure: &Erasure) -> Result<Vec<u8>, DecodeError> {
    match erasure.takes(seq, &Record::decode(record)?) {
        true => cold::erased(record),
        false => Ok(record.to_vec()),
    }
}

/// Replaces the chunks and the segment row in one transaction. Errors if a chunk has changed since
/// it was read.
pub(super) fn flip(
    tables: &Tables,
    salvaged: &SalvagedChunks,
    sealed: &SealedSegment,
) -> Result<(), ArchiveError> {
    let SalvagedChunks { key, row, stubs, kept } = salvaged;
    let engine = tables.writing()?;
    let mut update = engine.update()?;
    for ((stub, kept), reference) in stubs.iter().zip(kept).zip(&sealed.refs) {
        if update.chunk(ChunkKey { first: stub.first, ..*key })? != Some(&stub.bytes[..]) {
            return Err(moved_meanwhile(*key));
        }
        for (first, part) in cold::pack(stub.first, &stub.header()?, reference, kept) {
            update.put_chunk(key.conversation, first, &part)?;
        }
    }
    let (revision, bytes, raw_bytes) = (sealed.name.revision, sealed.bytes, sealed.raw_bytes);
    update.set_segment(*key, Some(&SegmentRow { revision, bytes, raw_bytes, ..*row }))?;
    Ok(update.commit()?)
}
