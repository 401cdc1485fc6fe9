//! Rewrites a segment without the content of some messages. Keeps all readable content of a damaged
//! segment.

use bluetick_archive::jobs::layout::lay_out;
use bluetick_archive::{BlockRef, SegmentName, segment};
use bluetick_core::ports::ArchiveError;
use bluetick_core::{ContentType, Seq};
use bytes::Bytes;

use super::erase::in_chunks;
use super::job::{Stub, moved_meanwhile, records_in};
use crate::codec::archive::{Erasure, SegmentRow};
use crate::codec::chunk::Fingerprinter;
use crate::codec::record::Record;
use crate::codec::{DecodeError, cold};
use crate::tables::{ChunkKey, HotChunk, Tables, TablesError};

/// A segment under its next revision, and the new form of its chunks.
pub struct Rewritten {
    pub object: Bytes,
    row: SegmentRow,
    /// Each chunk as stored, and the rows that replace it.
    chunks: Vec<(HotChunk, cold::Parts)>,
}

/// The readable part of a chunk's messages.
pub enum Salvaged {
    Whole(Vec<Vec<u8>>),
    /// Only the records without content that the rows keep.
    Lost(Vec<(Vec<u8>, u64)>),
}

impl Salvaged {
    pub fn lost(&self) -> usize {
        match self {
            Salvaged::Whole(_) => 0,
            Salvaged::Lost(stubs) => stubs.len(),
        }
    }
}

/// Reads the records of a chunk from its block. They are lost if the block is damaged or differs
/// from the rows.
pub fn salvage(stub: &Stub, object: &[u8], hasher: &Fingerprinter) -> Salvaged {
    let BlockRef { offset, length, .. } = stub.chunk.place.block;
    let range =
        usize::try_from(offset).ok().and_then(|start| Some(start..start.checked_add(length as usize)?));
    let block = range.and_then(|range| object.get(range));
    let block = block.and_then(|bytes| segment::decode_block(bytes, &stub.chunk.place.block).ok());
    let records = block.as_ref().and_then(|block| records_in(stub, block, hasher).ok());
    match records {
        Some(records) => Salvaged::Whole(records.into_iter().map(<[u8]>::to_vec).collect()),
        None => Salvaged::Lost(stub.chunk.cells().map(|(record, hash)| (record.to_vec(), hash)).collect()),
    }
}

/// Builds the segment without the erased content. Changes neither the tables nor the object
/// archive.
pub fn rewrite(
    name: &SegmentName,
    row: SegmentRow,
    stubs: Vec<Stub>,
    salvaged: &[Salvaged],
    erasure: &Erasure,
    hasher: &Fingerprinter,
) -> Result<Rewritten, TablesError> {
    // For each chunk: the records for the segment, and the records without content for the rows.
    let (mut records, mut kept) = (Vec::with_capacity(stubs.len()), Vec::with_capacity(stubs.len()));
    for (stub, salvaged) in stubs.iter().zip(salvaged) {
        let (chunk_records, chunk_kept) =
            changed(stub.first, salvaged, erasure, hasher).map_err(in_chunks)?;
        records.push(chunk_records);
        kept.push(chunk_kept);
    }
    let borrowed: Vec<Vec<&[u8]>> =
        records.iter().map(|chunk| chunk.iter().map(Vec::as_slice).collect()).collect();
    let laid = lay_out(name, &borrowed);
    let mut chunks = Vec::with_capacity(stubs.len());
    for ((stub, kept), place) in stubs.into_iter().zip(&kept).zip(&laid.refs) {
        let becomes = cold::pack(stub.first, &stub.header()?, place, kept);
        chunks.push((HotChunk { first: stub.first, bytes: stub.bytes }, becomes));
    }
    let row = SegmentRow {
        revision: name.revision,
        bytes: laid.sealed.bytes.len() as u64,
        raw_bytes: laid.sealed.raw_bytes,
        ..row
    };
    Ok(Rewritten { object: laid.sealed.bytes, row, chunks })
}

/// The part of a chunk that the rows keep: each record without its content, and the hash of that
/// content.
type Kept = Vec<(Vec<u8>, u64)>;

/// Returns the new records of a chunk and the part that the rows keep. Lost content keeps its old
/// hash, so that it is never mistaken for an empty message.
fn changed(
    first: Seq,
    salvaged: &Salvaged,
    erasure: &Erasure,
    hasher: &Fingerprinter,
) -> Result<(Vec<Vec<u8>>, Kept), DecodeError> {
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
        Salvaged::Whole(whole) => {
            whole.iter().zip(first.get()..).try_for_each(|(record, seq)| keep(seq, record, None))?;
        }
        Salvaged::Lost(stubs) => {
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
pub fn flip(tables: &Tables, key: ChunkKey, rewritten: &Rewritten) -> Result<(), ArchiveError> {
    let engine = tables.writing()?;
    let mut update = engine.update()?;
    for (chunk, becomes) in &rewritten.chunks {
        if update.chunk(ChunkKey { first: chunk.first, ..key })? != Some(&chunk.bytes[..]) {
            return Err(moved_meanwhile(key));
        }
        for (first, part) in becomes {
            update.put_chunk(key.conversation, *first, part)?;
        }
    }
    update.set_segment(key, Some(&rewritten.row))?;
    Ok(update.commit()?)
}
