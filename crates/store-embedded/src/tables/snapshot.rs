//! Reads from one consistent snapshot of the tables.

use std::ops::{Bound, RangeInclusive};

use bluetick_core::inbox::InboxKey;
use bluetick_core::{
    ConversationId, Member, MemberState, Members, NamePrefix, Profile, Seq, Skeleton, User, UserId,
};
use heed::{RoTxn, WithoutTls};

use super::table::RangeEnd;
use super::{Engine, TablesError, in_table};
use crate::codec::cold::ColdChunk;
use crate::codec::rows::StoredConversation;
use crate::codec::{DecodeError, Reader, chunk, rows};
use crate::log::BatchNumber;
use bluetick_archive::SegmentRef;

/// The stored record at one seq.
pub struct StoredRecord<'a> {
    /// Without its content if that is in the archive.
    pub record: &'a [u8],
    pub cold: Option<ColdRecord>,
}

/// Where in the archive the content of a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColdRecord {
    pub location: SegmentRef,
    /// The index of the message in the block.
    pub index: usize,
    pub content_hash: u64,
}

/// A read transaction over all tables.
pub struct Snapshot<'t> {
    pub(super) tables: &'t Engine,
    pub(super) txn: RoTxn<'t, WithoutTls>,
}

impl Snapshot<'_> {
    /// Returns the last batch whose effects are in the tables.
    pub fn checkpoint(&self) -> Result<BatchNumber, TablesError> {
        let Some(row) = self.tables.meta.get(&self.txn, super::CHECKPOINT_KEY)? else {
            return Ok(BatchNumber::NONE);
        };
        let read = || Reader(super::without_checksum(row, super::CHECKPOINT_BYTES)?).u64().map(BatchNumber);
        read().map_err(in_table("meta"))
    }

    pub fn conversation(&self, id: ConversationId) -> Result<Option<StoredConversation>, TablesError> {
        let row = self.tables.conversations.get(&self.txn, id.as_bytes())?;
        row.map(|row| rows::read_conversation(row, id)).transpose().map_err(in_table("conversations"))
    }

    pub fn has_conversation(&self, id: ConversationId) -> Result<bool, TablesError> {
        Ok(self.tables.conversations.get(&self.txn, id.as_bytes())?.is_some())
    }

    /// Returns whether messages or members of the conversation exist. Called for a conversation
    /// without a row, it detects a lost row.
    pub fn is_orphaned(&self, id: ConversationId) -> Result<bool, TablesError> {
        let chunk = self.tables.chunks.scan_prefix(&self.txn, id.as_bytes())?.next().transpose()?;
        let member = self.tables.members.scan_prefix(&self.txn, id.as_bytes())?.next().transpose()?;
        Ok(chunk.is_some() || member.is_some())
    }

    pub fn member(
        &self,
        id: ConversationId,
        user: &UserId,
    ) -> Result<Option<(Member, MemberState)>, TablesError> {
        let key = rows::member_key(id, user);
        let row = self.tables.members.get(&self.txn, &key)?;
        row.map(|row| rows::read_member(&key, row)).transpose().map_err(in_table("members"))
    }

    /// Returns all members, and their read states in the same order.
    pub fn members(&self, id: ConversationId) -> Result<(Members, Vec<MemberState>), TablesError> {
        let (mut members, mut member_states) = (Vec::new(), Vec::new());
        for found in self.tables.members.scan_prefix(&self.txn, id.as_bytes())? {
            let (key, row) = found?;
            let (member, member_state) = rows::read_member(key, row).map_err(in_table("members"))?;
            members.push(member);
            member_states.push(member_state);
        }
        // The keys are already sorted by user and unique.
        Ok((Members::from_unsorted(members), member_states))
    }

    pub fn user(&self, id: &UserId) -> Result<Option<User>, TablesError> {
        let key = id.as_str().as_bytes();
        let row = self.tables.users.get(&self.txn, key)?;
        row.map(|row| rows::read_user_row(key, row)).transpose().map_err(in_table("users"))
    }

    /// Passes each search term that starts with `prefix` and its user to `visit`, in term order,
    /// until `visit` returns `false`. A user may appear several times, and may no longer match or
    /// exist.
    pub fn names(
        &self,
        prefix: &NamePrefix,
        mut visit: impl FnMut(&str, UserId) -> Result<bool, TablesError>,
    ) -> Result<(), TablesError> {
        for found in self.tables.names.scan_prefix(&self.txn, prefix.as_str().as_bytes())? {
            let (term, user) = rows::read_name_key(found?.0).map_err(in_table("names"))?;
            if !visit(term, user)? {
                break;
            }
        }
        Ok(())
    }

    /// Returns whether a user has an id with this skeleton.
    pub fn holds(&self, name: &Skeleton) -> Result<bool, TablesError> {
        let prefix = rows::skeleton_prefix(name);
        let mut held = self.tables.names.scan_prefix(&self.txn, &prefix)?;
        Ok(held.next().transpose()?.is_some())
    }

    pub fn profile(&self, user: &UserId) -> Result<Option<Profile>, TablesError> {
        let row = self.tables.profiles.get(&self.txn, user.as_str().as_bytes())?;
        let read = |row| rows::unseal(row).and_then(|mut reader| rows::read_profile(&mut reader));
        row.map(read).transpose().map_err(in_table("profiles"))
    }

    /// Passes the positions of the user's inbox after `after` to `visit`, in order, until `visit`
    /// returns `false`.
    pub fn order(
        &self,
        user: &UserId,
        after: Option<&InboxKey>,
        mut visit: impl FnMut(InboxKey) -> bool,
    ) -> Result<(), TablesError> {
        let prefix = rows::user_prefix(user);
        let start = after.map_or_else(|| prefix.clone(), |after| rows::order_key(user, after));
        for found in self.tables.order.scan(&self.txn, Bound::Excluded(&start), RangeEnd::Prefix(&prefix))? {
            if !visit(rows::read_inbox_position(found?.0).map_err(in_table("order"))?) {
                break;
            }
        }
        Ok(())
    }

    /// Returns whether the user is a member of any conversation, listed in the inbox or not.
    pub fn is_member(&self, user: &UserId) -> Result<bool, TablesError> {
        let prefix = rows::user_prefix(user);
        for table in [self.tables.order, self.tables.unlisted] {
            if table.scan_prefix(&self.txn, &prefix)?.next().transpose()?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns each conversation with undelivered messages for the user, and the seq before the
    /// first of them.
    pub fn pending(&self, user: &UserId) -> Result<Vec<(ConversationId, Seq)>, TablesError> {
        let mut all = Vec::new();
        for found in self.tables.pending.scan_prefix(&self.txn, &rows::user_prefix(user))? {
            let (key, row) = found?;
            let read = || Ok((rows::key_conversation(key)?, rows::read_pending(row)?));
            all.push(read().map_err(in_table("pending"))?);
        }
        Ok(all)
    }

    /// Returns whether [`Snapshot::pending`] has at most `most` entries.
    pub fn pending_is_at_most(&self, user: &UserId, most: usize) -> Result<bool, TablesError> {
        let mut count = 0;
        for found in self.tables.pending.scan_prefix(&self.txn, &rows::user_prefix(user))?.take(most + 1) {
            found?;
            count += 1;
        }
        Ok(count <= most)
    }

    /// Returns the number of notices up to `seq`. A chunk must contain `seq`.
    pub fn notices_through(&self, id: ConversationId, seq: Seq) -> Result<u64, TablesError> {
        let key = rows::chunk_key(id, seq);
        let mut below = self.tables.chunks.scan_back(&self.txn, &key, id.as_bytes())?;
        let Some(found) = below.next() else { return Ok(0) };
        let (key, bytes) = found?;
        let count = || {
            let index = seq.distance_from(rows::chunk_first_seq(key)?);
            Ok(chunk::Header::read(bytes)?.notices_through(usize::try_from(index).unwrap_or(usize::MAX - 1)))
        };
        count().map_err(in_table("chunks"))
    }

    /// Returns the record at `seq`, without its content if that is in the archive.
    pub fn record(&self, id: ConversationId, seq: Seq) -> Result<Option<Vec<u8>>, TablesError> {
        let mut record = None;
        self.records(id, seq..=seq, |_, stored| {
            record = Some(stored.record.to_vec());
            Ok(())
        })?;
        Ok(record)
    }

    /// Returns the stored bytes of a user's inbox row.
    pub fn inbox_row(&self, user: &UserId, id: ConversationId) -> Result<Option<Vec<u8>>, TablesError> {
        Ok(self.tables.inbox.get(&self.txn, &rows::inbox_key(user, id))?.map(<[u8]>::to_vec))
    }

    /// Passes the record at each seq of `range` to `visit`, oldest first. Skips seqs that no chunk
    /// contains.
    pub fn records(
        &self,
        id: ConversationId,
        range: RangeInclusive<Seq>,
        mut visit: impl FnMut(Seq, StoredRecord<'_>) -> Result<(), DecodeError>,
    ) -> Result<(), TablesError> {
        let below = rows::chunk_key(id, *range.start());
        let mut below = self.tables.chunks.scan_back(&self.txn, &below, id.as_bytes())?;
        let Some(first) = below.next() else { return Ok(()) };
        let last_key = rows::chunk_key(id, *range.end());
        let start = Bound::Included(first?.0);
        for found in self.tables.chunks.scan(&self.txn, start, RangeEnd::Through(&last_key))? {
            let (key, bytes) = found?;
            let mut read = || -> Result<(), DecodeError> {
                let header = chunk::Header::read(bytes)?;
                let seqs = (rows::chunk_first_seq(key)?.get()..).map(Seq::new);
                if header.is_cold() {
                    let chunk = ColdChunk::read(&header)?;
                    for ((index, (record, content_hash)), seq) in chunk.entries().enumerate().zip(seqs) {
                        let index = chunk.location.index as usize + index;
                        let cold = ColdRecord { location: chunk.location, index, content_hash };
                        if range.contains(&seq) {
                            visit(seq, StoredRecord { record, cold: Some(cold) })?;
                        }
                    }
                    return Ok(());
                }
                for (record, seq) in chunk::unpack(&header)?.records().zip(seqs) {
                    if range.contains(&seq) {
                        visit(seq, StoredRecord { record, cold: None })?;
                    }
                }
                Ok(())
            };
            read().map_err(in_table("chunks"))?;
        }
        Ok(())
    }

    /// Passes chunk headers to `visit`, newest first, until `visit` returns `false`.
    pub fn headers_backwards(
        &self,
        id: ConversationId,
        mut visit: impl FnMut(Seq, chunk::Header<'_>) -> bool,
    ) -> Result<(), TablesError> {
        let last = rows::chunk_key(id, Seq::MAX);
        for found in self.tables.chunks.scan_back(&self.txn, &last, id.as_bytes())? {
            let (key, bytes) = found?;
            let first_seq = rows::chunk_first_seq(key).map_err(in_table("chunks"))?;
            let header = chunk::Header::read(bytes).map_err(in_table("chunks"))?;
            if !visit(first_seq, header) {
                break;
            }
        }
        Ok(())
    }
}
