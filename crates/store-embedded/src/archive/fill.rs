//! Fills in the content of archived messages on a page of history.

use std::sync::Arc;

use bluetick_archive::SegmentRef;
use bluetick_archive::jobs::fill::{FetchedBlock, FetchedBlocks};
use bluetick_archive::segment::Block;
use bluetick_core::{Cause, ContentType, ConversationId, Message, Page, Seq, StoreError};

use super::Archiver;
use crate::codec::record::Record;
use crate::read::PartialPage;
use crate::tables::{ColdRecord, TablesError};

/// The result of filling a page.
pub enum Filled {
    Page(Page),
    /// An object was missing or the rows changed: read the rows again.
    LookAgain,
}

impl Archiver {
    /// Fetches each block once, all in parallel, and fills in the content. Messages whose content
    /// is damaged or missing become `lost`. If the object archive is unavailable, the page ends
    /// before the first unavailable message.
    ///
    /// An object may differ from its row because the row has changed since. Then this returns
    /// [`Filled::LookAgain`], or an error if `final_look` is set.
    pub async fn fill(&self, mut draft: PartialPage, final_look: bool) -> Result<Filled, StoreError> {
        let store = self.identity.tag.0;
        let name_of = |cold_record: &ColdRecord, message: &Message| {
            cold_record.location.segment(store, message.conversation)
        };
        let wanted: Vec<_> = draft
            .cold
            .iter()
            .map(|(index, cold_record)| {
                (name_of(cold_record, &draft.messages[*index]), cold_record.location.block)
            })
            .collect();
        let blocks = FetchedBlocks::fetch(self.object_archive.as_deref(), wanted).await;
        let (mut unavailable, mut lost) = (Vec::new(), Vec::new());
        for (index, cold_record) in &draft.cold {
            let message = &mut draft.messages[*index];
            match blocks.get(&name_of(cold_record, message), &cold_record.location.block) {
                FetchedBlock::Content(block) => self.put_content(message, cold_record, block),
                FetchedBlock::Missing if !final_look => return Ok(Filled::LookAgain),
                FetchedBlock::Missing | FetchedBlock::Damaged => {
                    lost.push((*index, message.conversation, message.seq, cold_record.location));
                }
                FetchedBlock::Unavailable => unavailable.push(*index),
            }
        }
        if !lost.is_empty() {
            let locations = lost.iter().map(|(_, id, seq, location)| (*id, *seq, *location)).collect();
            match (self.have_moved(locations).await?, final_look) {
                (true, false) => return Ok(Filled::LookAgain),
                (true, true) => {
                    return Err(StoreError::Unavailable("these messages are being moved".into()));
                }
                (false, _) => lost.iter().for_each(|(index, ..)| lose(&mut draft.messages[*index])),
            }
        }
        blocks.log_damage(&self.state.shared);
        if unavailable.is_empty() {
            return draft.finish().map(Filled::Page);
        }
        let why = StoreError::Unavailable(blocks.why_unavailable().unwrap_or_default().into());
        draft.cut(|index| unavailable.contains(&index)).ok_or(why)?.finish().map(Filled::Page)
    }

    /// Returns whether the rows no longer refer to these locations.
    async fn have_moved(
        &self,
        mut locations: Vec<(ConversationId, Seq, SegmentRef)>,
    ) -> Result<bool, StoreError> {
        // One message of each chunk suffices.
        locations.dedup_by_key(|(id, _, location)| (*id, *location));
        let tables = Arc::clone(&self.tables);
        let looked = tokio::task::spawn_blocking(move || {
            let engine = tables.current()?;
            let snapshot = engine.snapshot()?;
            for (id, seq, location) in locations {
                let mut now = None;
                snapshot.records(id, seq..=seq, |_, stored| {
                    now = stored.cold.map(|cold| cold.location);
                    Ok(())
                })?;
                if now != Some(location) {
                    return Ok(true);
                }
            }
            Ok::<_, TablesError>(false)
        });
        Ok(looked.await.map_err(|error| StoreError::Failed(Cause::of(error)))??)
    }

    /// Fills in the content after checking that the record is this message. The block's checksum
    /// alone does not prove that.
    fn put_content(&self, message: &mut Message, cold_record: &ColdRecord, block: &Block) {
        let record = block.record(cold_record.index).map(Record::decode);
        let Some(Ok(record)) = record else { return lose(message) };
        let same = record.message_id == message.message_id
            && record.sender == message.sender.as_str()
            && self.identity.fingerprinter.of_content(record.content) == cold_record.content_hash;
        if !same {
            let name = cold_record.location.segment(self.identity.tag.0, message.conversation);
            self.state
                .shared
                .log_damage(&name, &format_args!("{name} has another record for seq {}", message.seq));
            return lose(message);
        }
        message.content = record.shared_content();
    }
}

fn lose(message: &mut Message) {
    message.content_type = ContentType::Lost;
    message.content = "".into();
}
