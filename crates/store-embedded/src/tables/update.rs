//! Writes the tables in atomic, durable transactions.

use std::rc::Rc;

use bluetick_core::inbox::InboxSection;
use bluetick_core::{ConversationId, Member, MemberState, Person, Profile, Seq, Timestamp, User, UserId};
use heed::RwTxn;

use super::{CHECKPOINT_KEY, DEDUPE_CLOCK_KEY, Engine, Table, TablesError, in_table, order_key_of};
use crate::codec::cold::ColdChunk;
use crate::codec::rows::StoredConversation;
use crate::codec::{DecodeError, chunk, record, rows};
use crate::dedupe::DedupeRow;
use crate::log::BatchNumber;

/// The new state of one user's rows about one conversation.
pub struct InboxChange {
    /// The key of the inbox row and of the pending row.
    pub key: Vec<u8>,
    pub head: Seq,
    pub last_at: Timestamp,
    pub shelf: InboxSection,
    /// The newest message, cut to its preview. `None` if the tables already hold it.
    pub record: Option<Rc<[u8]>>,
    pub pending_after: Option<Seq>,
    /// Whether the user's inbox lists the conversation.
    pub is_listed: bool,
}

/// A write transaction over all tables.
pub struct Update<'t> {
    pub(super) tables: &'t Engine,
    pub(super) txn: RwTxn<'t>,
    pub(super) bytes: usize,
}

impl Update<'_> {
    /// Returns the number of key and row bytes written so far.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn put_conversation(&mut self, stored: &StoredConversation) -> Result<(), TablesError> {
        let key = stored.conversation.id;
        self.put(self.tables.conversations, key.as_bytes(), &rows::conversation_row(stored))
    }

    pub fn put_member(
        &mut self,
        id: ConversationId,
        member: &Member,
        member_state: &MemberState,
    ) -> Result<(), TablesError> {
        let row = rows::member_row(member, member_state);
        self.put(self.tables.members, &rows::member_key(id, &member.user), &row)
    }

    /// Deletes a member and its rows in `inbox`, `order`, `unlisted` and `pending`.
    pub fn delete_member(&mut self, id: ConversationId, user: &UserId) -> Result<(), TablesError> {
        self.tables.members.delete(&mut self.txn, &rows::member_key(id, user))?;
        let key = rows::inbox_key(user, id);
        if let Some(row) = self.tables.inbox.peek(&self.txn, &key)? {
            match order_key_of(&key, row) {
                Ok(order) => {
                    self.tables.order.delete(&mut self.txn, &order)?;
                }
                Err(error) => log_damaged_inbox_row(id, &error),
            }
        }
        self.tables.inbox.delete(&mut self.txn, &key)?;
        self.tables.unlisted.delete(&mut self.txn, &key)?;
        self.tables.pending.delete(&mut self.txn, &key)?;
        Ok(())
    }

    pub fn put_chunk(&mut self, id: ConversationId, first_seq: Seq, chunk: &[u8]) -> Result<(), TablesError> {
        self.put(self.tables.chunks, &rows::chunk_key(id, first_seq), chunk)
    }

    pub fn last_chunk(&self, id: ConversationId) -> Result<Option<(Seq, &[u8])>, TablesError> {
        let last = rows::chunk_key(id, Seq::MAX);
        let mut chunks = self.tables.chunks.scan_back(&self.txn, &last, id.as_bytes())?;
        let Some(found) = chunks.next() else { return Ok(None) };
        let (key, bytes) = found?;
        Ok(Some((rows::chunk_first_seq(key).map_err(in_table("chunks"))?, bytes)))
    }

    /// Writes the inbox, order and pending rows of one user. Skips rows that are already the same.
    pub fn put_inbox(&mut self, change: &InboxChange) -> Result<(), TablesError> {
        let InboxChange { key, head, last_at, shelf, pending_after, .. } = change;
        if !change.is_listed {
            return self.put(self.tables.unlisted, key, &[]);
        }
        let id = rows::key_conversation(key).map_err(in_table("inbox"))?;
        let stored = self.tables.inbox.peek(&self.txn, key)?;
        // An inbox row is derived, so a damaged one is rewritten. Its old `order` row stays until
        // the next start rebuilds the order.
        let before = stored
            .and_then(|row| rows::read_inbox(row).inspect_err(|error| log_damaged_inbox_row(id, error)).ok());
        let record = match (&change.record, &before) {
            (Some(record), _) => record.to_vec(),
            (None, Some(before)) if before.last_seq == *head => before.record.to_vec(),
            (None, _) => self.preview_at(id, *head).unwrap_or_else(|error| {
                tracing::error!(conversation = %id, %error, "newest message unreadable; the inbox row has no preview");
                Vec::new()
            }),
        };
        let row = rows::InboxRow { last_seq: *head, last_at: *last_at, shelf: *shelf, record: &record };
        let (from, to) = (before.as_ref().map(|before| before.position(id)), row.position(id));
        let encoded = row.encode();
        let (same, is_new) = (stored == Some(&encoded[..]), stored.is_none());
        if from != Some(to) {
            let user = rows::key_user(key).map_err(in_table("inbox"))?;
            if let Some(from) = from {
                self.tables.order.delete(&mut self.txn, &rows::order_key_in(user, &from))?;
            }
            self.put(self.tables.order, &rows::order_key_in(user, &to), &[])?;
        }
        if !same {
            self.put(self.tables.inbox, key, &encoded)?;
        }
        if is_new {
            self.tables.unlisted.delete(&mut self.txn, key)?;
        }
        let pending = pending_after.map(rows::pending_row);
        let stored = self.tables.pending.peek(&self.txn, key)?;
        match pending {
            Some(row) if stored != Some(&row[..]) => self.put(self.tables.pending, key, &row)?,
            None if stored.is_some() => {
                self.tables.pending.delete(&mut self.txn, key)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the record of the newest message, cut to its preview, from its chunk.
    fn preview_at(&self, id: ConversationId, head: Seq) -> Result<Vec<u8>, TablesError> {
        let Some((first, bytes)) = self.last_chunk(id)? else { return Ok(Vec::new()) };
        let read = || {
            let header = chunk::Header::read(bytes)?;
            let index = usize::try_from(head.distance_from(first)).unwrap_or(usize::MAX);
            // A preview does without the content of an archived message.
            let records = match header.is_cold() {
                true => ColdChunk::read(&header)?.stubs,
                false => chunk::unpack(&header)?,
            };
            records.get(index).map_or(Ok(Vec::new()), record::cut)
        };
        read().map_err(in_table("chunks"))
    }

    pub fn put_user(&mut self, user: &User) -> Result<(), TablesError> {
        let key = user.id.as_str().as_bytes();
        let before = self.tables.users.peek(&self.txn, key)?;
        // The search terms of an unreadable account stay behind. Searches skip them.
        let before = before.and_then(|row| rows::read_user_row(key, row).ok());
        let names = before.map_or_else(Vec::new, |before| rows::name_keys(&Person::from(&before)));
        for name in names {
            self.tables.names.delete(&mut self.txn, &name)?;
        }
        for name in rows::name_keys(&Person::from(user)) {
            self.put(self.tables.names, &name, &[])?;
        }
        for key in rows::skeleton_keys(&user.id) {
            self.put(self.tables.names, &key, &[])?;
        }
        self.put(self.tables.users, key, &rows::user_row(user))
    }

    pub fn put_profile(&mut self, user: &UserId, profile: &Profile) -> Result<(), TablesError> {
        self.put(self.tables.profiles, user.as_str().as_bytes(), &rows::profile_row(profile))
    }

    pub fn put_dedupe_clock(&mut self, row: &DedupeRow) -> Result<(), TablesError> {
        self.put(self.tables.meta, DEDUPE_CLOCK_KEY, &row.encode())
    }

    pub fn set_checkpoint(&mut self, through: BatchNumber) -> Result<(), TablesError> {
        self.put(self.tables.meta, CHECKPOINT_KEY, &super::with_checksum(&through.0.to_le_bytes()))
    }

    pub(super) fn put(&mut self, table: Table, key: &[u8], row: &[u8]) -> Result<(), TablesError> {
        self.bytes += key.len() + row.len();
        table.put(&mut self.txn, key, row)
    }

    /// Commits the transaction. The changes are durable when this returns.
    pub fn commit(self) -> Result<(), TablesError> {
        Ok(self.txn.commit()?)
    }
}

fn log_damaged_inbox_row(conversation: ConversationId, error: &DecodeError) {
    tracing::error!(%conversation, %error, "inbox row is damaged");
}
