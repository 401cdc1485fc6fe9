//! Which partitions can hold these places, and whether what they gave is all of it. Pure.

use std::collections::BTreeMap;

use bluetick_core::{Seq, StoreError};

use super::epochs::Registry;
use super::place::{Partition, SIGNPOST, block_of};

/// One query: what this partition holds between these two, both included. Whatever else lies between them lies elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    pub partition: Partition,
    pub first: Seq,
    pub last: Seq,
    /// How many of the places lie here.
    pub places: u64,
}

/// Each partition that can hold one of these places, once.
pub fn asks(registry: &Registry, first: Seq, last: Seq) -> Vec<Ask> {
    let mut asks: BTreeMap<Partition, Ask> = BTreeMap::new();
    let mut note = |ask: Ask| {
        let there = asks.entry(ask.partition).or_insert(Ask { places: 0, ..ask });
        *there = Ask {
            first: there.first.min(ask.first),
            last: there.last.max(ask.last),
            places: there.places + ask.places,
            ..ask
        };
    };
    for (begin, end, epoch) in registry.stretches(first.max(Seq::FIRST), last) {
        let Some(epoch) = epoch.filter(|epoch| epoch.partitions > 1) else {
            let places = end.next().distance_from(begin);
            note(Ask { partition: Partition::Plain, first: begin, last: end, places });
            continue;
        };
        let count = u64::from(epoch.partitions);
        let (lowest, highest) = (block_of(begin, epoch.block), block_of(end, epoch.block));
        for low in lowest..=highest.min(lowest + count - 1) {
            let high = low + (highest - low) / count * count;
            let first = begin.max(Seq::new(low * epoch.block + 1));
            let last = end.min(Seq::new((high + 1) * epoch.block));
            let partition = Partition::of(first, epoch.partitions, epoch.block);
            // Whole blocks between the first and the last one, the ends cut off.
            let places = last.next().distance_from(first) - (high - low) / count * (count - 1) * epoch.block;
            note(Ask { partition, first, last, places });
        }
    }
    asks.into_values().collect()
}

/// The plain partition to its very end, where a signpost stands if the conversation was ever salted: for whoever does not
/// know of that.
pub fn up_to_the_signpost(from: Seq) -> Ask {
    Ask { partition: Partition::Plain, first: from, last: Seq::new(SIGNPOST), places: 0 }
}

/// Where the newest message may be by a registry just read, in the order in which to look: each step lies below the one
/// before it, and is looked at when those above have not enough.
pub fn downward(registry: &Registry, from: Seq) -> Vec<Vec<Ask>> {
    // What was brought in from elsewhere may lie above the horizon as long as there is no epoch.
    let last = if registry.was_ever_salted() { registry.horizon() } else { Seq::MAX };
    let stretches: Vec<_> = registry.stretches(from.max(Seq::FIRST), last).collect();
    stretches.into_iter().rev().map(|(first, last, _)| asks(registry, first, last)).collect()
}

/// What is to be said of places that were looked for and lie below the head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every place is there, which proves that no partition was missed.
    Complete,
    /// Some are missing, and the version of the registry that was asked does not know for sure where they lie: read it
    /// again, and look again.
    Refresh,
    /// These are missing, and there is nowhere else to look.
    Holes(Vec<Seq>),
}

/// `is_fresh`: the registry was read after the places were known to be handed out.
pub fn judge<Row>(
    registry: &Registry,
    is_fresh: bool,
    (first, last): (Seq, Seq),
    found: &BTreeMap<Seq, Row>,
) -> Verdict {
    let wanted = last.next().distance_from(first);
    if found.range(first..=last).count() as u64 == wanted {
        return Verdict::Complete;
    }
    let missing: Vec<_> =
        (first.get()..=last.get()).map(Seq::new).filter(|seq| !found.contains_key(seq)).collect();
    if !is_fresh && missing.iter().any(|seq| !registry.covers(*seq)) {
        return Verdict::Refresh;
    }
    Verdict::Holes(missing)
}

/// What several partitions gave, as one. A place in two of them is damage: nothing here writes so.
pub fn merge<Row>(into: &mut BTreeMap<Seq, Row>, rows: Vec<(Seq, Row)>) -> Result<(), StoreError> {
    for (seq, row) in rows {
        if into.insert(seq, row).is_some() {
            return Err(StoreError::Damaged(format!("seq {seq} lies in two partitions").into()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hot::place::Layout;

    const LAYOUT: Layout = Layout::CHOSEN;

    /// 1 up to 1,024, 2 up to 2,048, 5 up to 4,096, then 1 again.
    fn registry() -> Registry {
        [(2_048, 2), (4_096, 5), (5_120, 1)]
            .into_iter()
            .fold(Registry::adopted(&LAYOUT, Seq::ZERO), |registry, (through, partitions)| {
                registry.extended(&LAYOUT, Seq::new(through), partitions)
            })
    }

    fn names(asks: &[Ask]) -> Vec<Partition> {
        asks.iter().map(|ask| ask.partition).collect()
    }

    fn range(first: u64, last: u64) -> Vec<Ask> {
        asks(&registry(), Seq::new(first), Seq::new(last))
    }

    #[test]
    fn a_page_within_a_block_is_one_query() {
        assert_eq!(
            range(2_049, 2_068),
            [Ask {
                partition: Partition::Salted(2),
                first: Seq::new(2_049),
                last: Seq::new(2_068),
                places: 20
            }]
        );
    }

    #[test]
    fn a_page_over_the_end_of_a_block_is_two() {
        assert_eq!(names(&range(2_103, 2_122)), [Partition::Salted(2), Partition::Salted(3)]);
    }

    #[test]
    fn a_page_over_the_border_of_two_epochs_asks_both() {
        assert_eq!(names(&range(1_015, 1_034)), [Partition::Plain, Partition::Salted(0)]);
        assert_eq!(names(&range(2_039, 2_058)), [Partition::Salted(1), Partition::Salted(2)]);
    }

    #[test]
    fn the_oldest_page_lies_in_the_plain_partition() {
        assert_eq!(names(&range(1, 20)), [Partition::Plain]);
    }

    #[test]
    fn a_partition_of_two_epochs_is_asked_once() {
        let asks = range(1_001, 4_116);
        assert_eq!(asks.len(), 6);
        assert_eq!((asks[0].first, asks[0].last, asks[0].places), (Seq::new(1_001), Seq::new(4_116), 44));
    }

    #[test]
    fn exactly_the_partitions_that_hold_a_place_are_asked_and_every_place_is_in_reach() {
        let registry = registry();
        for first in (1..4_200).step_by(7) {
            for length in [1, 2, 20, 63, 64, 65, 100, 333, 1_000] {
                let (first, last) = (Seq::new(first), Seq::new(first + length - 1));
                let asks = asks(&registry, first, last);
                let mut places: BTreeMap<Partition, Vec<Seq>> = BTreeMap::new();
                for seq in (first.get()..=last.get()).map(Seq::new) {
                    places.entry(registry.partition(seq)).or_default().push(seq);
                }
                let expected: Vec<_> = places
                    .into_iter()
                    .map(|(partition, seqs)| Ask {
                        partition,
                        first: seqs[0],
                        last: seqs[seqs.len() - 1],
                        places: seqs.len() as u64,
                    })
                    .collect();
                assert_eq!(asks, expected, "{first} to {last}");
            }
        }
    }

    #[test]
    fn the_newest_is_looked_for_from_the_newest_epoch_downward() {
        let steps: Vec<_> = downward(&registry(), Seq::FIRST).iter().map(Vec::len).collect();
        assert_eq!(steps, [1, 5, 2, 1]);
        assert_eq!(downward(&registry(), Seq::new(4_000)).len(), 2);
    }

    #[test]
    fn who_knows_of_no_epoch_reads_up_to_where_a_signpost_would_be_and_who_knows_that_there_is_none_does_not()
    {
        assert_eq!(up_to_the_signpost(Seq::FIRST).last.get(), SIGNPOST);
        let steps = downward(&Registry::absent(&LAYOUT), Seq::FIRST);
        assert_eq!(steps.len(), 1);
        assert_eq!((steps[0].len(), steps[0][0].last), (1, Seq::MAX));
    }

    #[test]
    fn a_hole_is_believed_only_where_it_is_known_where_to_look() {
        let found: BTreeMap<_, _> = [1, 2, 4].map(|seq| (Seq::new(seq), ())).into();
        let at = |range, is_fresh| judge(&Registry::absent(&LAYOUT), is_fresh, range, &found);
        assert_eq!(at((Seq::new(1), Seq::new(2)), false), Verdict::Complete);
        assert_eq!(at((Seq::new(1), Seq::new(4)), false), Verdict::Holes(vec![Seq::new(3)]));
        let above = Seq::new(1_025);
        assert_eq!(at((above, above), false), Verdict::Refresh);
        assert_eq!(at((above, above), true), Verdict::Holes(vec![above]));
    }

    #[test]
    fn a_place_in_two_partitions_is_damage() {
        let mut found = BTreeMap::from([(Seq::new(3), 'a')]);
        assert!(merge(&mut found, vec![(Seq::new(3), 'b')]).is_err());
    }
}
