//! The read states of the members of one conversation, in the order of the list of members.

use std::collections::HashSet;

use bluetick_core::receipts::SortedReadStates;
use bluetick_core::{MemberState, Members, ReadState, ReceiptCounts, Seq, UserId};

#[derive(Debug, Default)]
pub struct MemberStates {
    states: Vec<TrackedMemberState>,
    /// The number of entries whose current value is not in the tables.
    unwritten: usize,
    /// Counted on first use, then kept up to date until the members change.
    tally: Option<Box<SortedReadStates>>,
}

#[derive(Clone, Debug, Default)]
struct TrackedMemberState {
    member_state: MemberState,
    /// The last change that is not in the tables; 0 if there is none.
    changed: u64,
}

impl MemberStates {
    /// Returns default read states for new members, none of them in the tables.
    pub fn new(count: usize, change: u64) -> MemberStates {
        let states =
            vec![TrackedMemberState { member_state: MemberState::default(), changed: change }; count];
        MemberStates { states, unwritten: count, tally: None }
    }

    /// Returns the read states as the tables contain them.
    pub fn of(members: &Members, member_states: Vec<MemberState>) -> MemberStates {
        assert_eq!(members.len(), member_states.len(), "one read state for each member");
        let states = member_states
            .into_iter()
            .map(|member_state| TrackedMemberState { member_state, changed: 0 })
            .collect();
        MemberStates { states, unwritten: 0, tally: None }
    }

    pub fn member_state(&self, at: usize) -> &MemberState {
        &self.states[at].member_state
    }

    pub fn set(&mut self, at: usize, joined: Seq, member_state: MemberState, change: u64) {
        if let Some(tally) = &mut self.tally {
            tally.advance(self.states[at].member_state.shown_since(joined), member_state.shown_since(joined));
        }
        self.states[at].member_state = member_state;
        self.touch(at, change);
    }

    /// Records another change of the member, for example its role.
    pub fn touch(&mut self, at: usize, change: u64) {
        self.unwritten += usize::from(self.states[at].changed == 0);
        self.states[at].changed = change;
    }

    pub fn insert(&mut self, at: usize, change: u64) {
        self.states.insert(at, TrackedMemberState { member_state: MemberState::default(), changed: change });
        self.unwritten += 1;
        self.tally = None;
    }

    pub fn remove(&mut self, at: usize) {
        let gone = self.states.remove(at);
        self.unwritten -= usize::from(gone.changed != 0);
        self.tally = None;
    }

    /// Returns how many members have received and read the message at `seq` from `sender`.
    pub fn receipt_counts(&mut self, members: &Members, seq: Seq, sender: &str) -> ReceiptCounts {
        let sender = members.position(sender).filter(|at| members.at(*at).joined_seq <= seq);
        let sender = sender.map(|at| self.shown(members, at));
        self.tally(members).receipt_counts(seq, sender)
    }

    /// Returns the lowest read state of the other members, or `head` if there are none.
    pub fn lowest_besides(&mut self, members: &Members, at: usize, head: Seq) -> ReadState {
        if let [one, other] = &self.states[..] {
            let (other, other_at) = if at == 0 { (other, 1) } else { (one, 0) };
            return other.member_state.shown_since(members.at(other_at).joined_seq);
        }
        let own = self.shown(members, at);
        self.tally(members).lowest_besides(own).unwrap_or(ReadState { delivered: head, read: head })
    }

    fn shown(&self, members: &Members, at: usize) -> ReadState {
        self.states[at].member_state.shown_since(members.at(at).joined_seq)
    }

    fn tally(&mut self, members: &Members) -> &SortedReadStates {
        let MemberStates { states, tally, .. } = self;
        tally.get_or_insert_with(|| {
            let pairs = members.iter().zip(states.iter());
            let counted = pairs.map(|(member, tracked)| {
                (member.joined_seq, tracked.member_state.shown_since(member.joined_seq))
            });
            Box::new(SortedReadStates::new(counted))
        })
    }

    /// Returns the members whose current value is not in the tables, with the change of each.
    pub fn changed(&self, members: &Members) -> Vec<(UserId, u64)> {
        if self.are_clean() {
            return Vec::new();
        }
        let pairs = members.iter().zip(&self.states).filter(|(_, tracked)| tracked.changed != 0);
        pairs.map(|(member, tracked)| (member.user.clone(), tracked.changed)).collect()
    }

    /// Records that the tables contain `change`. Has no effect if a later change exists.
    pub fn written(&mut self, at: usize, change: u64) {
        if self.states[at].changed == change {
            self.states[at].changed = 0;
            self.unwritten -= 1;
        }
    }

    pub fn are_clean(&self) -> bool {
        self.unwritten == 0
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &MemberState> {
        self.states.iter().map(|tracked| &tracked.member_state)
    }
}

/// The members whose rows by user (inbox, order, pending) in the tables are out of date.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StaleMembers {
    #[default]
    NoMembers,
    #[cfg_attr(
        not(feature = "test-internals"),
        expect(clippy::box_collection, reason = "the set is rare, and the enum is in each conversation")
    )]
    Some(Box<HashSet<UserId>>),
    AllMembers,
}

impl StaleMembers {
    pub fn add(&mut self, user: &UserId) {
        match self {
            StaleMembers::NoMembers => *self = StaleMembers::Some(Box::new(HashSet::from([user.clone()]))),
            StaleMembers::Some(users) => {
                users.insert(user.clone());
            }
            StaleMembers::AllMembers => {}
        }
    }

    pub fn has(&self, user: &UserId) -> bool {
        match self {
            StaleMembers::NoMembers => false,
            StaleMembers::Some(users) => users.contains(user),
            StaleMembers::AllMembers => true,
        }
    }
}
