//! Which objects a conversation has, and which of them rows refer to.

use std::collections::{HashMap, HashSet};

use bluetick_archive::{SegmentName, SegmentRef, jobs};
use bluetick_core::ConversationId;
use bluetick_core::ports::ArchiveError;
use futures_util::StreamExt;

use super::job::Job;
use crate::cells::windows;

impl Job<'_> {
    /// Returns whether a row refers to the object. Usually the first row answers.
    pub(super) async fn is_named(&self, name: &SegmentName) -> Result<bool, ArchiveError> {
        let (first, _) = self.stored(name.conversation, name.first, name.first, 1).await?;
        if first.iter().any(|stored| stored.cell.cold.as_ref().is_some_and(|cold| cold.place.is_in(name))) {
            return Ok(true);
        }
        Ok(self.named_in(name).await?.contains(name))
    }

    /// Returns the objects that rows in the range of this one refer to.
    pub(super) async fn named_in(&self, name: &SegmentName) -> Result<HashSet<SegmentName>, ArchiveError> {
        let (mut named, id) = (HashSet::new(), name.conversation);
        for window in windows(name.first, name.last) {
            for item in self.engine.reader.range(id, window, &["s3_ref"]).await?.values() {
                let place = item.find_text("s3_ref").and_then(|text| text.parse::<SegmentRef>().ok());
                named.extend(place.map(|place| place.segment(self.store, id)));
            }
        }
        Ok(named)
    }

    /// Returns all objects of a conversation, with their sizes in bytes.
    pub(super) async fn objects_of(
        &self,
        id: ConversationId,
    ) -> Result<HashMap<SegmentName, u64>, ArchiveError> {
        let mut there = HashMap::new();
        let archive = jobs::object_archive(self)?;
        let mut objects = archive.list(self.store, Some(id));
        while let Some(object) = objects.next().await {
            let (name, bytes) = object.map_err(ArchiveError::from)?;
            there.insert(name, bytes);
        }
        Ok(there)
    }
}
