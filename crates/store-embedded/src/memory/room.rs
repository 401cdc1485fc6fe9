//! A conversation that is awake: the end of it that the tables do not have yet, and what writing to it needs.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use bluetick_core::members::MembershipChange;
use bluetick_core::{Conversation, ConversationId, ConversationView, Members, Seq, Timestamp, UserId};
use bytes::Bytes;

use super::IdTable;
use crate::codec::chunk::Fingerprint;
use crate::codec::rows::StoredConversation;

pub struct Room {
    pub id: ConversationId,
    state: Mutex<RoomState>,
    last_used: AtomicU64,
}

/// A durable message that the tables may not have yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TailMessage {
    pub record: Bytes,
    pub fingerprint: Fingerprint,
}

/// Invariants: `tail` holds the durable messages `tail_first..=head`, everything below is in the tables;
/// `reserved >= head`, and they are equal whenever no batch is being written.
#[derive(Debug)]
pub struct RoomState {
    /// `None` while the conversation does not exist.
    pub conversation: Option<Conversation>,
    pub members: Arc<Members>,
    /// No message here was received later.
    pub newest_at: Timestamp,
    /// The newest place that was given out, durable or not. Only the committer looks at it.
    pub reserved: Seq,
    tail: VecDeque<TailMessage>,
    tail_first: Seq,
    /// `None` until somebody writes here; then every id of the dedupe window and of the tail.
    pub ids: Option<IdTable>,
    /// Members whose rows in the tables are out of date, and by which change.
    changed_members: HashMap<UserId, u64>,
    changes: u64,
    /// The generation that has this room on its list.
    pub listed_in: u64,
}

/// What a checkpoint read from a room, and forgets there once it is in the tables.
pub struct Written {
    pub through: Seq,
    pub members: HashMap<UserId, u64>,
}

impl Room {
    pub fn new(id: ConversationId, state: RoomState) -> Room {
        Room { id, state: Mutex::new(state), last_used: AtomicU64::new(0) }
    }

    pub fn state(&self) -> MutexGuard<'_, RoomState> {
        self.state.lock().expect("nobody panics while holding a room")
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
            newest_at: Timestamp::from_millis(i64::MIN),
            reserved: Seq::ZERO,
            tail: VecDeque::new(),
            tail_first: Seq::FIRST,
            ids: Some(IdTable::default()),
            changed_members: HashMap::new(),
            changes: 0,
            listed_in: 0,
        }
    }

    /// A room for what the tables know.
    pub fn stored(stored: StoredConversation, members: Arc<Members>) -> RoomState {
        let StoredConversation { conversation, newest_at } = stored;
        RoomState {
            newest_at,
            reserved: conversation.head,
            tail_first: conversation.head.next(),
            conversation: Some(conversation),
            members,
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

    /// The conversation begins. Its notice, if any, is a message of its own and comes next.
    pub fn found(&mut self, conversation: Conversation, members: Arc<Members>) {
        assert!(self.conversation.is_none(), "a conversation begins once");
        for member in members.iter() {
            self.changed_members.insert(member.user.clone(), 0);
        }
        self.conversation = Some(Conversation { head: Seq::ZERO, ..conversation });
        self.members = members;
    }

    pub fn change_membership(&mut self, change: &MembershipChange) {
        change.apply(&mut self.members);
        self.changes += 1;
        let (user, heir) = match change {
            MembershipChange::Joined(member) => (&member.user, None),
            MembershipChange::Left { user, new_admin } => (user, new_admin.as_ref()),
        };
        for user in [Some(user), heir].into_iter().flatten() {
            self.changed_members.insert(user.clone(), self.changes);
        }
    }

    /// A message is durable.
    pub fn push(&mut self, seq: Seq, message: TailMessage, received_at: Timestamp) {
        let conversation = self.conversation.as_mut().expect("only a conversation that exists gets messages");
        assert_eq!(seq, conversation.head.next(), "places are dense");
        conversation.head = seq;
        conversation.last_at = received_at;
        self.newest_at = self.newest_at.max(received_at);
        self.reserved = self.reserved.max(seq);
        self.tail.push_back(message);
    }

    /// The durable record at `seq`, if it is not in the tables alone.
    pub fn tail_record(&self, seq: Seq) -> Option<&Bytes> {
        let index = seq.get().checked_sub(self.tail_first.get())?;
        self.tail.get(usize::try_from(index).ok()?).map(|message| &message.record)
    }

    pub fn tail_first(&self) -> Seq {
        self.tail_first
    }

    pub fn tail(&self) -> impl ExactSizeIterator<Item = &TailMessage> {
        self.tail.iter()
    }

    pub fn changed_members(&self) -> &HashMap<UserId, u64> {
        &self.changed_members
    }

    /// How much memory it takes, in ordinary conversations of two.
    pub fn weight(&self) -> usize {
        1 + self.members.len() / 16 + self.ids.as_ref().map_or(0, IdTable::len) / 256
    }

    /// Whether the tables know all of it.
    pub fn is_clean(&self) -> bool {
        self.tail.is_empty() && self.changed_members.is_empty() && self.reserved == self.head()
    }

    /// Forgets what is in the tables now. What changed since it was read stays.
    pub fn forget(&mut self, written: &Written) {
        while self.tail_first <= written.through && self.tail.pop_front().is_some() {
            self.tail_first = self.tail_first.next();
        }
        for (user, change) in &written.members {
            if self.changed_members.get(user) == Some(change) {
                self.changed_members.remove(user);
            }
        }
        if self.tail.is_empty() {
            self.tail.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use bluetick_core::{Member, Role};

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
        let written = Written { through: room.head(), members: room.changed_members().clone() };
        room.push(Seq::new(4), message(4), Timestamp::from_millis(4));
        let bob = Member { user: user("bob"), role: Role::Admin, joined_seq: Seq::new(4) };
        room.change_membership(&MembershipChange::Joined(bob));
        room.forget(&written);
        assert_eq!(room.tail_first(), Seq::new(4));
        assert_eq!(room.tail_record(Seq::new(3)), None);
        assert_eq!(room.tail_record(Seq::new(4)).unwrap()[..], [4]);
        assert_eq!(room.changed_members().keys().collect::<Vec<_>>(), [&user("bob")]);
        assert!(!room.is_clean());
    }

    #[test]
    fn a_room_that_is_written_wholly_is_clean() {
        let mut room = room();
        let written = Written { through: room.head(), members: room.changed_members().clone() };
        room.forget(&written);
        assert!(room.is_clean());
        assert_eq!(room.head(), Seq::new(3));
    }

    #[test]
    #[should_panic(expected = "places are dense")]
    fn a_hole_is_a_bug_and_not_a_message() {
        room().push(Seq::new(5), message(5), Timestamp::from_millis(5));
    }
}
