//! The inbox: rows from the server, and the rules by which frames update them between two requests.
//! It makes no requests.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bluetick_types::{ConversationId, ConversationKind, Seq, UserId};

use super::timeline::Timeline;
use crate::wire::bodies::{InboxEntry, LastMessage, Message, Notice, ReadState};
use crate::wire::frames::Status;

/// Number of arrived seqs remembered per row. If more messages arrive before an older answer does,
/// its unread count comes out too low.
const ARRIVALS: usize = 100;
/// Largest group whose row the client refreshes after a status frame. For larger groups the server
/// sends `receipts` frames. Must equal the server's `SMALL_GROUP`.
const SMALL_GROUP: usize = 16;
/// Maximum length of a preview, in characters. It bounds the size of a stored row.
const PREVIEW_CHARS: usize = 200;

/// An inbox row from the server, with what this device knows in addition.
#[derive(Clone, Debug)]
pub struct Row {
    pub entry: InboxEntry,
    /// Every message up to this seq is delivered; the device receives everything above it without a
    /// gap. A new row starts at the server's delivered seq, so older messages may not be on this
    /// device.
    pub have_seq: Seq,
    /// Seqs of unread messages that arrived after the server computed `unread`.
    arrived: VecDeque<Seq>,
    /// `last_seq` of the newest server answer. Answers may arrive out of order; an answer with a
    /// lower `last_seq` is stale.
    told_seq: Seq,
}

impl Row {
    /// Rebuilds a row from the storage.
    pub fn restored(entry: InboxEntry, have_seq: Seq) -> Row {
        Row { entry, have_seq, arrived: VecDeque::new(), told_seq: Seq::ZERO }
    }

    /// Whether the server has messages that this device has not received.
    pub fn is_behind(&self) -> bool {
        self.have_seq < self.entry.last_seq
    }
}

/// Whether a frame had enough information to update the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowUpdate {
    /// The row is up to date.
    Yes,
    /// The row has to be fetched.
    Ask,
}

/// The known rows of the inbox and the archive.
pub struct Inbox {
    user: UserId,
    rows: HashMap<ConversationId, Arc<Row>>,
}

impl Inbox {
    pub fn new(user: UserId) -> Inbox {
        Inbox { user, rows: HashMap::new() }
    }

    pub fn get(&self, id: ConversationId) -> Option<&Arc<Row>> {
        self.rows.get(&id)
    }

    pub fn get_mut(&mut self, id: ConversationId) -> Option<&mut Row> {
        self.rows.get_mut(&id).map(Arc::make_mut)
    }

    pub fn rows(&self) -> impl Iterator<Item = &Arc<Row>> {
        self.rows.values()
    }

    pub fn put(&mut self, row: Row) {
        self.rows.insert(row.entry.conversation_id, Arc::new(row));
    }

    pub fn remove(&mut self, id: ConversationId) -> bool {
        self.rows.remove(&id).is_some()
    }

    pub fn clear(&mut self) {
        self.rows.clear();
    }

    /// The rows in the server's order: newest activity first, and in the inbox pinned ones before
    /// others. The archive ignores pins.
    pub fn sorted(&self, archived: bool) -> Vec<Arc<Row>> {
        let mut rows: Vec<Arc<Row>> =
            self.rows.values().filter(|row| row.entry.archived == archived).cloned().collect();
        rows.sort_by(|one, other| {
            let (one, other) = (&one.entry, &other.entry);
            let pinned = if archived { std::cmp::Ordering::Equal } else { other.pinned.cmp(&one.pinned) };
            pinned
                .then(other.last_at.cmp(&one.last_at))
                .then_with(|| one.conversation_id.cmp(&other.conversation_id))
        });
        rows
    }

    /// The `most` rows with the newest activity, from inbox and archive, ignoring pins.
    pub fn latest(&self, most: usize) -> Vec<Arc<Row>> {
        let mut rows: Vec<Arc<Row>> = self.rows.values().cloned().collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.entry.last_at));
        rows.truncate(most);
        rows
    }

    /// Takes over a row from the server and merges it with newer local knowledge, because frames
    /// may have overtaken the answer. A stale answer only advances the read states.
    pub fn learn(&mut self, entry: InboxEntry, timeline: Option<&Timeline>) -> &mut Row {
        let told = entry.my_status;
        let (told_last_seq, told_unread, id) = (entry.last_seq, entry.unread, entry.conversation_id);
        let floor = entry.first_seq.previous();
        if self.get(id).is_some_and(|row| told_last_seq < row.told_seq) {
            let row = self.get_mut(id).expect("the lines above checked that the row exists");
            row.entry.my_status = row.entry.my_status.furthest(told);
            row.entry.peer_status = row.entry.peer_status.furthest(entry.peer_status);
            return row;
        }
        let before = self.rows.remove(&id);
        let known_have = before.as_ref().map_or(told.last_delivered_seq, |row| row.have_seq);
        let have_seq = known_have.max(floor);
        let mut row = Row { entry, have_seq, arrived: VecDeque::new(), told_seq: told_last_seq };
        if let Some(before) = before {
            let line = &mut row.entry;
            if before.entry.last_seq > told_last_seq {
                line.last_seq = before.entry.last_seq;
                line.last_at = before.entry.last_at;
                line.member_count = before.entry.member_count;
                line.last_message.clone_from(&before.entry.last_message);
            } else if line.last_message.is_none() {
                line.last_message.clone_from(&before.entry.last_message);
            }
            line.peer_presence = line.peer_presence.take().or_else(|| before.entry.peer_presence.clone());
            line.my_status = before.entry.my_status.furthest(told);
            line.peer_status = before.entry.peer_status.furthest(line.peer_status);
            let counted = told_last_seq.max(line.my_status.last_read_seq);
            row.arrived = before.arrived.iter().copied().filter(|seq| *seq > counted).collect();
        }
        let read = row.entry.my_status.last_read_seq;
        // The server does not know yet what was read here, so its count is too high.
        let counted = if read > told.last_read_seq {
            said_between(&self.user, timeline, read, told_last_seq).unwrap_or(told_unread)
        } else {
            told_unread
        };
        row.entry.unread = counted + row.arrived.len() as u64;
        self.rows.insert(id, Arc::new(row));
        self.get_mut(id).expect("the lines above inserted it")
    }

    /// Updates the row with a message above its last one. Returns the row, or `None` if the
    /// conversation has none.
    pub fn take_message(&mut self, message: &Message) -> Option<&mut Row> {
        let own = message.is_by(&self.user);
        let row = self.rows.get_mut(&message.conversation_id).map(Arc::make_mut)?;
        let line = &mut row.entry;
        if message.seq <= line.last_seq {
            return Some(row);
        }
        line.last_seq = message.seq;
        if message.is_void() {
            return Some(row);
        }
        line.last_at = line.last_at.max(message.received_at);
        line.last_message = Some(LastMessage {
            seq: message.seq,
            sender_id: message.sender_id.clone(),
            content: if message.is_said() {
                message.content.chars().take(PREVIEW_CHARS).collect()
            } else {
                message.content.clone()
            },
            content_type: message.content_type.clone(),
        });
        match message.notice() {
            Some(Notice::MemberAdded { .. }) => line.member_count += 1,
            Some(Notice::MemberRemoved { .. } | Notice::MemberLeft { .. }) => {
                line.member_count = line.member_count.saturating_sub(1);
            }
            Some(_) => {}
            None if own => {
                // Sending a message implies having read everything before it.
                line.my_status = line.my_status.furthest(ReadState::read_up_to(message.seq.previous()));
                line.unread = 0;
                row.arrived.clear();
            }
            // Another device may have read the message before it arrived here.
            None if message.is_said() && message.seq > line.my_status.last_read_seq => {
                line.unread += 1;
                row.arrived.push_back(message.seq);
                if row.arrived.len() > ARRIVALS {
                    row.arrived.pop_front();
                }
            }
            None => {}
        }
        Some(row)
    }

    /// Records that the user has read everything up to `seq` on this device. Returns `None` if that
    /// changes nothing.
    pub fn read_here(
        &mut self,
        id: ConversationId,
        seq: Seq,
        timeline: Option<&Timeline>,
    ) -> Option<RowUpdate> {
        let user = self.user.clone();
        let row = self.get_mut(id)?;
        let seq = seq.min(row.have_seq);
        if seq <= row.entry.my_status.last_read_seq {
            return None;
        }
        row.entry.my_status = row.entry.my_status.furthest(ReadState::read_up_to(seq));
        row.arrived.retain(|arrived| *arrived > seq);
        match said_between(&user, timeline, seq, row.entry.last_seq) {
            Some(unread) => {
                row.entry.unread = unread;
                Some(RowUpdate::Yes)
            }
            None => Some(RowUpdate::Ask),
        }
    }

    /// Applies a status frame. `waits` returns whether this device shows messages whose tick can
    /// still change.
    pub fn take_status(&mut self, status: &Status, waits: impl FnOnce(&Row) -> bool) -> RowUpdate {
        let own = status.user_id == self.user;
        let Some(row) = self.get_mut(status.conversation_id) else { return RowUpdate::Yes };
        let line = &mut row.entry;
        if own {
            let is_news = status.marks.last_read_seq > line.my_status.last_read_seq;
            let is_all = status.marks.last_read_seq >= line.last_seq;
            line.my_status = line.my_status.furthest(status.marks);
            if !is_news {
                return RowUpdate::Yes;
            }
            line.unread = if is_all { 0 } else { status.unread.unwrap_or(line.unread) };
            row.arrived.clear();
            return if is_all || status.unread.is_some() { RowUpdate::Yes } else { RowUpdate::Ask };
        }
        if line.kind() == ConversationKind::Group {
            // Only the server knows which member is furthest behind. Ask only if a tick can still
            // change.
            return if line.member_count <= SMALL_GROUP && waits(row) {
                RowUpdate::Ask
            } else {
                RowUpdate::Yes
            };
        }
        line.peer_status = line.peer_status.furthest(status.marks);
        RowUpdate::Yes
    }

    /// Applies a `receipts` frame: the combined read state of all other members.
    pub fn take_receipts(&mut self, id: ConversationId, marks: ReadState) {
        if let Some(row) = self.get_mut(id) {
            row.entry.peer_status = row.entry.peer_status.furthest(marks);
        }
    }

    /// Sum of the unread counts of the rows that are neither muted nor archived.
    pub fn unread_total(&self) -> u64 {
        self.rows
            .values()
            .filter(|row| !row.entry.muted && !row.entry.archived)
            .map(|row| row.entry.unread)
            .sum()
    }
}

/// Counts the messages of other users in (after, up_to]. `None` unless all of that range is loaded.
fn said_between(user: &UserId, timeline: Option<&Timeline>, after: Seq, up_to: Seq) -> Option<u64> {
    if after >= up_to {
        return Some(0);
    }
    let said = timeline?.between(after, up_to)?;
    Some(said.filter(|message| message.is_said() && message.sender_id != *user).count() as u64)
}

#[cfg(test)]
#[path = "inbox_tests.rs"]
mod tests;
