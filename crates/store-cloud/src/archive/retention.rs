//! Erasing what is past its retention. A segment goes as a whole: rewriting it for each message would cost more than it
//! holds.

use bluetick_archive::is_damage;
use bluetick_archive::jobs::fill::NO_ARCHIVE;
use bluetick_core::ports::{ArchiveError, Progress, Stage};
use bluetick_core::{ConversationId, Seq, Timestamp};

use super::erase::Erasure;
use super::job::Job;
use crate::memberships::RoomRow;

impl Job<'_> {
    /// Returns how many messages were erased.
    pub(super) async fn expire(
        &mut self,
        only: Option<ConversationId>,
        progress: &dyn Progress,
    ) -> Result<u64, ArchiveError> {
        let seconds = self.engine.archive.settings.retention_seconds;
        let millis = i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX);
        let now = self.engine.clock.now();
        let before = Timestamp::from_millis(now.millis().saturating_sub(millis));
        let (mut erased, mut done, mut after, mut unavailable) = (0, 0, None, None);
        loop {
            let (rooms, next) = match only {
                Some(id) => (vec![self.must_exist(id).await?], None),
                None => self.rooms(after.as_deref()).await?,
            };
            for room in rooms {
                self.go_on().await?;
                done += 1;
                match self.expire_one(&room, before, unavailable.is_none()).await {
                    Ok(messages) => erased += messages,
                    // The others go all the same.
                    Err(error) if is_damage(&error) => {
                        let conversation = room.facts.id;
                        tracing::error!(%conversation, %error, "what is past its retention cannot be erased");
                    }
                    // What is in rows goes all the same, without asking again and again.
                    Err(error @ ArchiveError::Unavailable(_)) => {
                        unavailable.get_or_insert(error);
                    }
                    Err(ArchiveError::Off) => {
                        unavailable.get_or_insert(ArchiveError::Unavailable(NO_ARCHIVE.to_owned()));
                    }
                    Err(error) => return Err(error),
                }
                progress.advanced(Stage::Erasing, done, done.max(self.shared.conversations));
            }
            match next {
                Some(_) => after = next,
                None => return unavailable.map_or(Ok(erased), Err),
            }
        }
    }

    async fn expire_one(
        &mut self,
        room: &RoomRow,
        before: Timestamp,
        asks_archive: bool,
    ) -> Result<u64, ArchiveError> {
        let id = room.facts.id;
        let Some(through) = self.expired(id, room.way.expired_through, before).await? else { return Ok(0) };
        let erasure = Erasure::new(id, None, through);
        if !asks_archive {
            return self.erase_in_rows(&erasure).await;
        }
        let erased = self.erase_content(&erasure).await?.messages;
        let done = |way: &mut super::Way| way.expired_through = way.expired_through.max(through);
        self.engine.change_way(id, done).await?;
        Ok(erased)
    }

    /// Up to where a conversation is past its retention and not erased yet.
    async fn expired(
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
