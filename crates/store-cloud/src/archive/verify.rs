//! Compares rows with the records of their object.

use bluetick_archive::segment::DecodedSegment;

use super::record::Record;
use crate::cells::Cell;

/// Returns the record of the message of a row. Errors with a description of the difference.
pub(super) fn record_of<'o>(cell: &Cell, opened: &'o DecodedSegment) -> Result<Record<'o>, String> {
    let seq = cell.seq();
    let place = cell.cold.as_ref().map(|cold| &cold.place);
    let place = place.ok_or_else(|| format!("seq {seq} does not refer to it"))?;
    let block = opened.blocks.iter().find(|(block, _)| *block == place.block);
    let (_, block) = block.ok_or_else(|| format!("it has no block for seq {seq}"))?;
    let record =
        block.record(place.index as usize).ok_or_else(|| format!("it has no record for seq {seq}"))?;
    let record = Record::decode(record).filter(|record| record.is_of(&cell.message));
    record.ok_or_else(|| format!("it holds something else for seq {seq}"))
}

/// Errors with a description of the difference.
pub(super) fn compare(cell: &Cell, opened: &DecodedSegment) -> Result<(), String> {
    match record_of(cell, opened)?.is_lost() {
        true => Err(format!("the content of seq {} was lost before", cell.seq())),
        false => Ok(()),
    }
}
