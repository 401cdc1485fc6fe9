//! How large a block should be: the larger, the fewer partitions a page touches; the smaller, the more evenly a busy second
//! is spread. `cargo test -p bluetick-store-cloud --test hot_blocks -- --nocapture` prints the table of ADR 16.
#![expect(clippy::unwrap_used, reason = "a test stops where its own set-up fails")]

use std::collections::{BTreeMap, BTreeSet};

use bluetick_core::Seq;
use bluetick_store_cloud::hot::{Layout, Partition};
use bluetick_testkit::dice::Dice;

const WRITES: u64 = 4_000;
const PARTITIONS: u16 = 5;

/// Writes are that late or early against their place.
const JITTER_MS: f64 = 20.0;

type Where = fn(u64, u64) -> Partition;

fn in_turn(seq: u64, block: u64) -> Partition {
    Partition::of(Seq::new(seq), PARTITIONS, block)
}

/// The other way to spread blocks.
fn by_hash(seq: u64, block: u64) -> Partition {
    let turn = Dice::new((seq - 1) / block).below(u64::from(PARTITIONS));
    Partition::Salted(turn as u16)
}

/// The most that any partition gets in any time of this length, in ten seconds of traffic.
fn busiest(of: Where, block: u64, millis: f64) -> usize {
    let mut dice = Dice::new(block);
    let mut times: BTreeMap<Partition, Vec<f64>> = BTreeMap::new();
    for seq in 1..=10 * WRITES {
        let late = dice.below(1_000) as f64 / 1_000.0 * JITTER_MS;
        times.entry(of(seq, block)).or_default().push(seq as f64 * 1_000.0 / WRITES as f64 + late);
    }
    let busiest_of = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        let mut begin = 0;
        let within = times.iter().enumerate().map(|(index, at)| {
            while times[begin] <= at - millis {
                begin += 1;
            }
            index - begin + 1
        });
        within.max().unwrap()
    };
    times.values_mut().map(busiest_of).max().unwrap()
}

/// How many partitions a page touches: on average, and at most.
fn touched(of: Where, block: u64, page: u64) -> (f64, usize) {
    let firsts = 1..=20 * block * u64::from(PARTITIONS);
    let counts: Vec<_> = firsts
        .step_by(usize::try_from(block / 64).unwrap().max(1))
        .map(|first| (first..first + page).map(|seq| of(seq, block)).collect::<BTreeSet<_>>().len())
        .collect();
    (counts.iter().sum::<usize>() as f64 / counts.len() as f64, *counts.iter().max().unwrap())
}

#[test]
fn the_chosen_block_spreads_a_second_of_4000_writes_and_a_page_touches_one_or_two_partitions() {
    println!("{WRITES} writes a second over {PARTITIONS} partitions: {} each on average", WRITES / 5);
    println!(
        "| block | way | busiest partition in any second | in any 100 ms | page of 20 touches | at most | page of 100 touches |"
    );
    println!("|---|---|---|---|---|---|---|");
    for block in [1, 4, 8, 16, 32, 64, 128, 256, 512, 1_024] {
        for (name, of) in [("in turn", in_turn as Where), ("by hash", by_hash)] {
            let (mean, most) = touched(of, block, 20);
            let (wide, _) = touched(of, block, 100);
            let (second, moment) = (busiest(of, block, 1_000.0), busiest(of, block, 100.0));
            println!("| {block} | {name} | {second} | {moment} | {mean:.2} | {most} | {wide:.2} |");
        }
    }
    let block = Layout::CHOSEN.block;
    assert!(busiest(in_turn, block, 1_000.0) <= 900, "a partition takes 1,000");
    let (mean, most) = touched(in_turn, block, 20);
    assert!(mean < 1.5 && most <= 2, "{mean} on average, {most} at most");
}
