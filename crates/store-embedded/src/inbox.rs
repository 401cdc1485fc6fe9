//! Reads a user's inbox: the order from memory and tables together, then each entry.

use std::sync::Arc;

use bluetick_core::inbox::{InboxKey, InboxSection};
use bluetick_core::{
    Conversation, ConversationId, ConversationKind, InboxEntry, InboxFilter, InboxPage, InboxRequest,
    LastMessage, MemberState, ReadState, Refusal, Seq, StoreError, UserId,
};
use bytes::Bytes;

use crate::codec::record::{self, Record};
use crate::codec::rows;
use crate::load::ConversationLoader;
use crate::memory::{ConversationState, NoticesAbove, Recent, ResidentConversations};
use crate::recovery::load;
use crate::tables::{Snapshot, Tables, TablesError};

#[derive(Clone)]
pub struct InboxReader {
    pub tables: Arc<Tables>,
    pub residents: Arc<ResidentConversations>,
    pub recent: Arc<Recent>,
    pub loader: Arc<ConversationLoader>,
}

impl InboxReader {
    /// Returns one page of the inbox. Reads the disk.
    pub fn page(&self, request: &InboxRequest) -> Result<InboxPage, StoreError> {
        let (mut positions, more) = self.positions(request)?;
        let mut entries = Vec::with_capacity(positions.len());
        for position in &positions {
            match self.entry(position.id, &request.user) {
                Ok(entry) if entry.is_listed_for(&request.user) => entries.push(entry),
                // Tables of earlier versions list conversations without messages.
                Ok(_) => {}
                // The user left after the order was read.
                Err(StoreError::Refused(Refusal::NotAMember)) => {}
                Err(error) => return Err(error),
            }
        }
        let next = positions.pop().filter(|_| more);
        Ok(InboxPage { entries, next })
    }

    /// Returns the positions on the page and whether more follow.
    ///
    /// Positions in memory take precedence over those in the tables. The tables are read second, so
    /// a conversation that a checkpoint moved in between is found at least once. A position in the
    /// tables is skipped if memory already supplied the conversation.
    fn positions(&self, request: &InboxRequest) -> Result<(Vec<InboxKey>, bool), StoreError> {
        let InboxRequest { user, after, filter, limit } = request;
        let limit = limit.count();
        let wanted =
            |position: &InboxKey| filter.takes(position.shelf) && after.is_none_or(|after| *position > after);
        let (mut positions, large) = self.recent.first_positions(user, *after, *filter, limit);
        let in_large = large.iter().filter_map(|(id, resident)| resident.state().inbox_position(*id, user));
        positions.extend(in_large.filter(wanted));
        positions.sort_unstable();
        positions.truncate(limit + 1);
        // No position after this one is on the page, whatever the tables contain.
        let mut last = positions.get(limit).copied();
        let tables = self.tables.current()?;
        tables.snapshot()?.order(user, start(request).as_ref(), |position| {
            // Archived conversations sort last, so no wanted position follows an unwanted one.
            if !wanted(&position) || last.is_some_and(|last| position > last) {
                return false;
            }
            let taken_over = positions.iter().any(|known| known.id == position.id);
            if !taken_over && !large.contains_key(&position.id) && !self.recent.has_sorted(user, position.id)
            {
                let at = positions.partition_point(|before| *before < position);
                positions.insert(at, position);
                positions.truncate(limit + 1);
                last = positions.get(limit).copied();
            }
            true
        })?;
        let more = positions.len() > limit;
        positions.truncate(limit);
        Ok((positions, more))
    }

    /// Returns whether the user is a member of any conversation, listed in its inbox or not. Checks
    /// memory first, because a checkpoint moves conversations from memory to the tables. Reads the
    /// disk.
    pub fn is_member(&self, user: &UserId) -> Result<bool, StoreError> {
        let in_memory =
            self.recent.residents_of(user).iter().any(|resident| resident.state().member(user).is_some());
        Ok(in_memory || self.tables.current()?.snapshot()?.is_member(user)?)
    }

    /// Returns the inbox entry of one conversation, or `NotAMember`. Reads the disk.
    pub fn entry(&self, id: ConversationId, user: &UserId) -> Result<InboxEntry, StoreError> {
        let outline = match self.residents.get(id) {
            Some(resident) => EntryParts::of(&mut resident.state(), id, user),
            // Counting a group's read states from scratch is slow, so make the group resident.
            None if id.kind() == ConversationKind::Group => {
                EntryParts::of(&mut self.loader.existing(id)?.state(), id, user)
            }
            None => load(&self.tables, id)?.and_then(|mut state| EntryParts::of(&mut state, id, user)),
        };
        let outline = outline.ok_or(Refusal::NotAMember)?;
        let tables = self.tables.current()?;
        Ok(outline.finish(&tables.snapshot()?, user)?)
    }
}

/// Returns where to start in the order of the tables: after the cursor, or at the first shelf that
/// the filter accepts.
fn start(request: &InboxRequest) -> Option<InboxKey> {
    match request.filter {
        InboxFilter::Archived => request.after.max(Some(InboxKey::end_of(InboxSection::Ordinary))),
        InboxFilter::All | InboxFilter::NotArchived => request.after,
    }
}

/// The part of an inbox entry that memory supplies. The tables may have to add the newest message
/// and the number of unread notices.
struct EntryParts {
    conversation: Conversation,
    peer: Option<UserId>,
    member_count: usize,
    joined: Seq,
    member_state: MemberState,
    others: ReadState,
    notices: NoticesAbove,
    newest: Option<Bytes>,
}

impl EntryParts {
    /// Returns `None` if the user is not a member.
    fn of(state: &mut ConversationState, id: ConversationId, user: &UserId) -> Option<EntryParts> {
        let at = state.members.position(user.as_str())?;
        let conversation = state.conversation.clone()?;
        let joined = state.members.at(at).joined_seq;
        let member_state = *state.member_states.member_state(at);
        let direct = id.kind() == ConversationKind::Direct;
        Some(EntryParts {
            peer: direct.then(|| state.members.peer_of(user).cloned()).flatten(),
            member_count: state.members.len(),
            joined,
            member_state,
            others: state.member_states.lowest_besides(&state.members, at, conversation.head),
            notices: state.notices_above(id, member_state.read_since(joined)),
            newest: state.tail_record(conversation.head).cloned(),
            conversation,
        })
    }

    fn finish(self, snapshot: &Snapshot<'_>, user: &UserId) -> Result<InboxEntry, TablesError> {
        let (id, head) = (self.conversation.id, self.conversation.head);
        let notices = match self.notices {
            NoticesAbove::Known(notices) => notices,
            NoticesAbove::UpTo(total) => {
                total - snapshot.notices_through(id, self.member_state.read_since(self.joined))?
            }
        };
        let in_inbox = |error| TablesError::Damaged { table: "inbox", error };
        let newest = match &self.newest {
            Some(newest) => Some(newest.to_vec()),
            None if head == Seq::ZERO => None,
            None => {
                // The inbox row may be outdated or damaged; the message itself is authoritative.
                let row = snapshot.inbox_row(user, id)?;
                let line = row.as_deref().and_then(|row| rows::read_inbox(row).ok());
                match line.filter(|line| line.last_seq == head && !line.record.is_empty()) {
                    Some(line) => Some(line.record.to_vec()),
                    None => snapshot.record(id, head)?,
                }
            }
        };
        let last_message = newest.map(|newest| last_message(head, &newest)).transpose().map_err(in_inbox)?;
        Ok(InboxEntry {
            unread: self.member_state.unread(self.joined, head, notices),
            own: self.member_state.own(),
            preferences: self.member_state.preferences,
            conversation: self.conversation,
            peer: self.peer,
            member_count: self.member_count,
            last_message,
            others: self.others,
            joined: self.joined,
        })
    }
}

fn last_message(seq: Seq, newest: &[u8]) -> Result<LastMessage, crate::codec::DecodeError> {
    let cut = record::cut(newest)?;
    let record = Record::decode(&cut)?;
    Ok(LastMessage {
        seq,
        sender: record.sender_id()?,
        preview: record.shared_content(),
        timestamp: record.timestamp,
        received_at: record.received_at,
        message_id: record.message_id,
        content_type: record.content_type,
    })
}
