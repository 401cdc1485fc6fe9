//! Fills in the content of archived messages on a page of history.

use std::sync::{Arc, PoisonError};

use bluetick_archive::segment::Frame;
use bluetick_archive::{FrameRef, SegmentName, VaultError};
use bluetick_core::{ContentType, ConversationId, Message, Page, Seq, StoreError};
use futures_util::future::join_all;

use super::Archivist;
use crate::codec::cold::ColdLocation;
use crate::codec::record::Record;
use crate::read::PartialPage;
use crate::tables::{ColdRecord, TablesError};

/// The result of filling a page.
pub enum Filled {
    Page(Page),
    /// An object was missing or the rows changed: read the rows again.
    LookAgain,
}

const NO_ARCHIVE: &str = "these messages are in an archive, and the settings name none (archive.engine)";

/// Upper bound on the remembered segments whose damage is logged. When it is reached, the set is
/// cleared and damage is logged again.
const TOLD_AT_MOST: usize = 10_000;

type Fetched = Result<Arc<Frame>, VaultError>;

impl Archivist {
    /// Fetches each block once, all in parallel, and fills in the content. Messages whose content
    /// is damaged or missing become `lost`. If the object archive is unavailable, the page ends
    /// before the first unavailable message.
    ///
    /// An object may differ from its row because the row has changed since. Then this returns
    /// [`Filled::LookAgain`], or an error if `final_look` is set.
    pub async fn fill(&self, mut draft: PartialPage, final_look: bool) -> Result<Filled, StoreError> {
        let frames = self.fetch(&draft).await;
        let frame_of = |cell: &ColdRecord, message: &Message| {
            let name = cell.location.segment(self.identity.tag.0, message.conversation);
            frames
                .iter()
                .find(|(of, frame, _)| *of == name && *frame == cell.location.frame)
                .map(|found| &found.2)
        };
        let (mut unavailable, mut lost) = (Vec::new(), Vec::new());
        for (index, cell) in &draft.cold {
            let message = &mut draft.messages[*index];
            match frame_of(cell, message) {
                Some(Ok(frame)) => self.put_content(message, cell, frame),
                Some(Err(VaultError::Missing { .. })) if !final_look => return Ok(Filled::LookAgain),
                Some(Err(VaultError::Missing { .. } | VaultError::Damaged { .. })) => {
                    lost.push((*index, message.conversation, message.seq, cell.location));
                }
                Some(Err(_)) | None => unavailable.push(*index),
            }
        }
        if !lost.is_empty() {
            let places = lost.iter().map(|(_, id, seq, place)| (*id, *seq, *place)).collect();
            match (self.have_moved(places).await?, final_look) {
                (true, false) => return Ok(Filled::LookAgain),
                (true, true) => {
                    return Err(StoreError::Unavailable("these messages are being moved".to_owned()));
                }
                (false, _) => lost.iter().for_each(|(index, ..)| lose(&mut draft.messages[*index])),
            }
        }
        for (name, _, fetched) in &frames {
            if let Err(error @ (VaultError::Missing { .. } | VaultError::Damaged { .. })) = fetched {
                self.tell_of_damage(name, error);
            }
        }
        if unavailable.is_empty() {
            return draft.finish().map(Filled::Page);
        }
        let why = frames.iter().find_map(|(_, _, fetched)| match fetched {
            Err(VaultError::Unavailable(why) | VaultError::Settings(why)) => Some(why.clone()),
            _ => None,
        });
        let why = StoreError::Unavailable(why.unwrap_or_default());
        draft.cut(|index| unavailable.contains(&index)).ok_or(why)?.finish().map(Filled::Page)
    }

    async fn fetch(&self, draft: &PartialPage) -> Vec<(SegmentName, FrameRef, Fetched)> {
        let mut wanted: Vec<(SegmentName, FrameRef)> = Vec::new();
        for (index, cell) in &draft.cold {
            let name = cell.location.segment(self.identity.tag.0, draft.messages[*index].conversation);
            if wanted.last() != Some(&(name, cell.location.frame)) {
                wanted.push((name, cell.location.frame));
            }
        }
        let fetches = wanted.into_iter().map(|(name, frame)| async move {
            let fetched = match &self.vault {
                Some(vault) => vault.frame(&name, frame).await,
                None => Err(VaultError::Settings(NO_ARCHIVE.to_owned())),
            };
            (name, frame, fetched)
        });
        join_all(fetches).await
    }

    /// Returns whether the rows no longer refer to these locations.
    async fn have_moved(
        &self,
        mut places: Vec<(ConversationId, Seq, ColdLocation)>,
    ) -> Result<bool, StoreError> {
        // One message of each chunk suffices.
        places.dedup_by_key(|(id, _, place)| (*id, *place));
        let tables = Arc::clone(&self.tables);
        let looked = tokio::task::spawn_blocking(move || {
            let engine = tables.current()?;
            let snapshot = engine.snapshot()?;
            for (id, seq, place) in places {
                let mut now = None;
                snapshot.records(id, seq..=seq, |_, cell| {
                    now = cell.cold.map(|cold| cold.location);
                    Ok(())
                })?;
                if now != Some(place) {
                    return Ok(true);
                }
            }
            Ok::<_, TablesError>(false)
        });
        Ok(looked.await.map_err(|error| StoreError::Failed(error.to_string()))??)
    }

    /// Fills in the content after checking that the record is this message. The block's checksum
    /// alone does not prove that.
    fn put_content(&self, message: &mut Message, cell: &ColdRecord, frame: &Frame) {
        let record = frame.record(cell.index).map(Record::decode);
        let Some(Ok(record)) = record else { return lose(message) };
        let same = record.message_id == message.message_id
            && record.sender == message.sender.as_str()
            && self.identity.fingerprinter.of_content(record.content) == cell.content_hash;
        if !same {
            let name = cell.location.segment(self.identity.tag.0, message.conversation);
            self.tell_of_damage(&name, &format_args!("{name} holds something else for seq {}", message.seq));
            return lose(message);
        }
        message.content = record.shared_content();
    }
}

impl Archivist {
    /// Logs damage once for each segment, so that scrolling through it does not flood the log.
    fn tell_of_damage(&self, name: &SegmentName, what: &dyn std::fmt::Display) {
        let mut told = self.state.told_damaged.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= TOLD_AT_MOST {
            told.clear();
        }
        if told.insert(*name) {
            tracing::error!(%what, "messages cannot be read from the archive");
        }
    }
}

fn lose(message: &mut Message) {
    message.content_type = ContentType::Lost;
    message.content = "".into();
}
