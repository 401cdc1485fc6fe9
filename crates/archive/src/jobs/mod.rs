//! The archive jobs: one engine for all stores, over the port [`ArchiveRows`].
//!
//! Invariants of every job:
//! - **An object is complete and durable before a row refers to it.** [`ObjectArchive::put`] reads
//!   it back and compares it first.
//! - **A row changes only if it is unchanged since the job read it.**
//! - **An object is deleted only after no row refers to it**, and after no late writer can make a
//!   row refer to it ([`ArchiveRows::retire`]).
//!
//! Each module is named for its verb. The record format and the rows belong to the stores.

mod erase;
pub mod fill;
pub mod layout;
mod move_out;
mod pace;
mod port;
mod restore;
mod retention;
mod run;
pub mod selection;
pub mod state;
mod sweep;
mod verify;

use std::sync::Arc;

use bluetick_core::ConversationId;
use bluetick_core::ports::ArchiveError;
use bytes::Bytes;
pub use erase::erase;
pub use port::{
    ArchiveRows, ArchiveStep, ConversationPage, ErasureEffect, ErasureScope, Flip, ObjectSize, PutBack,
    Reason, Salvaged, Search, SegmentPlan, SegmentRows, Visit,
};
pub use restore::restore;
use retention::expire;
pub use run::run;
use sweep::sweep;
pub use verify::verify;

use crate::segment::{self, DecodedSegment};
use crate::{ObjectArchive, SegmentName, is_damage};

/// Returns the object archive. Errors with `Off` if the settings name none.
pub fn object_archive<R: ArchiveRows>(rows: &R) -> Result<Arc<ObjectArchive>, ArchiveError> {
    rows.object_archive().map(Arc::clone).ok_or(ArchiveError::Off)
}

/// Errors if rows refer to segments but the configured object archive is not the one that holds
/// them. Called before any put or sweep.
pub async fn must_be_in_place<R: ArchiveRows>(rows: &mut R) -> Result<(), ArchiveError> {
    let Some(archive) = rows.object_archive().map(Arc::clone) else { return Ok(()) };
    if rows.segment_count().await? > 0 {
        archive.must_hold(rows.store()).await?;
    }
    Ok(())
}

/// Decodes a whole object on a blocking thread. The inner error describes the damage.
async fn open(name: SegmentName, object: Bytes) -> Result<Result<Arc<DecodedSegment>, String>, ArchiveError> {
    let opened = tokio::task::spawn_blocking(move || match segment::open(&object) {
        Ok(opened) if opened.name == name => Ok(Arc::new(opened)),
        Ok(opened) => Err(format!("the object contains segment {}", opened.name)),
        Err(damage) => Err(damage.to_string()),
    });
    opened.await.map_err(|_| ArchiveError::Stopped)
}

/// Returns the size of a readable object.
fn size_of(object: &Bytes, opened: &DecodedSegment) -> ObjectSize {
    let raw_bytes = opened.blocks.iter().map(|(block, _)| u64::from(block.raw_length)).sum();
    ObjectSize { bytes: object.len() as u64, raw_bytes }
}

/// Visits all conversations, or one, page by page.
struct Walk<R: ArchiveRows> {
    only: Option<ConversationId>,
    visit: Visit,
    after: Option<R::Position>,
    is_done: bool,
}

impl<R: ArchiveRows> Walk<R> {
    fn new(only: Option<ConversationId>, visit: Visit) -> Walk<R> {
        Walk { only, visit, after: None, is_done: false }
    }

    /// Returns the next conversations; `None` after the last page.
    async fn next(&mut self, rows: &mut R) -> Result<Option<Vec<R::Conversation>>, ArchiveError> {
        if self.is_done {
            return Ok(None);
        }
        if let Some(id) = self.only {
            self.is_done = true;
            return Ok(Some(vec![rows.conversation(id).await?]));
        }
        let page = rows.conversations(&self.visit, self.after.take()).await?;
        (self.is_done, self.after) = (page.next.is_none(), page.next);
        Ok(Some(page.conversations))
    }
}
