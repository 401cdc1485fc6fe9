//! A resident conversation: the messages that the tables do not contain yet, and the state that
//! writes need.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bluetick_core::inbox::{InboxKey, InboxSection};
use bluetick_core::members::MembershipChange;
use bluetick_core::{
    Conversation, ConversationId, ConversationKind, ConversationWithMembers, Member, MemberState, Members,
    Seq, Timestamp, UserId,
};
use bytes::Bytes;

use super::{IdTable, MemberStates, RecentListing, StaleMembers};
use crate::codec::chunk::Fingerprint;
use crate::codec::rows::StoredConversation;
use crate::sync::{PanicMutex, PanicMutexGuard};

/// A resident conversation. `repr(C)` keeps the fields that are read without the lock together, in
/// front of the rest.
#[repr(C)]
pub struct ResidentConversation {
    last_used: AtomicU64,
    /// Whether the message ids are loaded, readable without the lock. Never reset.
    writable: AtomicBool,
    pub id: ConversationId,
    state: PanicMutex<ConversationState>,
}

/// A durable message that the tables may not contain yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TailMessage {
    pub record: Bytes,
    pub fingerprint: Fingerprint,
}

/// A message in the tail, with the count that unread numbers need.
#[derive(Debug)]
struct TailEntry {
    record: Bytes,
    fingerprint: Fingerprint,
    /// The low 32 bits of the number of notices up to this message. Only differences are used.
    notices_low: u32,
}

/// The conversation state.
///
/// Invariants:
///
/// - `tail` holds the durable messages `tail_first..=head`. Everything below is in the tables.
/// - `reserved >= head`, and they are equal whenever no batch is being written.
/// - `member_states` has one entry per member.
///
/// `repr(C)` keeps the fields in the order in which a message needs them. A store has far more
/// conversations than fit into the processor's cache. So a send costs roughly as much as the cache
/// lines it touches.
#[derive(Debug)]
#[repr(C)]
pub struct ConversationState {
    /// The newest allocated seq, durable or not. Only the committer allocates; eviction also reads
    /// it.
    pub reserved: Seq,
    pub members: Arc<Members>,
    /// The ids of the dedupe window and of the tail. `None` until the first write loads them.
    pub ids: Option<IdTable>,
    tail: VecDeque<TailEntry>,
    tail_first: Seq,
    /// The highest `received_at` of all messages.
    pub newest_at: Timestamp,
    /// The number of notices up to the head.
    notices: u64,
    changes: u64,
    /// The generation whose work list contains this conversation.
    pub listed_in: u64,
    /// The read state of each member.
    pub member_states: MemberStates,
    /// `None` if the conversation does not exist.
    pub conversation: Option<Conversation>,
    /// The members whose inbox and pending rows in the tables are out of date.
    pub stale: StaleMembers,
    /// The users whose inbox cache lists this conversation as changed.
    pub recent_listing: RecentListing,
    /// Former members whose rows in the tables must be deleted, with the change that removed them.
    departed: HashMap<UserId, u64>,
}

/// The values that a checkpoint read from a conversation state. [`ConversationState::forget`] drops
/// it after the commit.
pub struct CheckpointedState {
    pub through: Seq,
    /// The members whose rows are out of date, with the change that made them so.
    pub member_states: Vec<(UserId, u64)>,
    pub departed: HashMap<UserId, u64>,
}

/// The number of notices above a seq.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticesAbove {
    Known(u64),
    /// The total up to the head. Subtract the number of notices up to the seq, which only the
    /// tables know.
    UpTo(u64),
}

impl ResidentConversation {
    pub fn new(id: ConversationId, state: ConversationState) -> ResidentConversation {
        let writable = AtomicBool::new(state.ids.is_some());
        ResidentConversation { last_used: AtomicU64::new(0), writable, id, state: PanicMutex::new(state) }
    }

    pub fn state(&self) -> PanicMutexGuard<'_, ConversationState> {
        self.state.lock()
    }

    pub fn is_writable(&self) -> bool {
        self.writable.load(Ordering::Acquire)
    }

    /// Stores the loaded ids, unless another thread was faster and messages were added since.
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

impl ConversationState {
    /// Returns the state of a conversation that does not exist yet.
    pub fn absent() -> ConversationState {
        ConversationState {
            conversation: None,
            members: Arc::default(),
            member_states: MemberStates::default(),
            newest_at: Timestamp::from_millis(i64::MIN),
            reserved: Seq::ZERO,
            tail: VecDeque::new(),
            tail_first: Seq::FIRST,
            notices: 0,
            ids: Some(IdTable::default()),
            departed: HashMap::new(),
            changes: 0,
            stale: StaleMembers::NoMembers,
            recent_listing: RecentListing::default(),
            listed_in: 0,
        }
    }

    /// Returns the state of a conversation as the tables contain it.
    pub fn stored(
        stored: StoredConversation,
        members: Arc<Members>,
        member_states: Vec<MemberState>,
    ) -> ConversationState {
        let StoredConversation { conversation, newest_at, notices } = stored;
        ConversationState {
            newest_at,
            reserved: conversation.head,
            tail_first: conversation.head.next(),
            conversation: Some(conversation),
            member_states: MemberStates::of(&members, member_states),
            members,
            notices,
            ids: None,
            ..ConversationState::absent()
        }
    }

    pub fn head(&self) -> Seq {
        self.conversation.as_ref().map_or(Seq::ZERO, |conversation| conversation.head)
    }

    pub fn view(&self) -> Option<ConversationWithMembers> {
        let conversation = self.conversation.clone()?;
        Some(ConversationWithMembers { conversation, members: Arc::clone(&self.members) })
    }

    /// Returns the conversation's row for the tables.
    pub fn to_store(&self) -> Option<StoredConversation> {
        let conversation = self.conversation.clone()?;
        Some(StoredConversation { conversation, newest_at: self.newest_at, notices: self.notices })
    }

    /// Creates the conversation. Its notice, if any, is a separate message that follows. Panics if
    /// the conversation exists.
    pub fn create(&mut self, conversation: Conversation, members: Arc<Members>) {
        assert!(self.conversation.is_none(), "a conversation begins once");
        self.conversation = Some(Conversation { head: Seq::ZERO, ..conversation });
        self.changes += 1;
        self.member_states = MemberStates::new(members.len(), self.changes);
        self.members = members;
        self.stale = StaleMembers::AllMembers;
    }

    pub fn change_membership(&mut self, change: &MembershipChange) {
        self.changes += 1;
        self.recent_listing.members_changed();
        self.stale = StaleMembers::AllMembers;
        match change {
            MembershipChange::Joined(member) => {
                assert!(!self.members.contains(&member.user), "a member joins once");
                change.apply(&mut self.members);
                let at = self.members.position(member.user.as_str()).expect("`apply` above added the member");
                self.member_states.insert(at, self.changes);
                self.departed.remove(&member.user);
            }
            MembershipChange::Left { user, new_admin } => {
                if let Some(at) = self.members.position(user.as_str()) {
                    self.member_states.remove(at);
                }
                change.apply(&mut self.members);
                self.departed.insert(user.clone(), self.changes);
                if let Some(at) = new_admin.as_ref().and_then(|heir| self.members.position(heir.as_str())) {
                    self.member_states.touch(at, self.changes);
                }
            }
        }
    }

    /// Adds a durable message. Panics if the seqs would not be contiguous.
    pub fn push(&mut self, seq: Seq, message: TailMessage, received_at: Timestamp) {
        let conversation =
            self.conversation.as_mut().expect("the sequencer refuses messages to a missing conversation");
        assert_eq!(seq, conversation.head.next(), "seqs must be contiguous");
        conversation.head = seq;
        conversation.last_at = conversation.last_at.max(received_at);
        self.newest_at = self.newest_at.max(received_at);
        self.reserved = self.reserved.max(seq);
        let TailMessage { record, fingerprint } = message;
        self.notices += u64::from(fingerprint == Fingerprint::NONE);
        self.tail.push_back(TailEntry { record, fingerprint, notices_low: self.notices as u32 });
        self.stale = StaleMembers::AllMembers;
    }

    pub fn member(&self, user: &UserId) -> Option<(&Member, &MemberState)> {
        let at = self.members.position(user.as_str())?;
        Some((self.members.at(at), self.member_states.member_state(at)))
    }

    /// Returns whether the user's inbox lists the conversation.
    pub fn is_listed_for(&self, user: &UserId) -> bool {
        let listed =
            |conversation: &Conversation| conversation.is_listed_for(user, conversation.head > Seq::ZERO);
        self.conversation.as_ref().is_some_and(listed)
    }

    /// Returns the position in the member's inbox, or `None` if the inbox does not list it.
    pub fn inbox_position(&self, id: ConversationId, user: &UserId) -> Option<InboxKey> {
        let (_, member_state) = self.member(user)?;
        let last_at = self.conversation.as_ref().filter(|_| self.is_listed_for(user))?.last_at;
        Some(InboxKey { shelf: InboxSection::of(member_state.preferences), last_at, id })
    }

    /// Applies `change` to a member's read state. Returns the previous one if it changed.
    pub fn update_member_state(
        &mut self,
        user: &str,
        change: impl FnOnce(&mut MemberState),
    ) -> Option<MemberState> {
        self.update_member_state_at(self.members.position(user)?, change)
    }

    /// Like [`ConversationState::update_member_state`], for the member at this index.
    pub fn update_member_state_at(
        &mut self,
        at: usize,
        change: impl FnOnce(&mut MemberState),
    ) -> Option<MemberState> {
        let member = self.members.at(at);
        let before = *self.member_states.member_state(at);
        let mut after = before;
        change(&mut after);
        if after == before {
            return None;
        }
        self.changes += 1;
        self.member_states.set(at, member.joined_seq, after, self.changes);
        self.stale.add(&member.user);
        Some(before)
    }

    /// Returns the number of notices above `from`, up to the head.
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

    /// Returns the number of notices below the tail.
    pub fn notices_before_tail(&self) -> u64 {
        let Some(first) = self.tail.front() else { return self.notices };
        let from_first = (self.notices as u32).wrapping_sub(first.notices_low);
        self.notices - u64::from(from_first) - u64::from(first.fingerprint == Fingerprint::NONE)
    }

    fn placed(&self, seq: Seq) -> Option<&TailEntry> {
        let index = seq.get().checked_sub(self.tail_first.get())?;
        self.tail.get(usize::try_from(index).ok()?)
    }

    /// Returns the durable record at `seq`, if it is in the tail.
    pub fn tail_record(&self, seq: Seq) -> Option<&Bytes> {
        self.placed(seq).map(|placed| &placed.record)
    }

    pub fn tail_first(&self) -> Seq {
        self.tail_first
    }

    pub fn tail(&self) -> impl ExactSizeIterator<Item = TailMessage> {
        let copy = |placed: &TailEntry| TailMessage {
            record: placed.record.clone(),
            fingerprint: placed.fingerprint,
        };
        self.tail.iter().map(copy)
    }

    /// Returns the seqs above `after` in the tail with this fingerprint.
    pub fn tail_seqs(&self, fingerprint: Fingerprint, after: Seq) -> impl Iterator<Item = Seq> {
        let seqs = self.tail.iter().zip((self.tail_first.get()..).map(Seq::new));
        seqs.filter(move |(placed, seq)| placed.fingerprint == fingerprint && *seq > after)
            .map(|(_, seq)| seq)
    }

    /// Returns what a checkpoint writes now, to pass to [`ConversationState::forget`] later.
    pub fn to_write(&self) -> CheckpointedState {
        CheckpointedState {
            through: self.head(),
            member_states: self.member_states.changed(&self.members),
            departed: self.departed.clone(),
        }
    }

    /// Returns the approximate memory use, in units of an ordinary conversation of two members.
    pub fn weight(&self) -> usize {
        1 + self.members.len() / 8 + self.ids.as_ref().map_or(0, IdTable::id_count) / 256
    }

    /// Returns whether the tables contain the whole state, so that it can be evicted.
    pub fn is_clean(&self) -> bool {
        let rows = self.member_states.are_clean()
            && self.departed.is_empty()
            && self.stale == StaleMembers::NoMembers;
        rows && self.tail.is_empty() && self.reserved == self.head()
    }

    /// Drops what the tables now contain. Changes made after `written` was read stay.
    pub fn forget(&mut self, written: &CheckpointedState) {
        while self.tail_first <= written.through && self.tail.pop_front().is_some() {
            self.tail_first = self.tail_first.next();
        }
        for (user, change) in &written.member_states {
            if let Some(at) = self.members.position(user.as_str()) {
                self.member_states.written(at, *change);
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
    use bluetick_core::{ReceiptKind, Role};

    use super::*;

    fn user(name: &str) -> UserId {
        name.parse().unwrap()
    }

    fn message(number: u8) -> TailMessage {
        TailMessage { record: Bytes::copy_from_slice(&[number]), fingerprint: Fingerprint::NONE }
    }

    fn conversation_state() -> ConversationState {
        let mut conversation_state = ConversationState::absent();
        let conversation = Conversation {
            id: ConversationId::group([1; 15]),
            title: None,
            created_by: user("alice"),
            created_at: Timestamp::from_millis(1),
            head: Seq::ZERO,
            last_at: Timestamp::from_millis(1),
        };
        conversation_state.create(conversation, Arc::new(Members::founding(&user("alice"), &[user("bob")])));
        for seq in 1..=3u8 {
            conversation_state.push(Seq::new(seq.into()), message(seq), Timestamp::from_millis(seq.into()));
        }
        conversation_state
    }

    #[test]
    fn forget_drops_checkpointed_state_and_keeps_later_changes() {
        let mut conversation_state = conversation_state();
        let written = conversation_state.to_write();
        conversation_state.push(Seq::new(4), message(4), Timestamp::from_millis(4));
        conversation_state.update_member_state("bob", |member_state| {
            member_state.apply_receipt(ReceiptKind::Read, Seq::new(2), Seq::new(4))
        });
        let carol = Member { user: user("carol"), role: Role::Member, joined_seq: Seq::new(4) };
        conversation_state.change_membership(&MembershipChange::Joined(carol));
        conversation_state
            .change_membership(&MembershipChange::Left { user: user("alice"), new_admin: None });
        conversation_state.forget(&written);
        assert_eq!(conversation_state.tail_first(), Seq::new(4));
        assert_eq!(conversation_state.tail_record(Seq::new(3)), None);
        assert_eq!(conversation_state.tail_record(Seq::new(4)).unwrap()[..], [4]);
        let left = conversation_state.to_write();
        let member_states: Vec<_> = left.member_states.iter().map(|(user, _)| user.as_str()).collect();
        assert_eq!((member_states, left.departed.len()), (vec!["bob", "carol"], 1));
        assert!(!conversation_state.is_clean());
    }

    #[test]
    fn completely_written_conversation_is_clean() {
        let mut conversation_state = conversation_state();
        let written = conversation_state.to_write();
        conversation_state.forget(&written);
        assert!(!conversation_state.is_clean(), "the rows by user are written later");
        conversation_state.stale = StaleMembers::NoMembers;
        assert!(conversation_state.is_clean());
        assert_eq!(conversation_state.head(), Seq::new(3));
    }

    #[test]
    fn notice_counts_are_right_wherever_the_tail_begins() {
        let mut conversation_state = conversation_state();
        let id = ConversationId::group([1; 15]);
        let text = TailMessage { fingerprint: Fingerprint(7), ..message(4) };
        conversation_state.push(Seq::new(4), text, Timestamp::from_millis(4));
        conversation_state.push(Seq::new(5), message(5), Timestamp::from_millis(5));
        let above = |conversation_state: &ConversationState| {
            [0, 1, 2, 3, 4, 5].map(|seq| conversation_state.notices_above(id, Seq::new(seq)))
        };
        assert_eq!(above(&conversation_state), [4, 3, 2, 1, 1, 0].map(NoticesAbove::Known));
        conversation_state.forget(&CheckpointedState {
            through: Seq::new(3),
            member_states: Vec::new(),
            departed: HashMap::new(),
        });
        assert_eq!(conversation_state.notices_before_tail(), 3);
        let known = NoticesAbove::Known;
        let from_tables = NoticesAbove::UpTo(4);
        assert_eq!(
            above(&conversation_state),
            [known(4), from_tables, from_tables, known(1), known(1), known(0)]
        );
    }

    #[test]
    #[should_panic(expected = "seqs must be contiguous")]
    fn pushing_a_gap_in_the_seqs_panics() {
        conversation_state().push(Seq::new(5), message(5), Timestamp::from_millis(5));
    }
}
