//! Fetches the blocks of a page of history.

use std::sync::Arc;

use futures_util::future::join_all;

use super::state::ArchiverState;
use crate::segment::Block;
use crate::{BlockRef, ObjectArchive, ObjectArchiveError, SegmentName};

/// The error text for archived messages of a store whose settings name no archive. It names the
/// setting to change.
pub const NO_ARCHIVE: &str = "these messages are in an archive, and the settings name none (archive.engine)";

/// The blocks of a page, each with the result of its fetch.
pub struct FetchedBlocks(Vec<(SegmentName, BlockRef, Result<Arc<Block>, ObjectArchiveError>)>);

/// One block of a page.
pub enum FetchedBlock<'a> {
    Content(&'a Block),
    /// The object does not exist.
    Missing,
    /// The object exists, but its bytes differ from the reference.
    Damaged,
    /// The object store does not answer.
    Unavailable,
}

impl FetchedBlocks {
    /// Fetches each block once, all in parallel.
    pub async fn fetch(
        archive: Option<&ObjectArchive>,
        wanted: impl IntoIterator<Item = (SegmentName, BlockRef)>,
    ) -> FetchedBlocks {
        let mut blocks: Vec<(SegmentName, BlockRef)> = Vec::new();
        for block in wanted {
            // Messages of one block are next to each other, so the search starts at the end.
            if !blocks.iter().rev().any(|known| *known == block) {
                blocks.push(block);
            }
        }
        let fetches = blocks.into_iter().map(|(name, block)| async move {
            let fetched = match archive {
                Some(archive) => archive.block(&name, block).await,
                None => Err(ObjectArchiveError::Settings(NO_ARCHIVE.to_owned())),
            };
            (name, block, fetched)
        });
        FetchedBlocks(join_all(fetches).await)
    }

    /// Returns the result for one block. A block that was not fetched is unavailable.
    pub fn get(&self, name: &SegmentName, block: &BlockRef) -> FetchedBlock<'_> {
        let found = self.0.iter().find(|(of, at, _)| of == name && at == block);
        match found.map(|(_, _, fetched)| fetched) {
            Some(Ok(block)) => FetchedBlock::Content(block),
            Some(Err(ObjectArchiveError::Missing { .. })) => FetchedBlock::Missing,
            Some(Err(ObjectArchiveError::Damaged { .. })) => FetchedBlock::Damaged,
            Some(Err(_)) | None => FetchedBlock::Unavailable,
        }
    }

    /// Returns why the object store does not answer; `None` if it answered all requests.
    pub fn why_unavailable(&self) -> Option<String> {
        self.0.iter().find_map(|(_, _, fetched)| match fetched {
            Err(ObjectArchiveError::Unavailable(why) | ObjectArchiveError::Settings(why)) => {
                Some(why.clone())
            }
            _ => None,
        })
    }

    /// Logs each missing or damaged segment, once per segment. Call it only after the rows still
    /// refer to these segments: an object may be missing because the row has changed since.
    pub fn log_damage(&self, state: &ArchiverState) {
        for (name, _, fetched) in &self.0 {
            if let Err(error @ (ObjectArchiveError::Missing { .. } | ObjectArchiveError::Damaged { .. })) =
                fetched
            {
                state.log_damage(name, error);
            }
        }
    }
}
