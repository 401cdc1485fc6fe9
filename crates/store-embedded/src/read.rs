//! Reading a page: the end of the conversation from memory, the rest from the tables.

use std::ops::RangeInclusive;
use std::sync::Arc;

use bluetick_core::{
    ConversationId, ConversationKind, Members, Message, Page, PageRequest, Refusal, Seq, StoreError,
};
use bytes::Bytes;

use crate::codec::DecodeError;
use crate::codec::record::Record;
use crate::memory::Room;
use crate::tables::{Snapshot, Tables, TablesError};

/// What memory says about a page.
pub struct Plan {
    request: PageRequest,
    first_visible: Seq,
    head: Seq,
    /// Both people of a direct conversation; groups need no names.
    pair: Option<Arc<Members>>,
    /// Places of the window that only the tables have.
    in_tables: RangeInclusive<Seq>,
    /// Records of the rest, oldest first.
    tail: Vec<Bytes>,
}

impl Plan {
    /// For a conversation that is awake.
    pub fn from_room(room: &Room, request: PageRequest) -> Result<Plan, StoreError> {
        let state = room.state();
        let member = state.members.get(&request.reader).ok_or(Refusal::NotAMember)?;
        let (first_visible, head) = (member.joined_seq, state.head());
        let window = request.window(first_visible, head);
        let in_tables = *window.start()..=(*window.end()).min(state.tail_first().previous());
        let first_in_tail = (*window.start()).max(state.tail_first());
        let tail = (first_in_tail.get()..=window.end().get())
            .filter_map(|seq| state.tail_record(Seq::new(seq)).cloned())
            .collect();
        let pair = (room.id.kind() == ConversationKind::Direct).then(|| Arc::clone(&state.members));
        Ok(Plan { request, first_visible, head, pair, in_tables, tail })
    }

    /// For one that sleeps: it is wholly in the tables.
    fn from_tables(snapshot: &Snapshot<'_>, request: PageRequest) -> Result<Plan, StoreError> {
        let id = request.conversation;
        let (member, _) = snapshot.member(id, &request.reader)?.ok_or(Refusal::NotAMember)?;
        let head = snapshot.conversation(id)?.ok_or(TablesError::Orphaned { id })?.conversation.head;
        let first_visible = member.joined_seq;
        let in_tables = request.window(first_visible, head);
        let pair = match id.kind() {
            ConversationKind::Direct => Some(Arc::new(snapshot.members(id)?.0)),
            ConversationKind::Group => None,
        };
        Ok(Plan { request, first_visible, head, pair, in_tables, tail: Vec::new() })
    }

    pub fn needs_tables(&self) -> bool {
        !self.in_tables.is_empty()
    }

    /// The page, when memory alone has it.
    pub fn finish(self) -> Result<Page, StoreError> {
        self.finish_with(Vec::new())
    }

    /// The page, with what the tables have to add. They are read after the memory was, so whatever a checkpoint took
    /// out of memory in between is there.
    pub fn finish_from(self, tables: &Tables) -> Result<Page, StoreError> {
        let tables = tables.current()?;
        let snapshot = tables.snapshot()?;
        self.finish_in(&snapshot)
    }

    fn finish_in(self, snapshot: &Snapshot<'_>) -> Result<Page, StoreError> {
        let id = self.request.conversation;
        let mut messages = Vec::new();
        if self.needs_tables() {
            snapshot.records(id, self.in_tables.clone(), |seq, record| {
                messages.push(message(id, seq, record, self.pair.as_deref())?);
                Ok(())
            })?;
        }
        self.finish_with(messages)
    }

    fn finish_with(self, mut messages: Vec<Message>) -> Result<Page, StoreError> {
        let id = self.request.conversation;
        let first = (*self.in_tables.end()).max(self.in_tables.start().previous()).next();
        for (record, seq) in self.tail.iter().zip(first.get()..) {
            let decoded = message(id, Seq::new(seq), record, self.pair.as_deref());
            messages.push(decoded.map_err(|error| StoreError::Damaged(error.to_string()))?);
        }
        Page::new(&self.request, self.first_visible, self.head, messages)
            .map_err(|hole| StoreError::Damaged(format!("{id}: {hole}")))
    }
}

pub fn page_from_tables(tables: &Tables, request: PageRequest) -> Result<Page, StoreError> {
    let tables = tables.current()?;
    let snapshot = tables.snapshot()?;
    Plan::from_tables(&snapshot, request)?.finish_in(&snapshot)
}

fn message(
    conversation: ConversationId,
    seq: Seq,
    record: &[u8],
    pair: Option<&Members>,
) -> Result<Message, DecodeError> {
    let record = Record::decode(record)?;
    let sender = record.sender_id()?;
    let receiver = pair.and_then(|pair| pair.peer_of(&sender)).cloned();
    Ok(Message {
        conversation,
        seq,
        receiver,
        sender,
        timestamp: record.timestamp,
        received_at: record.received_at,
        content: record.shared_content(),
        message_id: record.message_id,
        content_type: record.content_type,
    })
}
