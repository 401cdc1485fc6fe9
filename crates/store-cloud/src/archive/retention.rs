//! Finds the messages past their retention. A segment expires as a whole: rewriting it for each
//! message costs more than it holds.

use bluetick_core::ports::ArchiveError;
use bluetick_core::{ConversationId, Seq, Timestamp};

use super::job::Job;

impl Job<'_> {
    /// Returns the last seq that is past its retention and not erased yet.
    pub(super) async fn expired_through(
        &self,
        id: ConversationId,
        done: Seq,
        before: Timestamp,
    ) -> Result<Option<Seq>, ArchiveError> {
        let (mut through, mut next, mut limit) = (None, done.next(), 1);
        let head = self.engine.head(id).await?;
        loop {
            let (cells, more) = self.stored(id, next, head, limit).await?;
            for stored in &cells {
                // A void tells when somebody came by.
                if !stored.cell.is_void() && stored.cell.message.received_at >= before {
                    return Ok(through);
                }
                let seq = stored.seq();
                let is_border = stored.cell.cold.as_ref().is_none_or(|cold| cold.place.last == seq);
                if is_border && !stored.cell.is_void() {
                    through = Some(seq);
                }
                next = seq.next();
            }
            if !more || cells.is_empty() {
                return Ok(through);
            }
            limit = 1_000;
        }
    }
}
