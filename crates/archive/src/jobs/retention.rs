//! Erases messages past their retention.

use bluetick_core::ports::{ArchiveError, Progress, Stage};
use bluetick_core::{ConversationId, Timestamp};

use super::erase::erase_content;
use super::fill::NO_ARCHIVE;
use super::port::{ArchiveRows, Reason, Visit};
use super::selection::millis;
use super::{Walk, is_damage};

/// Erases expired messages of one conversation or of all. Returns the number of erased messages.
/// Logs and skips a damaged conversation. Errors if the object archive is unavailable, after
/// erasing in the rows.
pub(super) async fn expire<R: ArchiveRows>(
    rows: &mut R,
    only: Option<ConversationId>,
    progress: &dyn Progress,
) -> Result<u64, ArchiveError> {
    let now = rows.now();
    let retention = millis(rows.settings().retention_seconds);
    let before = Timestamp::from_millis(now.millis().saturating_sub(retention));
    let (mut erased, mut done, mut unavailable) = (0, 0, None);
    let total = if only.is_some() { 1 } else { rows.conversation_count().await? };
    let mut walk = Walk::new(only, Visit::All);
    while let Some(conversations) = walk.next(rows).await? {
        for conversation in conversations {
            rows.proceed(None).await?;
            done += 1;
            match expire_one(rows, &conversation, before, now, unavailable.is_some()).await {
                Ok(messages) => erased += messages,
                Err(error) if is_damage(&error) => {
                    let conversation = R::id_of(&conversation);
                    tracing::error!(%conversation, %error, "expired messages cannot be erased");
                }
                // Continue in the rows only, and do not ask the object archive again.
                Err(error @ ArchiveError::Unavailable(_)) => {
                    unavailable.get_or_insert(error);
                }
                Err(ArchiveError::Off) => {
                    unavailable.get_or_insert(ArchiveError::Unavailable(NO_ARCHIVE.to_owned()));
                }
                Err(error) => return Err(error),
            }
            progress.advanced(Stage::Erasing, done, total.max(done));
        }
    }
    unavailable.map_or(Ok(erased), Err)
}

async fn expire_one<R: ArchiveRows>(
    rows: &mut R,
    conversation: &R::Conversation,
    before: Timestamp,
    now: Timestamp,
    rows_only: bool,
) -> Result<u64, ArchiveError> {
    let Some(through) = rows.expired(conversation, before, now).await? else { return Ok(0) };
    let erasure = rows.expiry(conversation, through);
    if rows_only {
        return rows.erase_in_rows(&erasure, Reason::Expired).await;
    }
    let erased = erase_content(rows, &erasure, Reason::Expired).await?.messages;
    rows.note_expired(R::id_of(conversation), through).await?;
    Ok(erased)
}
