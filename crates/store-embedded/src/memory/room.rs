//! A conversation that is awake: the end of it that the tables do not have yet, and what writing to it needs.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use bluetick_core::inbox::{InboxPlace, Shelf};
use bluetick_core::members::MembershipChange;
use bluetick_core::{
    Conversation, ConversationId, ConversationKind, ConversationView, Member, Members, Seq, Standing,
    Timestamp, UserId,
};
use bytes::Bytes;

use super::{IdTable, Noted, Seats, Stale};
use crate::codec::chunk::Fingerprint;
use crate::codec::rows::StoredConversation;

/// Laid out as it is written: what is looked at without the lock lies side by side, in front of the rest.
#[repr(C)]
pub struct Room {
    last_used: AtomicU64,
    /// Whether its ids are loaded, for those who look before they write: it never goes back.
    writable: AtomicBool,
    pub id: ConversationId,
    state: Mutex<RoomState>,
}

/// A durable message that the tables may not have yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TailMessage {
    pub record: Bytes,
    pub fingerprint: Fingerprint,
}

/// In its place, with what counting needs.
#[derive(Debug)]
struct Placed {
    record: Bytes,
    fingerprint: Fingerprint,
    /// The low half of how many notices there are up to here. Differences are what is asked for.
    notices_low: u32,
}

/// Invariants: `tail` holds the durable messages `tail_first..=head`, everything below is in the tables;
/// `reserved >= head`, and they are equal whenever no batch is being written; there is a seat for each member.
///
/// Laid out as it is written, in the order a message needs it: a store has far more rooms than fit into a processor's
/// cache, so that a send costs about as much as the number of lines it touches.
#[derive(Debug)]
#[repr(C)]
pub struct RoomState {
    /// The newest place that was given out, durable or not. Only the committer looks at it.
    pub reserved: Seq,
    pub members: Arc<Members>,
    /// `None` until somebody writes here; then every id of the dedupe window and of the tail.
    pub ids: Option<IdTable>,
    tail: VecDeque<Placed>,
    tail_first: Seq,
    /// No message here was received later.
    pub newest_at: Timestamp,
    /// How many of the messages up to the head are notices.
    notices: u64,
    changes: u64,
    /// The generation that has this room on its list.
    pub listed_in: u64,
    /// Where each member stands.
    pub seats: Seats,
    /// `None` while the conversation does not exist.
    pub conversation: Option<Conversation>,
    /// Whose inbox and pending rows are out of date.
    pub stale: Stale,
    /// Who knows that it has changed.
    pub noted: Noted,
    /// Former members whose rows in the tables have to go, and by which change.
    departed: HashMap<UserId, u64>,
}

/// What a checkpoint read from a room, and forgets there once it is in the tables.
pub struct Written {
    pub through: Seq,
    /// Members whose rows are out of date, and by which change.
    pub seats: Vec<(UserId, u64)>,
    pub departed: HashMap<UserId, u64>,
}

/// How many notices lie above a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticesAbove {
    Known(u64),
    /// As many as are missing from here to this total; the tables know how many there are up to the place.
    UpTo(u64),
}

impl Room {
    pub fn new(id: ConversationId, state: RoomState) -> Room {
        let writable = AtomicBool::new(state.ids.is_some());
        Room { last_used: AtomicU64::new(0), writable, id, state: Mutex::new(state) }
    }

    pub fn state(&self) -> MutexGuard<'_, RoomState> {
        self.state.lock().expect("nobody panics while holding a room")
    }

    pub fn is_writable(&self) -> bool {
        self.writable.load(Ordering::Acquire)
    }

    /// Takes over the ids it has seen, unless somebody was quicker and may have written since.
    pub fn make_writable(&self, ids: IdTable) {
        self.state().ids.get_or_insert(ids);
        self.writable.store(true, Ordering::Release);
    }

    pub fn touch(&self, tick: u64) {
        self.last_used.store(tick, Ordering::Relaxed);
    }

    pub fn last_used(&self) -> u64 {
        self.last_used.load(Ordering::Relaxed)
    }
}

impl RoomState {
    /// A room for a conversation that does not exist yet.
    pub fn absent() -> RoomState {
        RoomState {
            conversation: None,
            members: Arc::default(),
            seats: Seats::default(),
            newest_at: Timestamp::from_millis(i64::MIN),
            reserved: Seq::ZERO,
            tail: VecDeque::new(),
            tail_first: Seq::FIRST,
            notices: 0,
            ids: Some(IdTable::default()),
            departed: HashMap::new(),
            changes: 0,
            stale: Stale::Nobody,
            noted: Noted::default(),
            listed_in: 0,
        }
    }

    /// A room for what the tables know.
    pub fn stored(stored: StoredConversation, members: Arc<Members>, standings: Vec<Standing>) -> RoomState {
        let StoredConversation { conversation, newest_at, notices } = stored;
        RoomState {
            newest_at,
            reserved: conversation.head,
            tail_first: conversation.head.next(),
            conversation: Some(conversation),
            seats: Seats::of(&members, standings),
            members,
            notices,
            ids: None,
            ..RoomState::absent()
        }
    }

    pub fn head(&self) -> Seq {
        self.conversation.as_ref().map_or(Seq::ZERO, |conversation| conversation.head)
    }

    pub fn view(&self) -> Option<ConversationView> {
        let conversation = self.conversation.clone()?;
        Some(ConversationView { conversation, members: Arc::clone(&self.members) })
    }

    /// What the row of the conversation says.
    pub fn to_store(&self) -> Option<StoredConversation> {
        let conversation = self.conversation.clone()?;
        Some(StoredConversation { conversation, newest_at: self.newest_at, notices: self.notices })
    }

    /// The conversation begins. Its notice, if any, is a message of its own and comes next.
    pub fn found(&mut self, conversation: Conversation, members: Arc<Members>) {
        assert!(self.conversation.is_none(), "a conversation begins once");
        self.conversation = Some(Conversation { head: Seq::ZERO, ..conversation });
        self.changes += 1;
        self.seats = Seats::new(members.len(), self.changes);
        self.members = members;
        self.stale = Stale::Everybody;
    }

    pub fn change_membership(&mut self, change: &MembershipChange) {
        self.changes += 1;
        self.noted.members_changed();
        self.stale = Stale::Everybody;
        match change {
            MembershipChange::Joined(member) => {
                assert!(!self.members.contains(&member.user), "nobody joins twice");
                change.apply(&mut self.members);
                let at = self.members.position(member.user.as_str()).expect("it was just added");
                self.seats.insert(at, self.changes);
                self.departed.remove(&member.user);
            }
            MembershipChange::Left { user, new_admin } => {
                if let Some(at) = self.members.position(user.as_str()) {
                    self.seats.remove(at);
                }
                change.apply(&mut self.members);
                self.departed.insert(user.clone(), self.changes);
                if let Some(at) = new_admin.as_ref().and_then(|heir| self.members.position(heir.as_str())) {
                    self.seats.touch(at, self.changes);
                }
            }
        }
    }

    /// A message is durable.
    pub fn push(&mut self, seq: Seq, message: TailMessage, received_at: Timestamp) {
        let conversation = self.conversation.as_mut().expect("only a conversation that exists gets messages");
        assert_eq!(seq, conversation.head.next(), "places are dense");
        conversation.head = seq;
        conversation.last_at = conversation.last_at.max(received_at);
        self.newest_at = self.newest_at.max(received_at);
        self.reserved = self.reserved.max(seq);
        let TailMessage { record, fingerprint } = message;
        self.notices += u64::from(fingerprint == Fingerprint::NONE);
        self.tail.push_back(Placed { record, fingerprint, notices_low: self.notices as u32 });
        self.stale = Stale::Everybody;
    }

    pub fn member(&self, user: &UserId) -> Option<(&Member, &Standing)> {
        let at = self.members.position(user.as_str())?;
        Some((self.members.at(at), self.seats.standing(at)))
    }

    /// Whether the member's inbox lists it.
    pub fn is_listed_for(&self, user: &UserId) -> bool {
        let listed =
            |conversation: &Conversation| conversation.is_listed_for(user, conversation.head > Seq::ZERO);
        self.conversation.as_ref().is_some_and(listed)
    }

    /// Where it is in the member's inbox; `None` where the inbox does not list it.
    pub fn place(&self, id: ConversationId, user: &UserId) -> Option<InboxPlace> {
        let (_, standing) = self.member(user)?;
        let last_at = self.conversation.as_ref().filter(|_| self.is_listed_for(user))?.last_at;
        Some(InboxPlace { shelf: Shelf::of(standing.preferences), last_at, id })
    }

    /// Lets a member's standing move. Returns where it was when it did.
    pub fn stand(&mut self, user: &str, change: impl FnOnce(&mut Standing)) -> Option<Standing> {
        self.stand_at(self.members.position(user)?, change)
    }

    /// The same for the member at this place of the list.
    pub fn stand_at(&mut self, at: usize, change: impl FnOnce(&mut Standing)) -> Option<Standing> {
        let member = self.members.at(at);
        let before = *self.seats.standing(at);
        let mut after = before;
        change(&mut after);
        if after == before {
            return None;
        }
        self.changes += 1;
        self.seats.set(at, member.joined_seq, after, self.changes);
        self.stale.add(&member.user);
        Some(before)
    }

    /// How many notices lie above `from`, up to the head.
    pub fn notices_above(&self, id: ConversationId, from: Seq) -> NoticesAbove {
        if id.kind() == ConversationKind::Direct || from >= self.head() {
            return NoticesAbove::Known(0);
        }
        match self.placed(from) {
            Some(placed) => {
                NoticesAbove::Known((self.notices as u32).wrapping_sub(placed.notices_low).into())
            }
            None if from.next() == self.tail_first => {
                NoticesAbove::Known(self.notices - self.notices_before_tail())
            }
            None if from == Seq::ZERO => NoticesAbove::Known(self.notices),
            None => NoticesAbove::UpTo(self.notices),
        }
    }

    /// How many notices there are below the tail.
    pub fn notices_before_tail(&self) -> u64 {
        let Some(first) = self.tail.front() else { return self.notices };
        let from_first = (self.notices as u32).wrapping_sub(first.notices_low);
        self.notices - u64::from(from_first) - u64::from(first.fingerprint == Fingerprint::NONE)
    }

    fn placed(&self, seq: Seq) -> Option<&Placed> {
        let index = seq.get().checked_sub(self.tail_first.get())?;
        self.tail.get(usize::try_from(index).ok()?)
    }

    /// The durable record at `seq`, if it is not in the tables alone.
    pub fn tail_record(&self, seq: Seq) -> Option<&Bytes> {
        self.placed(seq).map(|placed| &placed.record)
    }

    pub fn tail_first(&self) -> Seq {
        self.tail_first
    }

    pub fn tail(&self) -> impl ExactSizeIterator<Item = TailMessage> {
        let copy =
            |placed: &Placed| TailMessage { record: placed.record.clone(), fingerprint: placed.fingerprint };
        self.tail.iter().map(copy)
    }

    /// Seqs above `after` in the tail with this fingerprint.
    pub fn tail_places(&self, fingerprint: Fingerprint, after: Seq) -> impl Iterator<Item = Seq> {
        let places = self.tail.iter().zip((self.tail_first.get()..).map(Seq::new));
        places
            .filter(move |(placed, seq)| placed.fingerprint == fingerprint && *seq > after)
            .map(|(_, seq)| seq)
    }

    /// What a checkpoint takes down now.
    pub fn to_write(&self) -> Written {
        Written {
            through: self.head(),
            seats: self.seats.changed(&self.members),
            departed: self.departed.clone(),
        }
    }

    /// How much memory it takes, in ordinary conversations of two.
    pub fn weight(&self) -> usize {
        1 + self.members.len() / 8 + self.ids.as_ref().map_or(0, IdTable::len) / 256
    }

    /// Whether the tables know all of it.
    pub fn is_clean(&self) -> bool {
        let rows = self.seats.are_clean() && self.departed.is_empty() && self.stale == Stale::Nobody;
        rows && self.tail.is_empty() && self.reserved == self.head()
    }

    /// Forgets what is in the tables now. What changed since it was read stays.
    pub fn forget(&mut self, written: &Written) {
        while self.tail_first <= written.through && self.tail.pop_front().is_some() {
            self.tail_first = self.tail_first.next();
        }
        for (user, change) in &written.seats {
            if let Some(at) = self.members.position(user.as_str()) {
                self.seats.written(at, *change);
            }
        }
        self.departed.retain(|user, change| written.departed.get(user) != Some(change));
        if self.tail.is_empty() {
            self.tail.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use bluetick_core::{MarkKind, Role};

    use super::*;

    fn user(name: &str) -> UserId {
        name.parse().unwrap()
    }

    fn message(number: u8) -> TailMessage {
        TailMessage { record: Bytes::copy_from_slice(&[number]), fingerprint: Fingerprint::NONE }
    }

    fn room() -> RoomState {
        let mut room = RoomState::absent();
        let conversation = Conversation {
            id: ConversationId::group([1; 15]),
            title: None,
            created_by: user("alice"),
            created_at: Timestamp::from_millis(1),
            head: Seq::ZERO,
            last_at: Timestamp::from_millis(1),
        };
        room.found(conversation, Arc::new(Members::founding(&user("alice"), &[user("bob")])));
        for seq in 1..=3u8 {
            room.push(Seq::new(seq.into()), message(seq), Timestamp::from_millis(seq.into()));
        }
        room
    }

    #[test]
    fn what_a_checkpoint_wrote_is_forgotten_and_what_came_meanwhile_stays() {
        let mut room = room();
        let written = room.to_write();
        room.push(Seq::new(4), message(4), Timestamp::from_millis(4));
        room.stand("bob", |standing| standing.mark(MarkKind::Read, Seq::new(2), Seq::new(4)));
        let carol = Member { user: user("carol"), role: Role::Member, joined_seq: Seq::new(4) };
        room.change_membership(&MembershipChange::Joined(carol));
        room.change_membership(&MembershipChange::Left { user: user("alice"), new_admin: None });
        room.forget(&written);
        assert_eq!(room.tail_first(), Seq::new(4));
        assert_eq!(room.tail_record(Seq::new(3)), None);
        assert_eq!(room.tail_record(Seq::new(4)).unwrap()[..], [4]);
        let left = room.to_write();
        let seats: Vec<_> = left.seats.iter().map(|(user, _)| user.as_str()).collect();
        assert_eq!((seats, left.departed.len()), (vec!["bob", "carol"], 1));
        assert!(!room.is_clean());
    }

    #[test]
    fn a_room_that_is_written_wholly_is_clean() {
        let mut room = room();
        let written = room.to_write();
        room.forget(&written);
        assert!(!room.is_clean(), "the rows by user are written later");
        room.stale = Stale::Nobody;
        assert!(room.is_clean());
        assert_eq!(room.head(), Seq::new(3));
    }

    #[test]
    fn notices_are_counted_wherever_the_tail_begins() {
        let mut room = room();
        let id = ConversationId::group([1; 15]);
        let text = TailMessage { fingerprint: Fingerprint(7), ..message(4) };
        room.push(Seq::new(4), text, Timestamp::from_millis(4));
        room.push(Seq::new(5), message(5), Timestamp::from_millis(5));
        let above = |room: &RoomState| [0, 1, 2, 3, 4, 5].map(|seq| room.notices_above(id, Seq::new(seq)));
        assert_eq!(above(&room), [4, 3, 2, 1, 1, 0].map(NoticesAbove::Known));
        room.forget(&Written { through: Seq::new(3), seats: Vec::new(), departed: HashMap::new() });
        assert_eq!(room.notices_before_tail(), 3);
        let known = NoticesAbove::Known;
        let from_tables = NoticesAbove::UpTo(4);
        assert_eq!(above(&room), [known(4), from_tables, from_tables, known(1), known(1), known(0)]);
    }

    #[test]
    #[should_panic(expected = "places are dense")]
    fn a_hole_is_a_bug_and_not_a_message() {
        room().push(Seq::new(5), message(5), Timestamp::from_millis(5));
    }
}
