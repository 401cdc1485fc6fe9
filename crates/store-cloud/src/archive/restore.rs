//! Bringing a conversation back to the rows, or all of them.

use std::collections::HashSet;
use std::time::Instant;

use bluetick_archive::is_damage;
use bluetick_archive::{SegmentName, segment};
use bluetick_core::ports::{ArchiveError, ColdCount, Progress, RestoreReport, Stage};
use bluetick_core::{ConversationId, Seq};

use super::job::{Job, Stored};
use super::verify::{record_of, size_of};
use crate::cells::Cell;
use crate::memberships::RoomRow;

impl Job<'_> {
    pub(super) async fn restore(
        &mut self,
        only: Option<ConversationId>,
        progress: &dyn Progress,
    ) -> Result<RestoreReport, ArchiveError> {
        let started = Instant::now();
        self.object_archive()?;
        let mut report = RestoreReport::default();
        // One damaged segment must not keep the others away.
        let mut first_damage = None;
        if let Some(id) = only {
            let room = self.must_exist(id).await?;
            self.must_be_in_place().await?;
            self.restore_one(&room, &mut report, &mut first_damage, progress).await?;
            if report.messages == 0 && first_damage.is_none() {
                self.keep_hot(id).await?;
            }
        } else {
            self.must_be_in_place().await?;
            let mut after = None;
            loop {
                let (rooms, next) = self.rooms(after.as_deref()).await?;
                for room in rooms.iter().filter(|room| room.way.has_cold) {
                    self.restore_one(room, &mut report, &mut first_damage, progress).await?;
                }
                match next {
                    Some(_) => after = next,
                    None => break,
                }
            }
        }
        report.took = started.elapsed();
        first_damage.map_or(Ok(report), Err)
    }

    /// No run takes it away again until one names it.
    async fn keep_hot(&mut self, id: ConversationId) -> Result<(), ArchiveError> {
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

    async fn restore_one(
        &mut self,
        room: &RoomRow,
        report: &mut RestoreReport,
        first_damage: &mut Option<ArchiveError>,
        progress: &dyn Progress,
    ) -> Result<(), ArchiveError> {
        let id = room.facts.id;
        let (mut next, mut is_kept, mut damaged) = (Seq::FIRST, false, HashSet::new());
        while let Some(first) = self.first_cold(id, next, &damaged).await? {
            self.go_on().await?;
            let place = first.cell.cold.as_ref().map(|cold| cold.place);
            let Some(place) = place else { break };
            let name = place.segment(self.store, id);
            let rows = self.all_stored(id, name.first, name.last).await?;
            let is_its = |row: &Stored| row.cell.cold.as_ref().is_some_and(|cold| cold.place.is_in(&name));
            let (rows, others): (Vec<_>, Vec<_>) = rows.into_iter().partition(is_its);
            // Rows of another object may lie between those of this one.
            next = first.seq().next();
            let back = match self.object_archive()?.segment(&name).await.map_err(ArchiveError::from) {
                Ok(bytes) => {
                    with_content(&rows, &bytes).map_err(|why| ArchiveError::Damaged(format!("{name}: {why}")))
                }
                Err(error) => Err(error),
            };
            let (back, size) = match back {
                Ok(back) => back,
                Err(error) if is_damage(&error) => {
                    tracing::error!(%error, "a segment cannot be brought back");
                    first_damage.get_or_insert(error);
                    damaged.insert(name);
                    continue;
                }
                Err(error) => return Err(error),
            };
            if !is_kept {
                self.keep_hot(id).await?;
                is_kept = true;
            }
            let done = self.change(&back).await?;
            let messages = done.iter().filter(|done| **done).count() as u64;
            report.segments += 1;
            report.messages += messages;
            self.shared.subtract(&ColdCount { messages, ..size });
            progress.advanced(Stage::Restoring, report.segments, report.segments);
            if messages == back.len() as u64 {
                self.delete_now(&name, &others).await?;
            }
        }
        if damaged.is_empty() && self.first_cold(id, Seq::FIRST, &damaged).await?.is_none() {
            self.delete_all_of(id).await?;
            self.engine.change_way(id, |way| way.has_cold = false).await?;
        }
        Ok(())
    }

    /// The first row from `first` on whose content is in the archive, in another object than these.
    async fn first_cold(
        &self,
        id: ConversationId,
        first: Seq,
        except: &HashSet<SegmentName>,
    ) -> Result<Option<Stored>, ArchiveError> {
        let is_wanted = |stored: &Stored| {
            let cold = stored.cell.cold.as_ref();
            cold.is_some_and(|cold| !except.contains(&cold.place.segment(self.store, id)))
        };
        let (mut next, head) = (first, self.engine.head(id).await?);
        loop {
            let (cells, more) = self.stored(id, next, head, 1_000).await?;
            let Some(last) = cells.last().map(Stored::seq) else { return Ok(None) };
            let cold = cells.into_iter().find(is_wanted);
            match cold {
                None if more => next = last.next(),
                cold => return Ok(cold),
            }
        }
    }

    /// Objects of a conversation that has everything in its rows.
    async fn delete_all_of(&mut self, id: ConversationId) -> Result<(), ArchiveError> {
        for name in self.objects_of(id).await?.into_keys() {
            let rows = self.all_stored(id, name.first, name.last).await?;
            self.delete_now(&name, &rows).await?;
        }
        Ok(())
    }
}

/// The rows with the content that the object holds, and how large that is; an error where the two do not agree.
fn with_content(rows: &[Stored], object: &[u8]) -> Result<(Vec<Stored>, ColdCount), String> {
    let opened = segment::open(object).map_err(|damage| damage.to_string())?;
    let back = rows.iter().map(|Stored { version, cell }| {
        let record = record_of(cell, &opened)?;
        if record.is_lost() {
            return Err(format!("the content of seq {} was lost before", cell.seq()));
        }
        let mut cell = Cell { cold: None, ..cell.clone() };
        record.give_to(std::sync::Arc::make_mut(&mut cell.message));
        Ok(Stored { version: *version, cell })
    });
    Ok((back.collect::<Result<_, String>>()?, size_of(object, &opened)))
}
