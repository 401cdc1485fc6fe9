//! Table access for the archiver: moving chunks to the archive and back, and the archiver's own
//! rows.

use std::ops::Bound;

use bluetick_core::ports::ColdCount;
use bluetick_core::{ConversationId, Seq};

use super::table::RangeEnd;
use super::{
    COLD_COUNT_KEY, ERASED_PAGES_KEY, ERASURE_REQUEST_PREFIX, EXPIRED_PAGES_KEY, Engine, LAST_RUN_KEY,
    Snapshot, TablesError, Update, in_table,
};
use crate::codec::archive::{
    ArchiveProgress, Erasure, LastRun, SegmentRow, StoredErasureRequest, count_row, read_count,
};
use crate::codec::{DecodeError, chunk, rows};

/// The key of an accepted erasure request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestKey(Vec<u8>);

/// A chunk and its stored bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotChunk {
    pub first: Seq,
    pub bytes: Vec<u8>,
}

/// The key of a chunk or of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkKey {
    pub conversation: ConversationId,
    pub first: Seq,
}

impl Snapshot<'_> {
    /// Passes each conversation above `after` to `visit`, in id order, until `visit` returns
    /// `false`.
    pub fn conversations(
        &self,
        after: Option<ConversationId>,
        mut visit: impl FnMut(ConversationId) -> bool,
    ) -> Result<(), TablesError> {
        let after = after.map(|after| *after.as_bytes());
        // LMDB rejects an empty key.
        let start = after.as_ref().map_or(Bound::Unbounded, |after| Bound::Excluded(&after[..]));
        for found in self.tables.conversations.scan(&self.txn, start, RangeEnd::OfTable)? {
            let (key, _) = found?;
            let id = key.try_into().ok().and_then(ConversationId::from_bytes);
            let id = id.ok_or(DecodeError::Malformed("a conversation id"));
            if !visit(id.map_err(in_table("conversations"))?) {
                break;
            }
        }
        Ok(())
    }

    pub fn conversation_count(&self) -> Result<u64, TablesError> {
        self.tables.conversations.len(&self.txn)
    }

    /// Passes the chunks of a conversation to `visit`, oldest first, until `visit` returns `false`.
    /// Starts at the chunk that may contain `from`.
    pub fn chunks(
        &self,
        id: ConversationId,
        from: Seq,
        mut visit: impl FnMut(Seq, &[u8]) -> Result<bool, DecodeError>,
    ) -> Result<(), TablesError> {
        let start = rows::chunk_key(id, from);
        let below = self.tables.chunks.scan_back(&self.txn, &start, id.as_bytes())?.next().transpose()?;
        let start = Bound::Included(below.map_or(&start[..], |(key, _)| key));
        for found in self.tables.chunks.scan(&self.txn, start, RangeEnd::Prefix(id.as_bytes()))? {
            let (key, bytes) = found?;
            let first = rows::chunk_first_seq(key).map_err(in_table("chunks"))?;
            if !visit(first, bytes).map_err(in_table("chunks"))? {
                break;
            }
        }
        Ok(())
    }

    pub fn progress(&self, id: ConversationId) -> Result<ArchiveProgress, TablesError> {
        let row = self.tables.progress.get(&self.txn, id.as_bytes())?;
        row.map_or(Ok(ArchiveProgress::default()), ArchiveProgress::read).map_err(in_table("progress"))
    }

    /// Returns the number of conversations that were restored and must stay in the hot store.
    pub fn kept_hot(&self) -> Result<u64, TablesError> {
        let mut kept = 0;
        for found in self.tables.progress.scan(&self.txn, Bound::Unbounded, RangeEnd::OfTable)? {
            kept += u64::from(ArchiveProgress::read(found?.1).map_err(in_table("progress"))?.kept_hot);
        }
        Ok(kept)
    }

    pub fn segment(&self, key: ChunkKey) -> Result<Option<SegmentRow>, TablesError> {
        let row = self.tables.segments.get(&self.txn, &rows::chunk_key(key.conversation, key.first))?;
        row.map(SegmentRow::read).transpose().map_err(in_table("segments"))
    }

    /// Returns up to `limit` segments above `after`, of one conversation or of all.
    pub fn segments(
        &self,
        only: Option<ConversationId>,
        after: Option<ChunkKey>,
        limit: usize,
    ) -> Result<Vec<(ChunkKey, SegmentRow)>, TablesError> {
        let start = match (after, only) {
            (Some(after), _) => Some(rows::chunk_key(after.conversation, after.first).to_vec()),
            (None, Some(only)) => Some(only.as_bytes().to_vec()),
            (None, None) => None,
        };
        let start = start.as_ref().map_or(Bound::Unbounded, |start| Bound::Excluded(&start[..]));
        let mut segments = Vec::new();
        for found in self.tables.segments.scan(&self.txn, start, RangeEnd::OfTable)?.take(limit) {
            let (key, row) = found?;
            let read = || {
                let id = key.first_chunk().and_then(|id| ConversationId::from_bytes(*id));
                let conversation = id.ok_or(DecodeError::Malformed("a conversation id"))?;
                Ok((ChunkKey { conversation, first: rows::chunk_first_seq(key)? }, SegmentRow::read(row)?))
            };
            let (key, row) = read().map_err(in_table("segments"))?;
            if only.is_some_and(|only| only != key.conversation) {
                break;
            }
            segments.push((key, row));
        }
        Ok(segments)
    }

    pub fn erasures(&self) -> Result<Vec<Erasure>, TablesError> {
        let mut all = Vec::new();
        for found in self.tables.erasures.scan(&self.txn, Bound::Unbounded, RangeEnd::OfTable)? {
            let (key, row) = found?;
            all.push(Erasure::read(key, row).map_err(in_table("erasures"))?);
        }
        Ok(all)
    }

    /// Returns the accepted erasure requests whose conversations are not yet searched, oldest
    /// first. Logs and skips a damaged request, so that it does not block the others.
    pub fn erasure_requests(&self) -> Result<Vec<(RequestKey, StoredErasureRequest)>, TablesError> {
        let mut all = Vec::new();
        for found in self.tables.meta.scan_prefix(&self.txn, ERASURE_REQUEST_PREFIX)? {
            let (key, row) = found?;
            match StoredErasureRequest::read(row) {
                Ok(request) => all.push((RequestKey(key.to_vec()), request)),
                Err(error) => tracing::error!(%error, "erasure request is damaged; it stays pending"),
            }
        }
        Ok(all)
    }

    /// Returns the number of accepted erasures that are unfinished. Pending file cleanup counts as
    /// one if nothing else is left.
    pub fn unfinished_erasures(&self) -> Result<u64, TablesError> {
        let requests = self.tables.meta.scan_prefix(&self.txn, ERASURE_REQUEST_PREFIX)?;
        let recorded = requests.collect::<Result<Vec<_>, _>>()?.len() + self.erasures()?.len();
        Ok((recorded as u64).max(self.has_erased_pages()?.into()))
    }

    /// Returns whether freed pages may still hold erased content.
    pub fn has_erased_pages(&self) -> Result<bool, TablesError> {
        Ok(self.tables.meta.get(&self.txn, ERASED_PAGES_KEY)?.is_some())
    }
}

impl Update<'_> {
    /// Returns the chunk as this transaction sees it.
    pub fn chunk(&self, key: ChunkKey) -> Result<Option<&[u8]>, TablesError> {
        self.tables.chunks.get(&self.txn, &rows::chunk_key(key.conversation, key.first))
    }

    pub fn progress(&self, id: ConversationId) -> Result<ArchiveProgress, TablesError> {
        let row = self.tables.progress.get(&self.txn, id.as_bytes())?;
        row.map_or(Ok(ArchiveProgress::default()), ArchiveProgress::read).map_err(in_table("progress"))
    }

    pub fn put_progress(
        &mut self,
        id: ConversationId,
        progress: &ArchiveProgress,
    ) -> Result<(), TablesError> {
        self.put(self.tables.progress, id.as_bytes(), &progress.encode())
    }

    /// Raises the revision of the conversation's object names, so that new objects get unused
    /// names. Returns the new revision.
    pub fn raise_names(&mut self, id: ConversationId) -> Result<u32, TablesError> {
        let mut progress = self.progress(id)?;
        progress.names_raised = progress.names_raised.saturating_add(1);
        self.put_progress(id, &progress)?;
        Ok(progress.revision())
    }

    /// Stores a segment row, or deletes it if `row` is `None`, and updates the archive totals.
    /// Deleting it also raises the revision of the conversation's object names.
    pub fn set_segment(&mut self, key: ChunkKey, row: Option<&SegmentRow>) -> Result<(), TablesError> {
        let stored = rows::chunk_key(key.conversation, key.first);
        let before = self.tables.segments.get(&self.txn, &stored)?;
        let before = before.map(SegmentRow::read).transpose().map_err(in_table("segments"))?;
        match row {
            Some(row) => self.put(self.tables.segments, &stored, &row.encode())?,
            None => {
                self.tables.segments.delete(&mut self.txn, &stored)?;
                self.raise_names(key.conversation)?;
            }
        }
        let total = self.cold_count()?;
        let (gone, come) = (before.map(|row| row.count()), row.map(SegmentRow::count));
        let (gone, come) = (gone.unwrap_or_default(), come.unwrap_or_default());
        let count = ColdCount {
            segments: (total.segments + come.segments).saturating_sub(gone.segments),
            messages: (total.messages + come.messages).saturating_sub(gone.messages),
            bytes: (total.bytes + come.bytes).saturating_sub(gone.bytes),
            raw_bytes: (total.raw_bytes + come.raw_bytes).saturating_sub(gone.raw_bytes),
        };
        self.put(self.tables.meta, COLD_COUNT_KEY, &count_row(&count))
    }

    fn cold_count(&self) -> Result<ColdCount, TablesError> {
        let row = self.tables.meta.get(&self.txn, COLD_COUNT_KEY)?;
        row.map_or(Ok(ColdCount::default()), read_count).map_err(in_table("meta"))
    }

    /// Records an erasure, unless an unfinished erasure with the same key reaches a higher seq.
    pub fn put_erasure(&mut self, erasure: &Erasure) -> Result<(), TablesError> {
        match self.goes_further(erasure)? {
            true => Ok(()),
            false => self.put(self.tables.erasures, &erasure.key(), &erasure.row()),
        }
    }

    /// Stores the request under the next number. It stays until [`Update::delete_erasure_request`].
    pub fn put_erasure_request(&mut self, request: &StoredErasureRequest) -> Result<RequestKey, TablesError> {
        let last = self.tables.meta.scan_prefix(&self.txn, ERASURE_REQUEST_PREFIX)?.last().transpose()?;
        let last = last.and_then(|(key, _)| key.last_chunk().copied()).map_or(0, u64::from_be_bytes);
        let key = [ERASURE_REQUEST_PREFIX, &(last + 1).to_be_bytes()].concat();
        self.put(self.tables.meta, &key, &request.row())?;
        Ok(RequestKey(key))
    }

    pub fn delete_erasure_request(&mut self, key: &RequestKey) -> Result<(), TablesError> {
        self.tables.meta.delete(&mut self.txn, &key.0)?;
        Ok(())
    }

    /// Deletes the record of an erasure, unless the record reaches a higher seq than `erasure`.
    pub fn delete_erasure(&mut self, erasure: &Erasure) -> Result<(), TablesError> {
        if !self.goes_further(erasure)? {
            self.tables.erasures.delete(&mut self.txn, &erasure.key())?;
        }
        Ok(())
    }

    /// Returns whether the recorded erasure with the same key reaches a higher seq.
    fn goes_further(&self, erasure: &Erasure) -> Result<bool, TablesError> {
        let key = erasure.key();
        let recorded = self.tables.erasures.get(&self.txn, &key)?;
        let recorded =
            recorded.map(|row| Erasure::read(&key, row)).transpose().map_err(in_table("erasures"))?;
        Ok(recorded.is_some_and(|recorded| recorded.through > erasure.through))
    }

    /// Marks that files may hold erased content. The mark is a row, because it must survive a
    /// restart.
    pub fn mark_erased_pages(&mut self) -> Result<(), TablesError> {
        self.put(self.tables.meta, ERASED_PAGES_KEY, &[1])
    }

    /// Marks that files may hold content past its retention. The next erasure then rewrites the
    /// files.
    pub fn mark_expired_pages(&mut self) -> Result<(), TablesError> {
        self.put(self.tables.meta, EXPIRED_PAGES_KEY, &[1])
    }

    pub fn has_expired_pages(&self) -> Result<bool, TablesError> {
        Ok(self.tables.meta.get(&self.txn, EXPIRED_PAGES_KEY)?.is_some())
    }

    /// Clears both marks. Call it only when no file holds erased or expired content.
    pub fn clear_marks_of_pages(&mut self) -> Result<(), TablesError> {
        self.tables.meta.delete(&mut self.txn, ERASED_PAGES_KEY)?;
        self.tables.meta.delete(&mut self.txn, EXPIRED_PAGES_KEY)?;
        Ok(())
    }

    pub fn put_last_run(&mut self, run: &LastRun) -> Result<(), TablesError> {
        self.put(self.tables.meta, LAST_RUN_KEY, &run.encode())
    }

    /// Replaces the preview in each member's inbox row whose newest message is at most `through`.
    /// `change` returns the new record, or `None` to keep it. Returns the number of changed rows.
    pub fn change_previews(
        &mut self,
        id: ConversationId,
        through: Seq,
        change: impl Fn(&[u8]) -> Result<Option<Vec<u8>>, DecodeError>,
    ) -> Result<usize, TablesError> {
        let mut changed = Vec::new();
        for found in self.tables.members.scan_prefix(&self.txn, id.as_bytes())? {
            let (key, row) = found?;
            let (member, _) = rows::read_member(key, row).map_err(in_table("members"))?;
            let key = rows::inbox_key(&member.user, id);
            let Some(row) = self.tables.inbox.peek(&self.txn, &key)? else { continue };
            // Skip a damaged inbox row: the next change of the conversation rebuilds it from the
            // message.
            let Ok(line) = rows::read_inbox(row) else { continue };
            if line.last_seq > through || line.record.is_empty() {
                continue;
            }
            if let Some(record) = change(line.record).map_err(in_table("inbox"))? {
                changed.push((key, rows::InboxRow { record: &record, ..line }.encode()));
            }
        }
        for (key, row) in &changed {
            self.put(self.tables.inbox, key, row)?;
        }
        Ok(changed.len())
    }
}

impl Engine {
    pub fn last_run(&self) -> Result<Option<LastRun>, TablesError> {
        let txn = self.env.read_txn()?;
        let row = self.meta.get(&txn, LAST_RUN_KEY)?;
        row.map(LastRun::read).transpose().map_err(in_table("meta"))
    }

    pub fn cold_count(&self) -> Result<ColdCount, TablesError> {
        let txn = self.env.read_txn()?;
        let row = self.meta.get(&txn, COLD_COUNT_KEY)?;
        row.map_or(Ok(ColdCount::default()), read_count).map_err(in_table("meta"))
    }
}

/// Returns the last seq of a stored chunk, from its first seq and the count in its header.
pub fn end_of(first: Seq, bytes: &[u8]) -> Result<Seq, DecodeError> {
    Ok(first.plus(chunk::Header::read(bytes)?.count as u64).previous())
}
