//! Giving messages their content from the archive.

use std::collections::BTreeMap;
use std::sync::Arc;

use bluetick_archive::jobs::fill::{FetchedBlock, FetchedBlocks};
use bluetick_archive::{BlockRef, SegmentName};
use bluetick_core::{ConversationId, Message, PageLimit, Seq, StoreError};

use super::record::{Record, lose};
use crate::cells::{Cell, Cold};
use crate::engine::Engine;

/// How often rows are looked at again that may say something else by now.
const LOOKS: usize = 4;

/// Cells whose content cannot be had now, by their index, and why.
#[derive(Debug)]
pub(crate) struct Unfilled {
    cells: Vec<usize>,
    why: String,
}

impl Unfilled {
    fn error(self) -> StoreError {
        StoreError::Unavailable(self.why.into())
    }

    /// Leaves what comes before the first cell that cannot be had, seen from where the reader comes, and says how many
    /// those are; an error when that is the first of all.
    pub fn cut(self, cells: &mut Vec<Cell>, upward: bool) -> Result<PageLimit, StoreError> {
        let count = cells.len();
        let has = |index: &usize| !self.cells.contains(index);
        let had = match upward {
            true => (0..count).take_while(has).count(),
            false => (0..count).rev().take_while(has).count(),
        };
        let limit = i64::try_from(had).ok().and_then(|had| PageLimit::try_from(had).ok());
        let Some(limit) = limit else { return Err(self.error()) };
        match upward {
            true => cells.truncate(had),
            false => drop(cells.drain(..count - had)),
        }
        Ok(limit)
    }
}

impl Engine {
    /// As [`Engine::dense`], each with its content.
    pub(crate) async fn dense_with_content(
        &self,
        conversation: ConversationId,
        first: Seq,
        last: Seq,
    ) -> Result<Vec<Cell>, StoreError> {
        let mut cells: Vec<Cell> = self.dense(conversation, first, last).await?.into_values().collect();
        self.fill_all(&mut cells).await?;
        Ok(cells)
    }

    /// The same places, each with its content.
    pub(crate) async fn filled(&self, cells: BTreeMap<Seq, Cell>) -> Result<BTreeMap<Seq, Cell>, StoreError> {
        if cells.values().all(|cell| cell.cold.is_none()) {
            return Ok(cells);
        }
        let mut cells: Vec<Cell> = cells.into_values().collect();
        self.fill_all(&mut cells).await?;
        Ok(cells.into_iter().map(|cell| (cell.seq(), cell)).collect())
    }

    /// All of it, or an error.
    pub(crate) async fn fill_all(&self, cells: &mut [Cell]) -> Result<(), StoreError> {
        self.fill(cells).await?.map_or(Ok(()), |unfilled| Err(unfilled.error()))
    }

    /// Each block is fetched once, all side by side. What is damaged or gone is served without its content, as `lost`.
    /// An object that is not what a row says may be so because the row says something else by now: then that is looked
    /// at.
    pub(crate) async fn fill(&self, cells: &mut [Cell]) -> Result<Option<Unfilled>, StoreError> {
        for _ in 0..LOOKS {
            if cells.iter().all(|cell| cell.cold.is_none()) {
                return Ok(None);
            }
            let store = self.archive_tag().await?;
            let wanted: Vec<_> = cells.iter().filter_map(|cell| wanted_of(cell, store)).collect();
            let blocks = FetchedBlocks::fetch(self.archive.object_archive.as_deref(), wanted).await;
            let (mut unavailable, mut stale) = (Vec::new(), Vec::new());
            for (index, cell) in cells.iter_mut().enumerate() {
                let Some((name, block)) = wanted_of(cell, store) else { continue };
                match blocks.get(&name, &block) {
                    FetchedBlock::Content(block) => {
                        let Some(Cold { place, .. }) = cell.cold.take() else { continue };
                        let record = block.record(place.index as usize).and_then(Record::decode);
                        self.put_content(Arc::make_mut(&mut cell.message), &name, record);
                    }
                    FetchedBlock::Missing | FetchedBlock::Damaged => stale.push(index),
                    FetchedBlock::Unavailable => unavailable.push(index),
                }
            }
            let moved = self.look_again(cells, &stale).await?;
            for index in stale {
                let cell = &mut cells[index];
                if !moved.contains(&index) {
                    cell.cold = None;
                    lose(Arc::make_mut(&mut cell.message));
                }
            }
            if moved.is_empty() {
                blocks.log_damage(&self.archive.state);
                let unfilled = |why| Unfilled { cells: unavailable, why };
                return Ok(blocks.why_unavailable().map(unfilled));
            }
        }
        let cells = cells.iter().enumerate().filter(|(_, cell)| cell.cold.is_some()).map(|(index, _)| index);
        let cells: Vec<_> = cells.collect();
        let why = "these messages are being moved".to_owned();
        Ok((!cells.is_empty()).then_some(Unfilled { cells, why }))
    }

    /// Reads these rows again. Those that say something else by now take the place of what was read before, and are
    /// named.
    async fn look_again(&self, cells: &mut [Cell], stale: &[usize]) -> Result<Vec<usize>, StoreError> {
        if stale.is_empty() {
            return Ok(Vec::new());
        }
        let places = stale.iter().map(|index| (cells[*index].message.conversation, cells[*index].seq()));
        let rows = self.reader.points(&places.collect::<Vec<_>>()).await?;
        let mut moved = Vec::new();
        for (index, row) in stale.iter().zip(rows) {
            let (Some(row), cell) = (row, &mut cells[*index]) else { continue };
            let now = Cell::decode(cell.message.conversation, cell.seq(), &row)?;
            if now.cold != cell.cold {
                *cell = now;
                moved.push(*index);
            }
        }
        Ok(moved)
    }

    /// The block is what was written, and yet it is looked at whether it holds this very message.
    fn put_content(&self, message: &mut Message, name: &SegmentName, record: Option<Record<'_>>) {
        match record.filter(|record| record.is_of(message)) {
            Some(record) => record.give_to(message),
            None => {
                let seq = message.seq;
                self.archive
                    .state
                    .log_damage(name, &format_args!("{name} holds something else for seq {seq}"));
                lose(message);
            }
        }
    }
}

/// Returns the block with the content of an archived message.
fn wanted_of(cell: &Cell, store: [u8; 8]) -> Option<(SegmentName, BlockRef)> {
    let place = cell.cold.as_ref()?.place;
    Some((place.segment(store, cell.message.conversation), place.block))
}
