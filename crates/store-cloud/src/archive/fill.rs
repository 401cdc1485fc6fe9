//! Giving messages their content from the archive.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use bluetick_archive::segment::Frame;
use bluetick_archive::{FrameRef, SegmentName, VaultError};
use bluetick_core::{ConversationId, Message, PageLimit, Seq, StoreError};
use futures_util::future::join_all;

use super::record::{Record, lose};
use crate::cells::{Cell, Cold};
use crate::engine::Engine;

pub(super) const NO_ARCHIVE: &str =
    "these messages are in an archive, and the settings name none (archive.engine)";

/// How often rows are looked at again that may say something else by now.
const LOOKS: usize = 4;

/// Segments whose damage was told of.
const TOLD_AT_MOST: usize = 10_000;

type Fetched = Result<Arc<Frame>, VaultError>;

/// Cells whose content cannot be had now, by their index, and why.
#[derive(Debug)]
pub(crate) struct Unfilled {
    cells: Vec<usize>,
    why: String,
}

impl Unfilled {
    fn error(self) -> StoreError {
        StoreError::Unavailable(self.why)
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

    /// Each frame is fetched once, all side by side. What is damaged or gone is served without its content, as `lost`.
    /// An object that is not what a row says may be so because the row says something else by now: then that is looked
    /// at.
    pub(crate) async fn fill(&self, cells: &mut [Cell]) -> Result<Option<Unfilled>, StoreError> {
        for _ in 0..LOOKS {
            if cells.iter().all(|cell| cell.cold.is_none()) {
                return Ok(None);
            }
            let frames = self.fetch(cells).await?;
            let (mut away, mut why, mut stale) = (Vec::new(), None, Vec::new());
            for (index, cell) in cells.iter_mut().enumerate() {
                let Some(Cold { place, .. }) = cell.cold else { continue };
                let is_its = |(of, frame, _): &&(SegmentName, FrameRef, Fetched)| {
                    place.is_in(of) && *frame == place.frame && of.conversation == cell.message.conversation
                };
                let Some((name, _, fetched)) = frames.iter().find(is_its) else { continue };
                match fetched {
                    Ok(frame) => {
                        cell.cold = None;
                        let record = frame.record(place.index as usize).and_then(Record::decode);
                        let message = Arc::make_mut(&mut cell.message);
                        self.put_content(message, name, record);
                    }
                    Err(VaultError::Missing { .. } | VaultError::Damaged { .. }) => stale.push(index),
                    Err(VaultError::Unavailable(reason) | VaultError::Settings(reason)) => {
                        away.push(index);
                        why.get_or_insert_with(|| reason.clone());
                    }
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
                for (name, _, fetched) in &frames {
                    if let Err(error @ (VaultError::Missing { .. } | VaultError::Damaged { .. })) = fetched {
                        self.tell_of_damage(name, error);
                    }
                }
                return Ok(why.map(|why| Unfilled { cells: away, why }));
            }
        }
        let cells = cells.iter().enumerate().filter(|(_, cell)| cell.cold.is_some()).map(|(index, _)| index);
        let cells: Vec<_> = cells.collect();
        let why = "these messages are being moved".to_owned();
        Ok((!cells.is_empty()).then_some(Unfilled { cells, why }))
    }

    async fn fetch(&self, cells: &[Cell]) -> Result<Vec<(SegmentName, FrameRef, Fetched)>, StoreError> {
        let store = self.archive_tag().await?;
        let mut wanted: Vec<(SegmentName, FrameRef)> = Vec::new();
        for cell in cells {
            let Some(Cold { place, .. }) = &cell.cold else { continue };
            let frame = (place.segment(store, cell.message.conversation), place.frame);
            if !wanted.contains(&frame) {
                wanted.push(frame);
            }
        }
        let fetches = wanted.into_iter().map(|(name, frame)| async move {
            let fetched = match &self.archive.vault {
                Some(vault) => vault.frame(&name, frame).await,
                None => Err(VaultError::Settings(NO_ARCHIVE.to_owned())),
            };
            (name, frame, fetched)
        });
        Ok(join_all(fetches).await)
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

    /// The frame is what was written, and yet it is looked at whether it holds this very message.
    fn put_content(&self, message: &mut Message, name: &SegmentName, record: Option<Record<'_>>) {
        match record.filter(|record| record.is_of(message)) {
            Some(record) => record.give_to(message),
            None => {
                let seq = message.seq;
                self.tell_of_damage(name, &format_args!("{name} holds something else for seq {seq}"));
                lose(message);
            }
        }
    }

    /// Once for each segment: whoever scrolls through it would fill the log.
    fn tell_of_damage(&self, name: &SegmentName, what: &dyn std::fmt::Display) {
        let mut told = self.archive.told_damaged.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= TOLD_AT_MOST {
            told.clear();
        }
        if told.insert(*name) {
            tracing::error!(%what, "messages cannot be read from the archive");
        }
    }
}
