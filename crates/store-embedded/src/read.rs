//! Reads a page: the tail of the conversation from memory, the rest from the tables. A
//! [`PartialPage`] names the messages whose content is in the archive; [`crate::archive`] fills
//! them in.

use std::ops::RangeInclusive;
use std::sync::Arc;

use bluetick_core::{
    Cause, ConversationId, ConversationKind, Members, Message, Page, PageFrom, PageRequest, Refusal, Seq,
    StoreError,
};
use bytes::Bytes;

use crate::codec::DecodeError;
use crate::codec::record::Record;
use crate::memory::{PageCache, ResidentConversation};
use crate::tables::{ColdRecord, Edition, Snapshot, Tables, TablesError};

/// The part of a page that memory supplies.
pub struct PagePlan {
    request: PageRequest,
    first_visible: Seq,
    head: Seq,
    /// Both members of a direct conversation; `None` for groups.
    pair: Option<Arc<Members>>,
    /// The seqs of the page that only the tables contain.
    in_tables: RangeInclusive<Seq>,
    /// Whether `in_tables` reaches up to the newest message in the tables.
    is_newest: bool,
    /// The records of the remaining messages, oldest first.
    tail: Vec<Bytes>,
}

impl PagePlan {
    /// Plans a page of a resident conversation. Refuses a reader who is not a member.
    pub fn from_resident(
        resident: &ResidentConversation,
        request: PageRequest,
    ) -> Result<PagePlan, StoreError> {
        let state = resident.state();
        let member = state.members.get(&request.reader).ok_or(Refusal::NotAMember)?;
        let (first_visible, head) = (member.joined_seq, state.head());
        let window = request.window(first_visible, head);
        let in_tables = *window.start()..=(*window.end()).min(state.tail_first().previous());
        let is_newest = *window.end() >= state.tail_first().previous();
        let first_in_tail = (*window.start()).max(state.tail_first());
        let tail = (first_in_tail.get()..=window.end().get())
            .filter_map(|seq| state.tail_record(Seq::new(seq)).cloned())
            .collect();
        let pair = (resident.id.kind() == ConversationKind::Direct).then(|| Arc::clone(&state.members));
        Ok(PagePlan { request, first_visible, head, pair, in_tables, is_newest, tail })
    }

    /// Plans a page of an evicted conversation, which is completely in the tables. Refuses a reader
    /// who is not a member.
    fn from_tables(snapshot: &Snapshot<'_>, request: PageRequest) -> Result<PagePlan, StoreError> {
        let id = request.conversation;
        let (member, _) = snapshot.member(id, &request.reader)?.ok_or(Refusal::NotAMember)?;
        let head = snapshot.conversation(id)?.ok_or(TablesError::Orphaned { id })?.conversation.head;
        PagePlan::in_tables(snapshot, request, member.joined_seq, head)
    }

    fn in_tables(
        snapshot: &Snapshot<'_>,
        request: PageRequest,
        first_visible: Seq,
        head: Seq,
    ) -> Result<PagePlan, StoreError> {
        let id = request.conversation;
        let in_tables = request.window(first_visible, head);
        let pair = match id.kind() {
            ConversationKind::Direct => Some(Arc::new(snapshot.members(id)?.0)),
            ConversationKind::Group => None,
        };
        Ok(PagePlan { request, first_visible, head, pair, in_tables, is_newest: false, tail: Vec::new() })
    }

    pub fn needs_tables(&self) -> bool {
        !self.in_tables.is_empty()
    }

    /// Returns the page's messages from the tables, if the page cache has all of them.
    pub fn read_before(&self, pages: &PageCache, edition: Edition) -> Option<Vec<Message>> {
        pages.get(self.request.conversation, &self.in_tables, edition)
    }

    /// Returns the page if no more reads are needed. `messages` is the part from the tables.
    pub fn finish(self, messages: Vec<Message>) -> Result<Page, StoreError> {
        self.finish_with(messages, Vec::new())?.finish()
    }

    /// Reads the rest of the page from the tables and returns the draft. Memory was read first, so
    /// the tables contain whatever a checkpoint removed from memory in between. Caches the newest
    /// messages.
    pub fn finish_from(self, tables: &Tables, pages: &PageCache) -> Result<PartialPage, StoreError> {
        let edition = tables.edition();
        let tables = tables.current()?;
        let (messages, cold) = self.read(&tables.snapshot()?)?;
        if self.is_newest && cold.is_empty() {
            pages.put(self.request.conversation, edition, &messages);
        }
        self.finish_with(messages, cold)
    }

    fn finish_in(self, snapshot: &Snapshot<'_>) -> Result<PartialPage, StoreError> {
        let (messages, cold) = self.read(snapshot)?;
        self.finish_with(messages, cold)
    }

    fn read(&self, snapshot: &Snapshot<'_>) -> Result<StoredPage, StoreError> {
        let id = self.request.conversation;
        let (mut messages, mut cold) = (Vec::with_capacity(self.request.limit.count()), Vec::new());
        if self.needs_tables() {
            snapshot.records(id, self.in_tables.clone(), |seq, stored| {
                cold.extend(stored.cold.map(|cold_record| (messages.len(), cold_record)));
                messages.push(message(id, seq, stored.record, self.pair.as_deref())?);
                Ok(())
            })?;
        }
        Ok((messages, cold))
    }

    fn finish_with(
        self,
        mut messages: Vec<Message>,
        cold: Vec<(usize, ColdRecord)>,
    ) -> Result<PartialPage, StoreError> {
        let id = self.request.conversation;
        let first = (*self.in_tables.end()).max(self.in_tables.start().previous()).next();
        for (record, seq) in self.tail.iter().zip(first.get()..) {
            let decoded = message(id, Seq::new(seq), record, self.pair.as_deref());
            messages.push(decoded.map_err(|error| StoreError::Damaged(Cause::of(error)))?);
        }
        let PagePlan { request, first_visible, head, .. } = self;
        Ok(PartialPage { request, first_visible, head, messages, cold })
    }
}

/// Messages, oldest first; and the index and archive location of those whose content is archived.
type StoredPage = (Vec<Message>, Vec<(usize, ColdRecord)>);

/// A page in which some messages may still lack their content.
pub struct PartialPage {
    request: PageRequest,
    first_visible: Seq,
    head: Seq,
    /// Oldest first.
    pub messages: Vec<Message>,
    /// The indexes of the messages without content, and where the archive has it.
    pub cold: Vec<(usize, ColdRecord)>,
}

impl PartialPage {
    /// Returns the page. All content must be filled in. Fails if the seqs are not contiguous.
    pub fn finish(self) -> Result<Page, StoreError> {
        let id = self.request.conversation;
        Page::new(&self.request, self.first_visible, self.head, self.messages)
            .map_err(|gap| StoreError::Damaged(format!("{id}: {gap}").into()))
    }

    /// Cuts the page before the first unavailable message, in the reader's direction. Returns
    /// `None` if no message remains.
    pub fn cut(mut self, unavailable: impl Fn(usize) -> bool) -> Option<PartialPage> {
        let upward = matches!(self.request.from, PageFrom::After(_));
        let count = self.messages.len();
        let had = match upward {
            true => (0..count).take_while(|index| !unavailable(*index)).count(),
            false => (0..count).rev().take_while(|index| !unavailable(*index)).count(),
        };
        self.request.limit = i64::try_from(had).ok().and_then(|had| had.try_into().ok())?;
        match upward {
            true => self.messages.truncate(had),
            false => drop(self.messages.drain(..count - had)),
        }
        self.cold.clear();
        Some(self)
    }
}

pub fn page_from_tables(tables: &Tables, request: PageRequest) -> Result<PartialPage, StoreError> {
    let tables = tables.current()?;
    let snapshot = tables.snapshot()?;
    PagePlan::from_tables(&snapshot, request)?.finish_in(&snapshot)
}

/// Like [`page_from_tables`] without a reader: returns all messages, regardless of membership. For
/// a copy of the whole store.
pub fn page_of_all(tables: &Tables, request: PageRequest) -> Result<PartialPage, StoreError> {
    let tables = tables.current()?;
    let snapshot = tables.snapshot()?;
    let id = request.conversation;
    let head = snapshot.conversation(id)?.ok_or(TablesError::Orphaned { id })?.conversation.head;
    PagePlan::in_tables(&snapshot, request, Seq::FIRST, head)?.finish_in(&snapshot)
}

fn message(
    conversation: ConversationId,
    seq: Seq,
    record: &[u8],
    pair: Option<&Members>,
) -> Result<Message, DecodeError> {
    let record = Record::decode(record)?;
    // Reuse the user ids of the pair instead of parsing one per message.
    let known = pair.and_then(|pair| Some(pair.at(pair.position(record.sender)?).user.clone()));
    let sender = known.map_or_else(|| record.sender_id(), Ok)?;
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
