//! Deleting objects that no row refers to: what an interrupted job left, and what was brought back.
//!
//! An object without a row may be one that another node has just put and is about to refer to: one that has lost its turn
//! and does not know yet. So an object is swept when it was found without a row twice, with some time in between; and
//! whoever deletes one first makes it impossible to refer to it any more.

use std::collections::{HashMap, HashSet};

use bluetick_archive::{SegmentName, SegmentRef};
use bluetick_core::ConversationId;
use bluetick_core::ports::{ArchiveError, Progress, Stage};
use futures_util::StreamExt;

use super::erase::changed_meanwhile;
use super::job::{Job, Stored};
use crate::cells::windows;

/// Far longer than a turn outlasts its holder.
const GRACE_MILLIS: i64 = 3_600 * 1_000;
/// What nobody refers to is looked for once a day.
const SWEEP_EVERY_MILLIS: i64 = 24 * 3_600 * 1_000;
/// Orphans that are remembered; the others have their turn when these are gone.
const MOST_ORPHANS: usize = 1_000;

impl Job<'_> {
    pub(super) fn is_time_to_sweep(&self) -> bool {
        let now = self.engine.clock.now();
        let since = |at: i64, wait: i64| now.millis().saturating_sub(at) > wait;
        self.shared.swept_at.is_none_or(|swept| since(swept.millis(), SWEEP_EVERY_MILLIS))
            || self.shared.orphans.values().any(|seen| since(*seen, GRACE_MILLIS))
    }

    /// Returns how many were deleted.
    pub(super) async fn sweep(
        &mut self,
        only: Option<ConversationId>,
        progress: &dyn Progress,
    ) -> Result<u64, ArchiveError> {
        let object_archive = self.object_archive()?;
        let now = self.engine.clock.now();
        let (mut looked_at, mut swept) = (0, 0);
        let mut seen = HashSet::new();
        let mut objects = object_archive.list(self.store, only);
        while let Some(object) = objects.next().await {
            let (name, _) = object.map_err(ArchiveError::from)?;
            self.go_on().await?;
            looked_at += 1;
            if !self.is_named(&name).await? {
                let text = name.to_string();
                let since = self.shared.orphans.get(&text).copied();
                seen.insert(text.clone());
                match since {
                    Some(since) if now.millis().saturating_sub(since) > GRACE_MILLIS => {
                        self.shared.orphans.remove(&text);
                        swept += u64::from(self.sweep_one(&name).await?);
                    }
                    Some(_) => {}
                    None if self.shared.orphans.len() < MOST_ORPHANS => {
                        self.shared.orphans.insert(text, now.millis());
                    }
                    None => {}
                }
            }
            progress.advanced(Stage::Sweeping, looked_at, looked_at);
        }
        if only.is_none() {
            // Those that are gone, or that a row refers to by now.
            self.shared.orphans.retain(|name, _| seen.contains(name));
            // Puts that were cut off leave what no list shows.
            swept += object_archive.sweep_unfinished(self.store).await.map_err(ArchiveError::from)?;
            self.shared.swept_at = Some(now);
        }
        Ok(swept)
    }

    /// Whether it could be deleted.
    async fn sweep_one(&mut self, name: &SegmentName) -> Result<bool, ArchiveError> {
        if !self.is_spare(name).await? {
            return Ok(false);
        }
        let rows = self.all_stored(name.conversation, name.first, name.last).await?;
        self.delete_now(name, &rows).await?;
        tracing::info!(segment = %name, "deleted an object of the archive that nothing refers to");
        Ok(true)
    }

    /// Whether a row refers to it. Usually the first one answers.
    pub(super) async fn is_named(&self, name: &SegmentName) -> Result<bool, ArchiveError> {
        let (first, _) = self.stored(name.conversation, name.first, name.first, 1).await?;
        if first.iter().any(|stored| stored.cell.cold.as_ref().is_some_and(|cold| cold.place.is_in(name))) {
            return Ok(true);
        }
        Ok(self.named_in(name).await?.contains(name))
    }

    /// Deletes an object that none of the rows of its range refers to. Each of these, which have their content
    /// themselves, is given another version before: whoever read it earlier, to make it refer to the object, is refused.
    pub(super) async fn delete_now(
        &mut self,
        name: &SegmentName,
        rows: &[Stored],
    ) -> Result<(), ArchiveError> {
        let hot: Vec<Stored> = rows.iter().filter(|row| row.cell.cold.is_none()).cloned().collect();
        self.change(&hot).await?;
        if self.is_named(name).await? {
            return Err(changed_meanwhile(name.conversation));
        }
        self.delete(name).await
    }

    /// Whether all that rows of its range refer to is there. If not, they are from a backup: what they name was
    /// rewritten since, and this may be all that is left of it.
    async fn is_spare(&self, name: &SegmentName) -> Result<bool, ArchiveError> {
        let there = self.objects_of(name.conversation).await?;
        let missing = self.named_in(name).await?.into_iter().find(|wanted| !there.contains_key(wanted));
        if let Some(wanted) = missing {
            tracing::error!(segment = %name, %wanted, "an object is kept because the one that is wanted is not there");
            return Ok(false);
        }
        Ok(true)
    }

    /// The objects that the rows of this one's range refer to.
    async fn named_in(&self, name: &SegmentName) -> Result<HashSet<SegmentName>, ArchiveError> {
        let (mut named, id) = (HashSet::new(), name.conversation);
        for window in windows(name.first, name.last) {
            for item in self.engine.reader.range(id, window, &["s3_ref"]).await?.values() {
                let place = item.find_text("s3_ref").and_then(|text| text.parse::<SegmentRef>().ok());
                named.extend(place.map(|place| place.segment(self.store, id)));
            }
        }
        Ok(named)
    }

    /// With their sizes.
    pub(super) async fn objects_of(
        &self,
        id: ConversationId,
    ) -> Result<HashMap<SegmentName, u64>, ArchiveError> {
        let mut there = HashMap::new();
        let mut objects = self.object_archive()?.list(self.store, Some(id));
        while let Some(object) = objects.next().await {
            let (name, bytes) = object.map_err(ArchiveError::from)?;
            there.insert(name, bytes);
        }
        Ok(there)
    }
}
