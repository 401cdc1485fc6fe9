//! Objects after an erasure: each holds the content of those messages alone whose rows still refer to it.

use bluetick_archive::jobs;
use bluetick_archive::jobs::layout::lay_out_blocking;
use bluetick_archive::{BlockRef, ObjectArchiveError, SegmentName, segment};
use bluetick_core::ContentType;
use bluetick_core::ports::{ArchiveError, ColdCount, EraseReport};

use super::erase::{Erasure, changed_meanwhile};
use super::job::{Job, Stored};
use super::record::Record;
use crate::cells::{Cell, Cold};

impl Job<'_> {
    /// Goes by the objects, not by the rows: what an interrupted run left is among them.
    pub(super) async fn erase_in_objects(
        &mut self,
        erasure: &Erasure,
        report: &mut EraseReport,
    ) -> Result<(), ArchiveError> {
        let id = erasure.conversation;
        let objects = self.objects_of(id).await?;
        for (old, bytes) in objects.into_iter().filter(|(name, _)| name.first <= erasure.through) {
            self.go_on().await?;
            let rows = self.all_stored(id, old.first, old.last).await?;
            let is_its = |row: &&Stored| row.cell.cold.as_ref().is_some_and(|cold| cold.place.is_in(&old));
            if rows.iter().filter(is_its).count() == 0 {
                let others: Vec<_> =
                    rows.into_iter().filter(|row| !erasure.took(&row.cell.message)).collect();
                self.delete_now(&old, others).await?;
                report.segments_deleted += 1;
                self.shared.subtract_unread(bytes);
            } else if rows.iter().any(|row| erasure.took(&row.cell.message)) {
                self.rewrite(&old, &rows).await?;
                report.segments_rewritten += 1;
            }
        }
        Ok(())
    }

    async fn rewrite(&mut self, old: &SegmentName, rows: &[Stored]) -> Result<(), ArchiveError> {
        // What cannot be read cannot be kept either: erasing is not to wait for a repair that may never come.
        let object = match jobs::object_archive(self)?.segment(old).await {
            Ok(object) => object,
            Err(ObjectArchiveError::Missing { .. } | ObjectArchiveError::Damaged { .. }) => {
                bytes::Bytes::new()
            }
            Err(error) => return Err(error.into()),
        };
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
            let block = block_in(&object, &place.block);
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
        if lost > 0 {
            tracing::error!(segment = %old, lost, "messages of a damaged segment are lost for good");
        }
        // A name of its own for each: an attempt that was interrupted may have left two objects of one range, and rows
        // that refer to both.
        let revision = self.raise_names(old.conversation).await?;
        let name = SegmentName { revision, ..*old };
        let laid = lay_out_blocking(name, records).await?;
        self.go_on().await?;
        jobs::object_archive(self)?
            .put(&name, laid.sealed.bytes.clone())
            .await
            .map_err(ArchiveError::from)?;
        let (mut flipped, mut others) = (Vec::new(), Vec::new());
        for (row, place) in rows.iter().zip(laid.refs) {
            if let Some(cold) = row.cell.cold.as_ref().filter(|cold| cold.place.is_in(old)) {
                let cold = Some(Cold { place, ..cold.clone() });
                flipped.push(Stored { version: row.version, cell: Cell { cold, ..row.cell.clone() } });
            } else if row.cell.message.content_type != ContentType::Erased {
                others.push(row.clone());
            }
        }
        if self.change(&flipped).await?.contains(&false) {
            return Err(changed_meanwhile(old.conversation));
        }
        self.shared.add(&ColdCount {
            segments: 1,
            messages: 0,
            bytes: laid.sealed.bytes.len() as u64,
            raw_bytes: laid.sealed.raw_bytes,
        });
        self.shared.subtract_unread(object.len() as u64);
        self.delete_now(old, others).await
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
