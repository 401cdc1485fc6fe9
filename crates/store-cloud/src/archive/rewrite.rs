//! Rewrites an object after an erasure. The new object holds only the content of messages whose rows
//! refer to it.

use bluetick_archive::jobs::layout::SegmentLayout;
use bluetick_archive::jobs::{ErasureEffect, Salvaged};
use bluetick_archive::{BlockRef, SegmentName, segment};
use bluetick_core::ContentType;
use bluetick_core::ports::{ArchiveError, ColdCount};

use super::erase::{Erasure, changed_meanwhile};
use super::job::{Job, Stored};
use super::record::Record;
use super::rows::RangeRows;
use crate::cells::{Cell, Cold};

impl Job<'_> {
    /// Returns the effect of the erasure on one object. The rows are erased already.
    pub(super) async fn look_at(
        &self,
        name: &SegmentName,
        erasure: &Erasure,
    ) -> Result<ErasureEffect<RangeRows>, ArchiveError> {
        let rows = self.all_stored(name.conversation, name.first, name.last).await?;
        let is_affected = rows.iter().any(|row| erasure.took(&row.cell.message));
        let (own, mut others): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.is_in(name));
        Ok(if own.is_empty() {
            // The erasure has just raised the versions of the rows that it took.
            others.retain(|row| !erasure.took(&row.cell.message));
            ErasureEffect::NothingLeft { segment: RangeRows { own, others }, messages: 0 }
        } else if is_affected {
            ErasureEffect::Rewrite { segment: RangeRows { own, others }, messages: 0 }
        } else {
            ErasureEffect::Unaffected
        })
    }

    /// Returns the records of all rows in the range. Content that cannot be read is marked as lost.
    pub(super) fn salvage_range(
        old: &SegmentName,
        segment: RangeRows,
        object: &[u8],
    ) -> Result<Salvaged<RangeRows>, ArchiveError> {
        let mut rows: Vec<&Stored> = segment.own.iter().chain(&segment.others).collect();
        rows.sort_by_key(|row| row.seq());
        if rows.len() as u64 != old.count() {
            return Err(changed_meanwhile(old.conversation));
        }
        let (mut records, mut lost) = (Vec::with_capacity(rows.len()), 0);
        for row in rows {
            let place = row.cell.cold.as_ref().map(|cold| cold.place).filter(|place| place.is_in(old));
            let Some(place) = place else {
                // Its content is in the row, in another object, or nowhere.
                records.push(vec![Record::of(&bare(&row.cell)).encode()]);
                continue;
            };
            let block = block_in(object, &place.block);
            let kept = block.as_ref().and_then(|block| block.record(place.index as usize));
            let kept = kept
                .filter(|kept| Record::decode(kept).is_some_and(|record| record.is_of(&row.cell.message)));
            match kept {
                Some(kept) => records.push(vec![kept.to_vec()]),
                None => {
                    lost += 1;
                    records.push(vec![Record::of(&row.cell).lost().encode()]);
                }
            }
        }
        Ok(Salvaged { records, lost, rows: segment })
    }

    /// Makes the rows refer to the rewritten object. Returns the rows that may still be changed by a
    /// late writer.
    pub(super) async fn flip_range(
        &mut self,
        segment: RangeRows,
        name: &SegmentName,
        layout: &SegmentLayout,
        old_bytes: u64,
    ) -> Result<RangeRows, ArchiveError> {
        let RangeRows { own, mut others } = segment;
        let flipped = own.iter().filter_map(|row| {
            let index = usize::try_from(row.seq().distance_from(name.first)).ok()?;
            let (place, cold) = (*layout.refs.get(index)?, row.cell.cold.clone()?);
            let cold = Some(Cold { place, ..cold });
            Some(Stored { version: row.version, cell: Cell { cold, ..row.cell.clone() } })
        });
        let flipped: Vec<Stored> = flipped.collect();
        if self.change(&flipped).await?.contains(&false) {
            return Err(changed_meanwhile(name.conversation));
        }
        self.shared.add(&ColdCount {
            segments: 1,
            messages: 0,
            bytes: layout.sealed.bytes.len() as u64,
            raw_bytes: layout.sealed.raw_bytes,
        });
        self.shared.subtract_unread(old_bytes);
        others.retain(|row| row.cell.message.content_type != ContentType::Erased);
        Ok(RangeRows { own: Vec::new(), others })
    }
}

fn bare(cell: &Cell) -> Cell {
    let mut cell = cell.clone();
    std::sync::Arc::make_mut(&mut cell.message).content = "".into();
    cell
}

fn block_in(object: &[u8], block: &BlockRef) -> Option<segment::Block> {
    let start = usize::try_from(block.offset).ok()?;
    let bytes = object.get(start..start.checked_add(block.length as usize)?)?;
    segment::decode_block(bytes, block).ok()
}
