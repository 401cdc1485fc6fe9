//! Turning a generation into tables.
//!
//! Writers go on meanwhile: a room is read at the moment it is visited, so its rows may run ahead of the point in the
//! log that the checkpoint stands for. That is harmless, since replaying what is in the tables already changes nothing.
//! The position moves last, and only then is the log behind it given up.

use std::sync::Arc;
use std::time::Instant;

use bluetick_core::ports::CheckpointReport;
use bluetick_core::{ContentType, Members, Seq, UserId};

use crate::codec::chunk::{self, Entry, Fingerprint, Packer};
use crate::codec::record::Record;
use crate::codec::rows::StoredConversation;
use crate::codec::{DecodeError, rows};
use crate::memory::{Generation, Room, TailMessage, Users, Written};
use crate::tables::{Engine, TablesError, Update};

/// One durable transaction of the table engine. Small ones leave the disk to the log in between.
const TRANSACTION_BYTES: usize = 2 << 20;
/// A chunk of large messages is closed early, so that a page does not unpack megabytes.
const CHUNK_RAW_BYTES: usize = 128 << 10;
const INBOX_ROWS_AT_ONCE: usize = 64 << 10;

/// Where a checkpoint stands; tests stop it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    BeforeFirstTransaction,
    RoomsWritten,
    InboxWritten,
    UsersWritten,
    PositionMoved,
}

pub struct Checkpoint<'a> {
    pub tables: &'a Engine,
    pub users: &'a Users,
    pub on_step: &'a (dyn Fn(Step) + Sync),
    /// Asked before each transaction.
    pub must_stop: &'a (dyn Fn() -> bool + Sync),
}

/// What one room brings, read under its lock.
struct Visit {
    room: Arc<Room>,
    stored: StoredConversation,
    members: Arc<Members>,
    tail_first: Seq,
    tail: Vec<TailMessage>,
    written: Written,
}

type InboxChange = (Vec<u8>, Vec<u8>);

impl Checkpoint<'_> {
    /// Writes all of `generation`. After an error nothing is lost: what was not written is still in memory and in
    /// the log, and the same generation can be given again.
    pub fn run(&self, generation: &mut Generation) -> Result<CheckpointReport, TablesError> {
        let started = Instant::now();
        let mut messages = 0;
        (self.on_step)(Step::BeforeFirstTransaction);
        // The tables are sorted by conversation; visiting in that order touches each page once.
        generation.rooms.sort_unstable_by_key(|room| room.id);
        let mut packer = Packer::default();
        let mut inbox: Vec<InboxChange> = Vec::new();
        let mut rooms = generation.rooms.iter().filter_map(visit).peekable();
        while rooms.peek().is_some() {
            let mut update = self.update()?;
            let mut visited = Vec::new();
            while update.bytes() < TRANSACTION_BYTES
                && inbox.len() < INBOX_ROWS_AT_ONCE
                && let Some(visit) = rooms.next()
            {
                messages += visit.tail.len();
                let preview = self.write_room(&mut update, &mut packer, &visit)?;
                collect_inbox(&visit, &preview, &mut inbox);
                visited.push((visit.room, visit.written));
            }
            update.commit()?;
            for (room, written) in &visited {
                room.state().forget(written);
            }
            (self.on_step)(Step::RoomsWritten);
            if inbox.len() >= INBOX_ROWS_AT_ONCE {
                self.write_inbox(&mut inbox)?;
            }
        }
        self.write_inbox(&mut inbox)?;
        self.write_users(&generation.users)?;
        let mut update = self.tables.update()?;
        update.set_checkpoint(generation.through)?;
        update.commit()?;
        (self.on_step)(Step::PositionMoved);
        Ok(CheckpointReport { conversations: generation.rooms.len(), messages, took: started.elapsed() })
    }

    fn update(&self) -> Result<Update<'_>, TablesError> {
        if (self.must_stop)() { Err(TablesError::Stopped) } else { self.tables.update() }
    }

    /// Returns the preview of the newest message.
    fn write_room(
        &self,
        update: &mut Update<'_>,
        packer: &mut Packer,
        visit: &Visit,
    ) -> Result<String, TablesError> {
        let id = visit.stored.conversation.id;
        for user in visit.written.members.keys() {
            match visit.members.get(user) {
                Some(member) => update.put_member(id, member)?,
                // Together, so that a checkpoint that is tried again cannot forget the second half.
                None => {
                    update.delete_member(id, user)?;
                    update.delete_inbox_row(&rows::inbox_key(user, id))?;
                }
            }
        }
        update.put_conversation(&visit.stored)?;
        let newest = self.write_chunks(update, packer, visit)?;
        let record = newest.as_deref().and_then(|newest| Record::decode(newest).ok());
        Ok(match record {
            Some(record) if record.content_type != ContentType::System => {
                rows::preview(record.content).to_owned()
            }
            _ => String::new(),
        })
    }

    /// Adds the tail behind the last chunk, or into it while it is small. Returns the newest record.
    fn write_chunks(
        &self,
        update: &mut Update<'_>,
        packer: &mut Packer,
        visit: &Visit,
    ) -> Result<Option<Vec<u8>>, TablesError> {
        let id = visit.stored.conversation.id;
        let mut first_seq = visit.tail_first;
        let mut before = chunk::Unpacked::default();
        let mut prints: Vec<Fingerprint> = Vec::new();
        if first_seq > Seq::FIRST
            && let Some((chunk_first, bytes)) = update.last_chunk(id)?
        {
            let small = chunk::count_of(bytes) < chunk::MERGE_BELOW && bytes.len() < CHUNK_RAW_BYTES;
            if small || visit.tail.is_empty() {
                match open_chunk(bytes, chunk_first, first_seq) {
                    Ok((unpacked, fingerprints)) => {
                        before = unpacked;
                        prints = fingerprints;
                        first_seq = chunk_first;
                    }
                    // Whoever reads it is told. Here it is left as it is, and what is new goes behind it: one damaged
                    // chunk must not keep everything else out of the tables.
                    Err(error) => tracing::error!(conversation = %id, %error, "the last chunk is damaged"),
                }
            }
        }
        if visit.tail.is_empty() {
            return Ok(before.records().next_back().map(<[u8]>::to_vec));
        }

        let old = before.records().zip(prints);
        let new = visit.tail.iter().map(|message| (&message.record[..], message.fingerprint));
        let mut entries: Vec<Entry<'_>> = Vec::with_capacity(before.records().len() + visit.tail.len());
        entries.extend(old.chain(new).map(|(record, fingerprint)| Entry { record, fingerprint }));
        let mut packed = Vec::new();
        let mut rest = &entries[..];
        while !rest.is_empty() {
            let (now, later) = rest.split_at(chunk_length(rest));
            packed.clear();
            packer.pack(now, visit.stored.newest_at, &mut packed);
            update.put_chunk(id, first_seq, &packed)?;
            first_seq = first_seq.plus(now.len() as u64);
            rest = later;
        }
        Ok(entries.last().map(|entry| entry.record.to_vec()))
    }

    fn write_inbox(&self, inbox: &mut Vec<InboxChange>) -> Result<(), TablesError> {
        inbox.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let mut changes = inbox.iter().peekable();
        while changes.peek().is_some() {
            let mut update = self.update()?;
            while update.bytes() < TRANSACTION_BYTES
                && let Some((key, row)) = changes.next()
            {
                update.put_inbox_row(key, row)?;
            }
            update.commit()?;
            (self.on_step)(Step::InboxWritten);
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
        (self.on_step)(Step::UsersWritten);
        Ok(())
    }
}

/// The records of a chunk that ends just below `next`, and their fingerprints.
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

fn visit(room: &Arc<Room>) -> Option<Visit> {
    let state = room.state();
    let conversation = state.conversation.clone()?;
    let stored = StoredConversation { conversation, newest_at: state.newest_at };
    let written = Written { through: stored.conversation.head, members: state.changed_members().clone() };
    Some(Visit {
        room: Arc::clone(room),
        members: Arc::clone(&state.members),
        tail_first: state.tail_first(),
        tail: state.tail().cloned().collect(),
        stored,
        written,
    })
}

/// How many of `entries` go into the next chunk.
fn chunk_length(entries: &[Entry<'_>]) -> usize {
    let mut bytes = 0;
    let full = entries.iter().take(chunk::CAPACITY).position(|entry| {
        let closed = bytes >= CHUNK_RAW_BYTES;
        bytes += entry.record.len();
        closed
    });
    full.unwrap_or(entries.len().min(chunk::CAPACITY))
}

fn collect_inbox(visit: &Visit, preview: &str, inbox: &mut Vec<InboxChange>) {
    let conversation = &visit.stored.conversation;
    let id = conversation.id;
    let row = rows::InboxRow { last_seq: conversation.head, last_at: conversation.last_at, preview };
    let row = row.encode();
    inbox.extend(visit.members.iter().map(|member| (rows::inbox_key(&member.user, id), row.clone())));
}
