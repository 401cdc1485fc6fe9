//! Writes restored content into the rows of a conversation.

use std::sync::Arc;

use bluetick_archive::segment::DecodedSegment;
use bluetick_core::ports::ArchiveError;
use bluetick_core::{ConversationId, Seq};

use super::job::{Job, Stored};
use super::verify::record_of;
use crate::cells::Cell;

impl Job<'_> {
    /// Keeps the conversation hot until a run names it.
    pub(super) async fn keep_room_hot(&mut self, id: ConversationId) -> Result<(), ArchiveError> {
        let was = self.must_exist(id).await?.way;
        self.engine
            .change_way(id, |way| {
                way.kept_hot = true;
                way.moved_through = Seq::ZERO;
                way.look = None;
            })
            .await?;
        self.shared.kept_hot += u64::from(!was.kept_hot);
        Ok(())
    }

    /// Deletes all objects of a conversation whose rows hold all content.
    pub(super) async fn delete_all_of(&mut self, id: ConversationId) -> Result<(), ArchiveError> {
        for name in self.objects_of(id).await?.into_keys() {
            let rows = self.all_stored(id, name.first, name.last).await?;
            self.delete_now(&name, rows).await?;
        }
        Ok(())
    }
}

/// Returns the rows with the content of their records. Errors with a description of the first row
/// that differs from its record.
pub(super) fn with_content(rows: &[Stored], opened: &DecodedSegment) -> Result<Vec<Stored>, String> {
    let back = rows.iter().map(|Stored { version, cell }| {
        let record = record_of(cell, opened)?;
        if record.is_lost() {
            return Err(format!("the content of seq {} was lost before", cell.seq()));
        }
        let mut cell = Cell { cold: None, ..cell.clone() };
        record.give_to(Arc::make_mut(&mut cell.message));
        Ok(Stored { version: *version, cell })
    });
    back.collect()
}
