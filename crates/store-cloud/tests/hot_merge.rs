//! A conversation that lies in many partitions is read as one: whatever the registry has decided over time, and wherever
//! one begins, the parts together are every place once, in order.

use std::collections::BTreeMap;

use bluetick_core::Seq;
use bluetick_store_cloud::hot::plan::{self, Ask, Verdict};
use bluetick_store_cloud::hot::{Layout, Partition, Registry};
use proptest::prelude::*;

/// Small, so that every border is met often.
const LAYOUT: Layout =
    Layout { block: 4, plain_through: Seq::new(16), ahead: 16, most_partitions: 7, restless: false };

type Tables = BTreeMap<Partition, BTreeMap<Seq, u64>>;

/// What a query of one partition finds.
fn found(tables: &Tables, ask: &Ask) -> Vec<(Seq, u64)> {
    let rows = tables.get(&ask.partition).into_iter().flat_map(|rows| rows.range(ask.first..=ask.last));
    rows.map(|(seq, row)| (*seq, *row)).collect()
}

/// The registry after decisions, each about so many more places and so many partitions.
fn registries() -> impl Strategy<Value = Registry> {
    let decisions = prop::collection::vec((1..60u64, 1..9u16), 0..12);
    (0..40u64, decisions).prop_map(|(newest, decisions)| {
        let first = Registry::adopted(&LAYOUT, Seq::new(newest));
        decisions.into_iter().fold(first, |registry, (more, partitions)| {
            let through = registry.horizon().plus(more);
            registry.extended(&LAYOUT, through, partitions)
        })
    })
}

/// Every place up to the horizon is written, but for the holes.
fn written(registry: &Registry, holes: &[u64]) -> Tables {
    let mut tables = Tables::new();
    for seq in (1..=registry.horizon().get()).filter(|seq| !holes.contains(seq)) {
        let partition = registry.partition(Seq::new(seq));
        tables.entry(partition).or_default().insert(Seq::new(seq), seq);
    }
    tables
}

fn gathered(tables: &Tables, asks: &[Ask]) -> BTreeMap<Seq, u64> {
    let mut all = BTreeMap::new();
    for ask in asks {
        plan::merge(&mut all, found(tables, ask)).expect("no place lies in two partitions");
    }
    all
}

proptest! {
    #[test]
    fn the_parts_of_any_range_are_all_of_it_and_nothing_else(
        registry in registries(),
        first in any::<prop::sample::Index>(),
        length in 1..200u64,
        holes in prop::collection::vec(1..400u64, 0..4),
    ) {
        let horizon = registry.horizon().get();
        let first = 1 + first.index(usize::try_from(horizon).expect("small")) as u64;
        let last = (first + length - 1).min(horizon);
        let tables = written(&registry, &holes);
        let asks = plan::asks(&registry, Seq::new(first), Seq::new(last));
        let partitions: std::collections::BTreeSet<_> = asks.iter().map(|ask| ask.partition).collect();
        prop_assert_eq!(partitions.len(), asks.len(), "each partition is asked once");
        prop_assert_eq!(asks.iter().map(|ask| ask.places).sum::<u64>(), last - first + 1);
        let mut all = gathered(&tables, &asks);
        // A query reaches from the first to the last place it is for; epochs between them may lie there as well.
        all.retain(|seq, _| (first..=last).contains(&seq.get()));
        let expected: Vec<u64> = (first..=last).filter(|seq| !holes.contains(seq)).collect();
        prop_assert_eq!(all.values().copied().collect::<Vec<_>>(), expected);
        let missing: Vec<Seq> =
            (first..=last).filter(|seq| holes.contains(seq)).map(Seq::new).collect();
        let verdict = plan::judge(&registry, true, (Seq::new(first), Seq::new(last)), &all);
        prop_assert_eq!(verdict, if missing.is_empty() { Verdict::Complete } else { Verdict::Holes(missing) });
    }

    #[test]
    fn looking_downward_meets_the_newest_first_and_in_the_end_everything(
        registry in registries(), from in 1..50u64, holes in prop::collection::vec(1..400u64, 0..4),
    ) {
        let tables = written(&registry, &holes);
        let mut all = BTreeMap::new();
        let mut lowest_before = Seq::MAX;
        for asks in plan::downward(&registry, Seq::new(from)) {
            let step = gathered(&tables, &asks);
            if let Some((highest, _)) = step.last_key_value() {
                prop_assert!(*highest < lowest_before, "a step lies below the one before it");
            }
            lowest_before = asks.iter().map(|ask| ask.first).min().unwrap_or(lowest_before);
            plan::merge(&mut all, step.into_iter().collect()).expect("no place is met twice");
        }
        let expected = (from..=registry.horizon().get()).filter(|seq| !holes.contains(seq));
        prop_assert_eq!(all.into_values().collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }

    #[test]
    fn a_place_that_lies_in_two_partitions_is_damage(seqs in prop::collection::vec(1..50u64, 1..20)) {
        let rows: Vec<_> = seqs.iter().map(|seq| (Seq::new(*seq), *seq)).collect();
        let distinct: std::collections::BTreeSet<_> = seqs.iter().collect();
        let merged = plan::merge(&mut BTreeMap::new(), rows);
        prop_assert_eq!(merged.is_ok(), distinct.len() == seqs.len());
    }
}
