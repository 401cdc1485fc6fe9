//! Accepted erasures, from the durable request to the last byte in a file.
//!
//! From acceptance to completion, at least one of three rows records the remaining work. A killed
//! process therefore resumes after its next start:
//!
//! 1. the *request*, written before the erasure is acknowledged;
//! 2. one *erasure record* for each conversation with content to erase; one transaction replaces
//!    the request by these records;
//! 3. the *mark* that files may still hold erased content. The same transaction sets it. The
//!    archiver clears it after scrubbing the log and rewriting the tables.

use std::sync::Arc;

use bluetick_archive::is_damage;
use bluetick_core::ports::{ArchiveError, Progress, Stage};
use bluetick_core::{ConversationId, Seq};

use super::erase::Reason;
use super::{ArchiveStep, Archiver};
use crate::codec::archive::{Erasure, ErasureRequest};
use crate::tables::RequestKey;

/// The result of resuming earlier erasures.
pub(super) struct Resumed {
    pub messages: u64,
    pub has_work: bool,
}

impl Archiver {
    /// Makes the request durable. A request for one conversation erases nothing that is sent after
    /// this call.
    pub(super) async fn accept(
        &self,
        mut request: ErasureRequest,
        progress: &dyn Progress,
    ) -> Result<(RequestKey, ErasureRequest), ArchiveError> {
        if let Some(id) = request.conversation {
            let head = self.head(id).await?;
            request.through = Some(request.through.map_or(head, |through| through.min(head)));
        }
        let (tables, accepted) = (Arc::clone(&self.tables), request.clone());
        let noted = self.blocking(move || {
            let engine = tables.writing()?;
            let conversations = engine.snapshot()?.conversation_count()?;
            let mut update = engine.update()?;
            let key = update.put_erasure_request(&accepted)?;
            update.commit()?;
            Ok((key, conversations))
        });
        let (key, conversations) = noted.await?;
        // The first progress report acknowledges the erasure, so it must follow the commit.
        let total = if request.conversation.is_some() { 1 } else { conversations };
        progress.advanced(Stage::Erasing, 0, total);
        self.go_on(ArchiveStep::ErasureAccepted)?;
        Ok((key, request))
    }

    /// Searches the tables, and replaces the request by its erasure records. All content to erase
    /// must be in the tables. Returns the error of the first conversation that could not be
    /// searched.
    pub(super) async fn search(
        &self,
        key: RequestKey,
        request: &ErasureRequest,
        progress: &dyn Progress,
    ) -> Result<Option<ArchiveError>, ArchiveError> {
        let (found, first_damage) = self.find(request, progress).await?;
        let tables = Arc::clone(&self.tables);
        let noted = self.blocking(move || {
            let engine = tables.writing()?;
            let mut update = engine.update()?;
            for erasure in &found {
                update.put_erasure(erasure)?;
            }
            // The search does not find content that expired before the request, but files may still
            // hold it.
            if !found.is_empty() || update.has_expired_pages()? {
                update.mark_erased_pages()?;
            }
            update.delete_erasure_request(&key)?;
            Ok(update.commit()?)
        });
        noted.await?;
        self.go_on(ArchiveStep::ErasureSearched)?;
        Ok(first_damage)
    }

    /// Resumes accepted erasures, up to the steps that need the object archive.
    pub(super) async fn resume_erasures(&self, progress: &dyn Progress) -> Result<Resumed, ArchiveError> {
        let tables = Arc::clone(&self.tables);
        let requests = self.blocking(move || Ok(tables.current()?.snapshot()?.erasure_requests()?)).await?;
        let mut resumed = Resumed { messages: 0, has_work: !requests.is_empty() };
        for (key, request) in requests {
            // `find` has already logged each conversation that cannot be searched.
            self.search(key, &request, progress).await?;
        }
        for erasure in self.unfinished_erasures().await? {
            resumed.has_work = true;
            match self.erase_here(&erasure, Reason::Asked).await {
                Ok(messages) => resumed.messages += messages,
                Err(error) if is_damage(&error) => cannot_finish(&erasure, &error),
                Err(error) => return Err(error),
            }
        }
        resumed.has_work |= self.has_erased_pages().await?;
        if let Err(error) = self.clean_up(progress).await {
            if matches!(error, ArchiveError::Stopped) {
                return Err(error);
            }
            // The end of the run tries again.
            tracing::warn!(%error, "erased content is still in files");
        }
        Ok(resumed)
    }

    /// Finishes the erasures in archived segments. Returns the number of erased messages.
    pub(super) async fn finish_erasures(&self) -> Result<u64, ArchiveError> {
        let mut messages = 0;
        for erasure in self.unfinished_erasures().await? {
            match self.erase_one(&erasure).await {
                Ok(erased) => messages += erased.messages,
                // Keep the record. One failure must not block the other erasures.
                Err(error) if is_damage(&error) => cannot_finish(&erasure, &error),
                Err(error) => return Err(error),
            }
        }
        Ok(messages)
    }

    /// Returns the newest durable seq, from memory or from the tables.
    pub(super) async fn head(&self, id: ConversationId) -> Result<Seq, ArchiveError> {
        if let Some(room) = self.rooms.get(id) {
            let state = room.state();
            if state.conversation.is_some() {
                return Ok(state.head());
            }
        }
        let tables = Arc::clone(&self.tables);
        let stored = self.blocking(move || Ok(tables.current()?.snapshot()?.conversation(id)?)).await?;
        stored.map(|stored| stored.conversation.head).ok_or(ArchiveError::NoSuchConversation)
    }
}

fn cannot_finish(erasure: &Erasure, error: &ArchiveError) {
    tracing::error!(conversation = %erasure.conversation, %error, "erasure failed; it stays pending");
}
