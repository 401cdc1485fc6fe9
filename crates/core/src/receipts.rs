//! Counts how many members received and read a message, in groups of any size.

use crate::{ReadState, Seq};

/// The receipt counts of a message. They exclude its sender and the members who joined after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiptCounts {
    pub recipients: usize,
    pub delivered: usize,
    pub read: usize,
}

/// The read states of all members, each column sorted. A count takes three binary searches. An
/// update shifts only the values between the old and the new position.
///
/// Each value is at least the seq before the member joined
/// ([`MemberState::shown_since`](crate::MemberState::shown_since)). So a member who joined after a
/// message counts as reached; `joined` serves to subtract that member again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SortedReadStates {
    delivered: Vec<Seq>,
    read: Vec<Seq>,
    joined: Vec<Seq>,
}

impl SortedReadStates {
    /// Builds the index from each member's `joined_seq` and read state since then.
    pub fn new(members: impl Iterator<Item = (Seq, ReadState)>) -> SortedReadStates {
        let mut tally = SortedReadStates::default();
        for (joined, read_state) in members {
            tally.joined.push(joined);
            tally.delivered.push(read_state.delivered);
            tally.read.push(read_state.read);
        }
        tally.delivered.sort_unstable();
        tally.read.sort_unstable();
        tally.joined.sort_unstable();
        tally
    }

    /// Moves one member from the read state `before` to `now`. Panics if no member has `before`.
    pub fn advance(&mut self, before: ReadState, now: ReadState) {
        advance(&mut self.delivered, before.delivered, now.delivered);
        advance(&mut self.read, before.read, now.read);
    }

    /// Returns the receipt counts of the message at `seq`. `sender` is the read state of its
    /// sender, if the sender is still a member who can see the message.
    pub fn receipt_counts(&self, seq: Seq, sender: Option<ReadState>) -> ReceiptCounts {
        let later = self.joined.len() - self.joined.partition_point(|joined| *joined <= seq);
        let reached =
            |sorted: &[Seq]| sorted.len() - sorted.partition_point(|boundary| *boundary < seq) - later;
        let own = |boundary: fn(&ReadState) -> Seq| {
            usize::from(sender.as_ref().is_some_and(|s| boundary(s) >= seq))
        };
        ReceiptCounts {
            recipients: self.joined.len() - later - usize::from(sender.is_some()),
            delivered: reached(&self.delivered) - own(|sender| sender.delivered),
            read: reached(&self.read) - own(|sender| sender.read),
        }
    }

    /// Returns the lowest read state among all members except one with the read state `own`, or
    /// `None` when no other member exists.
    pub fn lowest_besides(&self, own: ReadState) -> Option<ReadState> {
        let lowest = |sorted: &[Seq], own: Seq| {
            let first = *sorted.first()?;
            if first == own { sorted.get(1).copied() } else { Some(first) }
        };
        Some(ReadState {
            delivered: lowest(&self.delivered, own.delivered)?,
            read: lowest(&self.read, own.read)?,
        })
    }
}

/// Moves one value in a sorted slice from `before` to `now` and keeps the order. Panics if the
/// slice does not contain `before`.
fn advance(sorted: &mut [Seq], before: Seq, now: Seq) {
    if now <= before {
        return;
    }
    let from = sorted.partition_point(|boundary| *boundary <= before) - 1;
    assert_eq!(sorted[from], before, "a member has the seq `before`");
    let to = sorted.partition_point(|boundary| *boundary < now);
    sorted.copy_within(from + 1..to, from);
    sorted[to - 1] = now;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    struct Person {
        joined: u64,
        delivered: u64,
        read: u64,
    }

    impl Person {
        fn read_state(&self) -> ReadState {
            let floor = Seq::new(self.joined - 1);
            let read = Seq::new(self.read).max(floor);
            ReadState { delivered: Seq::new(self.delivered).max(read), read }
        }
    }

    fn tally(people: &[Person]) -> SortedReadStates {
        SortedReadStates::new(people.iter().map(|person| (Seq::new(person.joined), person.read_state())))
    }

    fn people() -> impl Strategy<Value = Vec<Person>> {
        let person = (1..20u64, 0..30u64, 0..30u64).prop_map(|(joined, delivered, read)| Person {
            joined,
            delivered,
            read,
        });
        prop::collection::vec(person, 1..40)
    }

    proptest! {
        #[test]
        fn receipt_counts_equal_a_count_over_all_members(people in people(), sender: prop::sample::Index, seq in 1..35u64) {
            let sender = sender.index(people.len());
            let concerned = |number: &usize| people[*number].joined <= seq && *number != sender;
            let count = |reached: &dyn Fn(ReadState) -> Seq| {
                (0..people.len()).filter(concerned)
                    .filter(|number| reached(people[*number].read_state()) >= Seq::new(seq)).count()
            };
            let expected = ReceiptCounts {
                recipients: (0..people.len()).filter(concerned).count(),
                delivered: count(&|read_state| read_state.delivered),
                read: count(&|read_state| read_state.read),
            };
            let own = (people[sender].joined <= seq).then(|| people[sender].read_state());
            prop_assert_eq!(tally(&people).receipt_counts(Seq::new(seq), own), expected);
        }

        #[test]
        fn incremental_updates_equal_a_rebuilt_index(
            people in people(), moves in prop::collection::vec((any::<prop::sample::Index>(), 0..30u64), 0..40)
        ) {
            let mut people = people;
            let mut moving = tally(&people);
            for (who, to) in moves {
                let who = who.index(people.len());
                let before = people[who].read_state();
                people[who].read = people[who].read.max(to);
                people[who].delivered = people[who].delivered.max(to + 1);
                moving.advance(before, people[who].read_state());
            }
            prop_assert_eq!(&moving, &tally(&people));
            for (number, person) in people.iter().enumerate() {
                let others = people.iter().enumerate().filter(|(other, _)| *other != number);
                let lowest = others.map(|(_, other)| other.read_state().read).min();
                prop_assert_eq!(moving.lowest_besides(person.read_state()).map(|lowest| lowest.read), lowest);
            }
        }
    }
}
