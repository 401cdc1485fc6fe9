//! Writes restored content into the chunks.

use std::sync::Arc;

use bluetick_archive::SegmentName;
use bluetick_archive::segment::DecodedSegment;
use bluetick_core::ConversationId;
use bluetick_core::ports::ArchiveError;

use super::Archiver;
use super::job::{Stub, damaged, moved_meanwhile, records_of, stubs_of};
use crate::codec::archive::{ArchiveProgress, SegmentRow};
use crate::codec::chunk::{ChunkEntry, ChunkPacker, Fingerprinter};
use crate::tables::{ChunkKey, Tables, TablesError, Update};

impl Archiver {
    /// Marks a conversation without archived segments as kept hot.
    pub(super) async fn keep_hot(&self, id: ConversationId) -> Result<(), ArchiveError> {
        let tables = Arc::clone(&self.tables);
        self.blocking(move || {
            let engine = tables.writing()?;
            let mut update = engine.update()?;
            mark_kept_hot(&mut update, id)?;
            Ok(update.commit()?)
        })
        .await
    }
}

/// Restores the chunks of one segment. Errors with damage, without a change, if the segment and its
/// chunks disagree.
pub(super) fn put_segment_back(
    tables: &Tables,
    name: &SegmentName,
    key: ChunkKey,
    row: &SegmentRow,
    opened: &DecodedSegment,
    hasher: &Fingerprinter,
) -> Result<(), ArchiveError> {
    let stubs = stubs_of(&*tables.current()?, key, row)?;
    let records = stubs.iter().map(|stub| records_of(stub, opened, hasher));
    let records: Vec<_> = records.collect::<Result<_, _>>().map_err(|why| damaged(name, why))?;
    put_back(tables, key, &stubs, &records, mark_kept_hot)
}

/// Marks the conversation so that no run archives it again until a run names it.
fn mark_kept_hot(update: &mut Update<'_>, id: ConversationId) -> Result<(), TablesError> {
    let progress = update.progress(id)?;
    update
        .put_progress(id, &ArchiveProgress { kept_hot: true, moved_through: Default::default(), ..progress })
}

/// Stores these records in the chunks of a segment and deletes the segment row.
pub fn drop_segment<R: AsRef<[u8]>>(
    tables: &Tables,
    key: ChunkKey,
    stubs: &[Stub],
    records: &[Vec<R>],
) -> Result<(), ArchiveError> {
    put_back(tables, key, stubs, records, |_, _| Ok(()))
}

/// Replaces archived chunks by hot ones and deletes the segment row, in one transaction. `also`
/// adds writes to it. Errors if a chunk has changed since it was read.
fn put_back<R: AsRef<[u8]>>(
    tables: &Tables,
    key: ChunkKey,
    stubs: &[Stub],
    records: &[Vec<R>],
    also: impl FnOnce(&mut Update<'_>, ConversationId) -> Result<(), TablesError>,
) -> Result<(), ArchiveError> {
    let engine = tables.writing()?;
    let mut update = engine.update()?;
    let mut packer = ChunkPacker::default();
    for (stub, records) in stubs.iter().zip(records) {
        if update.chunk(ChunkKey { first: stub.first, ..key })? != Some(&stub.bytes[..]) {
            return Err(moved_meanwhile(key));
        }
        let hot = hot_chunk(&mut packer, stub, records)?;
        update.put_chunk(key.conversation, stub.first, &hot)?;
    }
    update.set_segment(key, None)?;
    also(&mut update, key.conversation)?;
    Ok(update.commit()?)
}

fn hot_chunk<R: AsRef<[u8]>>(
    packer: &mut ChunkPacker,
    stub: &Stub,
    records: &[R],
) -> Result<Vec<u8>, TablesError> {
    let header = stub.header()?;
    let entries: Vec<ChunkEntry<'_>> = records
        .iter()
        .zip(&stub.prints)
        .map(|(record, fingerprint)| ChunkEntry { record: record.as_ref(), fingerprint: *fingerprint })
        .collect();
    let mut packed = Vec::new();
    packer.pack(&entries, header.newest_received_at, header.notices_before, &mut packed);
    Ok(packed)
}
