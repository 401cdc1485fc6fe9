//! The read states of the members of one conversation, in the order of the list of members.

use std::collections::HashSet;

use bluetick_core::receipts::SortedReadStates;
use bluetick_core::{MemberState, Members, ReadState, ReceiptCounts, Seq, UserId};

#[derive(Debug, Default)]
pub struct Seats {
    seats: Vec<Seat>,
    /// The number of entries whose current value is not in the tables.
    unwritten: usize,
    /// Counted on first use, then kept up to date until the members change.
    tally: Option<Box<SortedReadStates>>,
}

#[derive(Clone, Debug, Default)]
struct Seat {
    member_state: MemberState,
    /// The last change that is not in the tables; 0 if there is none.
    changed: u64,
}

impl Seats {
    /// Returns default read states for new members, none of them in the tables.
    pub fn new(count: usize, change: u64) -> Seats {
        let seats = vec![Seat { member_state: MemberState::default(), changed: change }; count];
        Seats { seats, unwritten: count, tally: None }
    }

    /// Returns the read states as the tables contain them.
    pub fn of(members: &Members, member_states: Vec<MemberState>) -> Seats {
        assert_eq!(members.len(), member_states.len(), "a seat for each member");
        let seats = member_states.into_iter().map(|member_state| Seat { member_state, changed: 0 }).collect();
        Seats { seats, unwritten: 0, tally: None }
    }

    pub fn member_state(&self, at: usize) -> &MemberState {
        &self.seats[at].member_state
    }

    pub fn set(&mut self, at: usize, joined: Seq, member_state: MemberState, change: u64) {
        if let Some(tally) = &mut self.tally {
            tally.advance(self.seats[at].member_state.shown_since(joined), member_state.shown_since(joined));
        }
        self.seats[at].member_state = member_state;
        self.touch(at, change);
    }

    /// Records another change of the member, for example its role.
    pub fn touch(&mut self, at: usize, change: u64) {
        self.unwritten += usize::from(self.seats[at].changed == 0);
        self.seats[at].changed = change;
    }

    pub fn insert(&mut self, at: usize, change: u64) {
        self.seats.insert(at, Seat { member_state: MemberState::default(), changed: change });
        self.unwritten += 1;
        self.tally = None;
    }

    pub fn remove(&mut self, at: usize) {
        let gone = self.seats.remove(at);
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
        if let [one, other] = &self.seats[..] {
            let (other, other_at) = if at == 0 { (other, 1) } else { (one, 0) };
            return other.member_state.shown_since(members.at(other_at).joined_seq);
        }
        let own = self.shown(members, at);
        self.tally(members).lowest_besides(own).unwrap_or(ReadState { delivered: head, read: head })
    }

    fn shown(&self, members: &Members, at: usize) -> ReadState {
        self.seats[at].member_state.shown_since(members.at(at).joined_seq)
    }

    fn tally(&mut self, members: &Members) -> &SortedReadStates {
        let Seats { seats, tally, .. } = self;
        tally.get_or_insert_with(|| {
            let pairs = members.iter().zip(seats.iter());
            let counted = pairs
                .map(|(member, seat)| (member.joined_seq, seat.member_state.shown_since(member.joined_seq)));
            Box::new(SortedReadStates::new(counted))
        })
    }

    /// Returns the members whose current value is not in the tables, with the change of each.
    pub fn changed(&self, members: &Members) -> Vec<(UserId, u64)> {
        if self.are_clean() {
            return Vec::new();
        }
        let pairs = members.iter().zip(&self.seats).filter(|(_, seat)| seat.changed != 0);
        pairs.map(|(member, seat)| (member.user.clone(), seat.changed)).collect()
    }

    /// Records that the tables contain `change`. Has no effect if a later change exists.
    pub fn written(&mut self, at: usize, change: u64) {
        if self.seats[at].changed == change {
            self.seats[at].changed = 0;
            self.unwritten -= 1;
        }
    }

    pub fn are_clean(&self) -> bool {
        self.unwritten == 0
    }

    pub fn member_states(&self) -> impl ExactSizeIterator<Item = &MemberState> {
        self.seats.iter().map(|seat| &seat.member_state)
    }
}

/// The members whose rows by user (inbox, order, pending) in the tables are out of date.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Stale {
    #[default]
    Nobody,
    Some(Box<HashSet<UserId>>),
    Everybody,
}

impl Stale {
    pub fn add(&mut self, user: &UserId) {
        match self {
            Stale::Nobody => *self = Stale::Some(Box::new(HashSet::from([user.clone()]))),
            Stale::Some(users) => {
                users.insert(user.clone());
            }
            Stale::Everybody => {}
        }
    }

    pub fn has(&self, user: &UserId) -> bool {
        match self {
            Stale::Nobody => false,
            Stale::Some(users) => users.contains(user),
            Stale::Everybody => true,
        }
    }
}
