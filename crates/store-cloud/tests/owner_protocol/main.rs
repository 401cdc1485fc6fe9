//! A model of the write path of a fleet, on the engine's own log: any number of owners at once,
//! puts that arrive late, lost answers, nodes that die, evict and reload, epochs, and readers with
//! old maps. Each planted bug must be found.

mod cluster;
mod members;
mod tables;

use std::time::Instant;

use bluetick_store_cloud::log::PlantedBug;
use cluster::{Deviation, Outcome, run, run_reload};
use members::run_members;

/// The number of seeds that the correct protocol must survive.
const SEEDS: u64 = 600;
/// The number of seeds within which each planted bug must be found.
const PLANT_SEEDS: u64 = 400;

/// Reads a number from the environment: `BLUETICK_SEED` is the first seed, and
/// `BLUETICK_MODEL_SEEDS` the number of seeds.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn every_seed_keeps_each_id_in_one_row_and_every_ack_at_its_seq() {
    let started = Instant::now();
    let mut total = Outcome::default();
    let (first, count) = (number("BLUETICK_SEED", 1), number("BLUETICK_MODEL_SEEDS", SEEDS));
    for seed in first..first + count {
        let outcome = run(seed, Deviation::None);
        assert_eq!(outcome.violation, None, "seed {seed}");
        total.add(&outcome);
    }
    println!("{count} seeds in {:?}: {total:?}", started.elapsed());
    // A model in which nothing happens proves nothing.
    for (what, times) in [
        ("acknowledged messages", total.acknowledged),
        ("voids", total.voids),
        ("grants", total.grants),
        ("epochs", total.epochs),
        ("deaths", total.deaths),
        ("reloads", total.reloads),
        ("late puts", total.late_puts),
        ("duplicates", total.duplicates),
        ("compared reads", total.compared_reads),
        ("old maps", total.old_maps),
        ("fingerprint rows", total.fingerprint_rows),
        ("raised floors", total.floors),
    ] {
        assert!(times >= count / 4, "only {times} {what} in {count} seeds");
    }
}

#[test]
fn node_that_reloads_while_its_block_arrives_stores_each_message_once() {
    let first = number("BLUETICK_SEED", 1);
    let mut grants = 0;
    for seed in first..first + SEEDS {
        let outcome = run_reload(seed, Deviation::None);
        assert_eq!(outcome.violation, None, "seed {seed}");
        grants += outcome.grants;
    }
    assert!(grants >= SEEDS, "only {grants} grants");
}

#[test]
fn reload_with_the_same_incarnation_is_found() {
    is_found(Deviation::SameIncarnation, run_reload);
}

#[test]
fn members_write_and_others_do_not_at_any_node() {
    let (first, count) = (number("BLUETICK_SEED", 1), number("BLUETICK_MODEL_SEEDS", SEEDS));
    let mut compared = 0;
    for seed in first..first + count {
        let outcome = run_members(seed, Deviation::None);
        assert_eq!(outcome.violation, None, "seed {seed}");
        compared += outcome.acknowledged;
    }
    println!("{count} seeds: {compared} messages");
    assert!(compared >= 10 * count, "only {compared} messages");
}

fn is_found(deviation: Deviation, run: fn(u64, Deviation) -> Outcome) {
    let first = number("BLUETICK_SEED", 1);
    let found = (first..first + PLANT_SEEDS).find_map(|seed| Some((seed, run(seed, deviation).violation?)));
    let (seed, violation) = found.unwrap_or_else(|| panic!("{deviation:?} was not found"));
    println!("{deviation:?} at seed {seed}: {violation}");
}

macro_rules! planted_bugs {
    ($run:expr, $($name:ident: $deviation:expr;)*) => {
        $(
            #[test]
            fn $name() {
                is_found($deviation, $run);
            }
        )*
    };
}

planted_bugs! {
    run_members,
    owner_that_keeps_rights_is_found: Deviation::Writer(PlantedBug::KeepsRights);
    owner_that_refuses_on_loaded_state_is_found: Deviation::Writer(PlantedBug::RefusesOnLoadedState);
    owner_that_appends_before_applying_is_found: Deviation::Writer(PlantedBug::AppendsBeforeApplying);
    owner_that_voids_notices_is_found: Deviation::Writer(PlantedBug::VoidsNotices);
}

planted_bugs! {
    run,
    writer_that_skips_voids_is_found: Deviation::Writer(PlantedBug::SkipsVoids);
    writer_in_a_foreign_block_is_found: Deviation::Writer(PlantedBug::WritesInForeignBlock);
    writer_that_changes_the_seq_after_a_timeout_is_found: Deviation::Writer(PlantedBug::NewSeqAfterTimeout);
    writer_that_ignores_epoch_rows_is_found: Deviation::Writer(PlantedBug::IgnoresEpochRows);
    epoch_row_inside_a_block_is_found: Deviation::Writer(PlantedBug::EpochInsideBlock);
    report_above_a_gap_is_found: Deviation::Writer(PlantedBug::ReportsAboveGap);
    fingerprint_taken_for_a_proof_is_found: Deviation::Writer(PlantedBug::TrustsFingerprints);
    fingerprint_row_of_an_incomplete_block_is_found: Deviation::Writer(PlantedBug::IndexesIncompleteBlock);
    load_without_the_ids_is_found: Deviation::Writer(PlantedBug::LoadsWithoutIds);
    message_acknowledged_at_the_seq_of_a_void_is_found: Deviation::Writer(PlantedBug::ReusesSeqOfVoid);
    stale_owner_that_serves_reads_is_found: Deviation::ReadsWithoutConfirming;
    reader_that_trusts_an_old_map_is_found: Deviation::ReaderTrustsOldMap;
}
