//! Writes a generation to the tables.
//!
//! Writers continue meanwhile. A conversation state is read at the moment it is visited, so its
//! rows may be ahead of the checkpoint's position in the log. That is safe, because replaying an
//! event that the tables contain changes nothing. The position moves last, and only then are the
//! log segments before it released.

use std::fmt::Display;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bluetick_core::inbox::InboxSection;
use bluetick_core::ports::CheckpointReport;
use bluetick_core::{Member, MemberState, Members, Seq, UserId};

use crate::codec::chunk::{self, ChunkEntry, ChunkPacker, Fingerprint};
use crate::codec::rows::StoredConversation;
use crate::codec::{DecodeError, record, rows};
use crate::dedupe::DedupeClock;
use crate::memory::{
    CheckpointedState, ConversationState, Generation, Profiles, ResidentConversation, TailMessage, Users,
};
use crate::tables::{Engine, InboxChange, TablesError, Update};

/// The size in bytes at which a transaction is committed. Small transactions let log syncs use the
/// disk in between; larger ones delay acknowledgements.
const TRANSACTION_BYTES: usize = 2 << 20;
/// The size in bytes at which a chunk of large messages is closed, so that reading a page does not
/// decompress megabytes.
const CHUNK_RAW_BYTES: usize = 128 << 10;
/// Upper bound on the rows by user that are sorted in memory and written together; they take about
/// 100 MB. These rows are scattered over the table, so sorting more of them saves page writes.
const INBOX_ROWS_AT_ONCE: usize = 768 << 10;
/// Upper bound on the profiles in one transaction. Bounds its memory, and how long it delays log
/// syncs.
const PROFILES_AT_ONCE: usize = 16 << 10;

/// The steps of a checkpoint, at which tests interrupt it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointStep {
    BeforeFirstTransaction,
    RoomsWritten,
    InboxWritten,
    UsersWritten,
    PositionMoved,
}

pub struct Checkpoint<'a> {
    pub tables: &'a Engine,
    pub users: &'a Users,
    pub profiles: &'a Profiles,
    pub dedupe: &'a DedupeClock,
    pub on_step: &'a (dyn Fn(CheckpointStep) + Sync),
    /// Called before most transactions; returns `true` to stop the checkpoint.
    pub must_stop: &'a (dyn Fn() -> bool + Sync),
}

/// The values that a checkpoint reads from one conversation state, under its lock.
struct VisitedConversation {
    resident: Arc<ResidentConversation>,
    stored: StoredConversation,
    /// The members whose rows are out of date.
    members: Vec<(Member, MemberState)>,
    /// The members whose rows by user are out of date.
    inbox: Vec<StaleInboxRow>,
    tail_first: Seq,
    tail: Vec<TailMessage>,
    notices_before_tail: u64,
    written: CheckpointedState,
}

/// A member's inbox row, as it must be written.
struct StaleInboxRow {
    user: UserId,
    shelf: InboxSection,
    pending_after: Option<Seq>,
    is_listed: bool,
}

impl Checkpoint<'_> {
    /// Writes all of `generation`. After an error nothing is lost. The unwritten part is still in
    /// memory and in the log, and the caller can retry with the same generation.
    pub fn run(&self, generation: &mut Generation) -> Result<CheckpointReport, TablesError> {
        let started = Instant::now();
        let mut messages = 0;
        (self.on_step)(CheckpointStep::BeforeFirstTransaction);
        // The tables are sorted by conversation, so this order touches each page once.
        generation.residents.sort_unstable_by_key(|resident| resident.id);
        let mut packer = ChunkPacker::default();
        let mut inbox: Vec<InboxChange> = Vec::new();
        let mut residents = generation.residents.iter().filter_map(visit).peekable();
        while residents.peek().is_some() {
            let mut update = self.update()?;
            let mut visited = Vec::new();
            while update.bytes() < TRANSACTION_BYTES
                && inbox.len() < INBOX_ROWS_AT_ONCE
                && let Some(visit) = residents.next()
            {
                messages += visit.tail.len();
                self.write_conversation(&mut update, &mut packer, &visit)?;
                collect_inbox(&visit, &mut inbox)?;
                visited.push((visit.resident, visit.written));
            }
            update.commit()?;
            for (resident, written) in &visited {
                resident.state().forget(written);
            }
            (self.on_step)(CheckpointStep::RoomsWritten);
            if inbox.len() >= INBOX_ROWS_AT_ONCE {
                self.write_inbox(&mut inbox)?;
            }
        }
        self.write_inbox(&mut inbox)?;
        self.write_users(&generation.users)?;
        self.write_profiles(&generation.profiles)?;
        let mut update = self.tables.update()?;
        update.set_checkpoint(generation.through)?;
        update.put_dedupe_clock(&self.dedupe.row())?;
        update.commit()?;
        generation.settle();
        (self.on_step)(CheckpointStep::PositionMoved);
        Ok(CheckpointReport { conversations: generation.residents.len(), messages, took: started.elapsed() })
    }

    fn update(&self) -> Result<Update<'_>, TablesError> {
        if (self.must_stop)() { Err(TablesError::Stopped) } else { self.tables.update() }
    }

    /// Writes all rows keyed by the conversation. They become durable in one transaction.
    fn write_conversation(
        &self,
        update: &mut Update<'_>,
        packer: &mut ChunkPacker,
        visit: &VisitedConversation,
    ) -> Result<(), TablesError> {
        let id = visit.stored.conversation.id;
        for user in visit.written.departed.keys() {
            update.delete_member(id, user)?;
        }
        for (member, member_state) in &visit.members {
            update.put_member(id, member, member_state)?;
        }
        update.put_conversation(&visit.stored)?;
        if visit.tail.is_empty() { Ok(()) } else { self.write_chunks(update, packer, visit) }
    }

    /// Appends the tail after the last chunk, or merges it into that chunk while it is small.
    fn write_chunks(
        &self,
        update: &mut Update<'_>,
        packer: &mut ChunkPacker,
        visit: &VisitedConversation,
    ) -> Result<(), TablesError> {
        let id = visit.stored.conversation.id;
        let mut first_seq = visit.tail_first;
        let mut notices = visit.notices_before_tail;
        let mut before = chunk::Unpacked::default();
        let mut prints: Vec<Fingerprint> = Vec::new();
        // Readers of a damaged chunk get an error. The checkpoint keeps the chunk and appends the
        // tail after it: one damaged chunk must not block all other writes to the tables.
        let damaged = |error: &dyn Display| {
            tracing::error!(conversation = %id, %error, "the last chunk of a conversation is damaged");
        };
        let last_chunk = match update.last_chunk(id) {
            Err(error @ TablesError::Damaged { .. }) => {
                damaged(&error);
                None
            }
            last_chunk => last_chunk?,
        };
        if first_seq > Seq::FIRST
            && let Some((chunk_first, bytes)) = last_chunk
            && chunk::count_of(bytes) < chunk::MERGE_BELOW
            && !chunk::is_cold(bytes)
            && bytes.len() < CHUNK_RAW_BYTES
        {
            match open_chunk(bytes, chunk_first, first_seq) {
                Ok((unpacked, fingerprints)) => {
                    before = unpacked;
                    notices -= count_notices(&fingerprints);
                    prints = fingerprints;
                    first_seq = chunk_first;
                }
                Err(error) => damaged(&error),
            }
        }

        let old = before.records().zip(prints);
        let new = visit.tail.iter().map(|message| (&message.record[..], message.fingerprint));
        let mut entries: Vec<ChunkEntry<'_>> = Vec::with_capacity(before.records().len() + visit.tail.len());
        entries.extend(old.chain(new).map(|(record, fingerprint)| ChunkEntry { record, fingerprint }));
        let mut packed = Vec::new();
        let mut rest = &entries[..];
        while !rest.is_empty() {
            let (now, later) = rest.split_at(chunk_length(rest));
            packed.clear();
            packer.pack(now, visit.stored.newest_at, notices, &mut packed);
            update.put_chunk(id, first_seq, &packed)?;
            first_seq = first_seq.plus(now.len() as u64);
            notices += now.iter().filter(|entry| entry.fingerprint == Fingerprint::NONE).count() as u64;
            rest = later;
        }
        Ok(())
    }

    fn write_inbox(&self, inbox: &mut Vec<InboxChange>) -> Result<(), TablesError> {
        inbox.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        let mut changes = inbox.iter().peekable();
        while changes.peek().is_some() {
            let mut update = self.update()?;
            while update.bytes() < TRANSACTION_BYTES
                && let Some(change) = changes.next()
            {
                update.put_inbox(change)?;
            }
            update.commit()?;
            (self.on_step)(CheckpointStep::InboxWritten);
        }
        inbox.clear();
        Ok(())
    }

    fn write_users(&self, ids: &[UserId]) -> Result<(), TablesError> {
        let changed: Vec<_> = ids.iter().filter_map(|id| self.users.get(id)).collect();
        if changed.is_empty() {
            return Ok(());
        }
        let mut update = self.tables.update()?;
        for user in &changed {
            update.put_user(user)?;
        }
        update.commit()?;
        for user in &changed {
            self.users.forget(user);
        }
        (self.on_step)(CheckpointStep::UsersWritten);
        Ok(())
    }

    fn write_profiles(&self, users: &[UserId]) -> Result<(), TablesError> {
        let changed: Vec<_> =
            users.iter().filter_map(|user| Some((user, self.profiles.get(user)?))).collect();
        for some in changed.chunks(PROFILES_AT_ONCE) {
            let mut update = self.update()?;
            for (user, profile) in some {
                update.put_profile(user, profile)?;
            }
            update.commit()?;
        }
        for (user, profile) in &changed {
            self.profiles.forget(user, profile);
        }
        Ok(())
    }
}

fn count_notices(prints: &[Fingerprint]) -> u64 {
    prints.iter().filter(|print| **print == Fingerprint::NONE).count() as u64
}

/// Returns the records and fingerprints of a chunk that must end just below `next`.
fn open_chunk(
    bytes: &[u8],
    first: Seq,
    next: Seq,
) -> Result<(chunk::Unpacked, Vec<Fingerprint>), DecodeError> {
    let header = chunk::Header::read(bytes)?;
    if first.plus(header.count as u64) != next {
        return Err(DecodeError::Malformed("the end of the last chunk"));
    }
    Ok((chunk::unpack(&header)?, header.fingerprints().collect()))
}

fn visit(resident: &Arc<ResidentConversation>) -> Option<VisitedConversation> {
    let state = resident.state();
    let written = state.to_write();
    let unwritten = |(user, _): &(UserId, u64)| {
        state.member(user).map(|(member, member_state)| (member.clone(), *member_state))
    };
    Some(VisitedConversation {
        resident: Arc::clone(resident),
        stored: state.to_store()?,
        members: written.member_states.iter().filter_map(unwritten).collect(),
        inbox: stale_inbox_rows(&state),
        tail_first: state.tail_first(),
        tail: state.tail().collect(),
        notices_before_tail: state.notices_before_tail(),
        written,
    })
}

fn stale_inbox_rows(state: &ConversationState) -> Vec<StaleInboxRow> {
    let (members, head): (&Members, _) = (&state.members, state.head());
    let lines = members.iter().zip(state.member_states.iter());
    let stale = lines.filter(|(member, _)| state.stale.has(&member.user));
    stale
        .map(|(member, member_state)| StaleInboxRow {
            user: member.user.clone(),
            shelf: InboxSection::of(member_state.preferences),
            pending_after: member_state.pending_after(member.joined_seq, head),
            is_listed: state.is_listed_for(&member.user),
        })
        .collect()
}

/// Returns how many of `entries` go into the next chunk.
fn chunk_length(entries: &[ChunkEntry<'_>]) -> usize {
    let mut bytes = 0;
    let full = entries.iter().take(chunk::CAPACITY).position(|entry| {
        let closed = bytes >= CHUNK_RAW_BYTES;
        bytes += entry.record.len();
        closed
    });
    full.unwrap_or(entries.len().min(chunk::CAPACITY))
}

fn collect_inbox(visit: &VisitedConversation, inbox: &mut Vec<InboxChange>) -> Result<(), TablesError> {
    let conversation = &visit.stored.conversation;
    let newest = visit.tail.last().map(|message| record::cut(&message.record)).transpose();
    let newest = newest.map_err(|error| TablesError::Damaged { table: "log", error })?;
    let record: Option<Rc<[u8]>> = newest.map(Rc::from);
    inbox.extend(visit.inbox.iter().map(|line| InboxChange {
        key: rows::inbox_key(&line.user, conversation.id),
        head: conversation.head,
        last_at: conversation.last_at,
        shelf: line.shelf,
        record: record.clone(),
        pending_after: line.pending_after,
        is_listed: line.is_listed,
    }));
    Ok(())
}
