//! Finds chunks that refer to an unknown segment.

use bluetick_core::{ConversationId, Seq};

use crate::codec::chunk::Header;
use crate::codec::cold::ColdChunk;
use crate::tables::{ChunkKey, Engine, TablesError};

/// Returns the first seq of each chunk that refers to an unknown segment.
pub(super) fn strays(engine: &Engine, id: ConversationId) -> Result<Vec<Seq>, TablesError> {
    let snapshot = engine.snapshot()?;
    let (mut locations, mut strays) = (Vec::new(), Vec::new());
    snapshot.chunks(id, Seq::FIRST, |first, bytes| {
        let header = Header::read(bytes)?;
        if header.is_cold() {
            locations.push((first, ColdChunk::read(&header)?.location));
        }
        Ok(true)
    })?;
    for (first, location) in locations {
        let row = snapshot.segment(ChunkKey { conversation: id, first: location.first })?;
        if row.is_none_or(|row| row.last != location.last || row.revision != location.revision) {
            strays.push(first);
        }
    }
    Ok(strays)
}
