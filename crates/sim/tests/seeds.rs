//! Runs a few seeds, checks that runs are reproducible, and checks that the auditor finds planted
//! bugs.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use bluetick_sim::faults::Fault;
use bluetick_sim::plant::PlantedBug;
use bluetick_sim::process::run_by;
use bluetick_sim::run::{RunOutcome, RunPlan};
use bluetick_sim::world::WorldKind;

fn run(plan: &RunPlan) -> RunOutcome {
    run_by(Path::new(env!("CARGO_BIN_EXE_bluetick-sim")), plan).unwrap()
}

fn hold(world: WorldKind, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let outcome = run(&RunPlan::new(seed, Some(world)));
        assert!(outcome.sends > 0 && outcome.faults > 0, "seed {seed}: the run did nothing");
        if let Some(finding) = outcome.finding {
            let last = outcome.trace.iter().rev().take(40).rev().cloned().collect::<Vec<_>>().join("\n");
            panic!(
                "seed {seed} breaks {}: {}\n{last}\nrepeat with: bluetick-sim --world {world:?} --seeds {seed}",
                finding.guarantee, finding.what
            );
        }
    }
}

#[test]
fn one_server_on_a_faulty_disk_keeps_every_guarantee() {
    hold(WorldKind::Embedded, 1..16);
}

#[test]
fn fleet_with_faulty_tables_and_redis_keeps_every_guarantee() {
    hold(WorldKind::Fleet, 1..16);
}

#[test]
fn stopped_servers_start_no_threads_and_keep_the_trace() {
    for world in [WorldKind::Embedded, WorldKind::Fleet] {
        let faults = BTreeSet::from([Fault::Restart, Fault::LineCut]);
        let busy = Duration::from_secs(60);
        let plan = |seed| RunPlan { faults: faults.clone(), busy, ..RunPlan::new(seed, Some(world)) };
        for seed in 1..4 {
            let (once, again) = (run(&plan(seed)), run(&plan(seed)));
            let stops = once.trace.iter().filter(|line| line.ends_with("receives the stop signal")).count();
            assert!(stops > 0, "seed {seed}: no server was stopped");
            assert_eq!(once.threads, 0, "seed {seed}: a thread outside the simulation ran");
            assert_eq!(once.trace.join("\n"), again.trace.join("\n"), "seed {seed}");
        }
    }
}

#[test]
fn run_without_faults_keeps_every_guarantee() {
    for world in [WorldKind::Embedded, WorldKind::Fleet] {
        let outcome = run(&RunPlan { busy: Duration::ZERO, ..RunPlan::new(1, Some(world)) });
        assert!(outcome.finding.is_none() && outcome.sends == 0, "{:?}", outcome.finding);
    }
}

#[test]
fn same_seed_gives_an_identical_trace() {
    for world in [WorldKind::Embedded, WorldKind::Fleet] {
        let (once, again) = (run(&RunPlan::new(7, Some(world))), run(&RunPlan::new(7, Some(world))));
        assert!(once.trace.len() > 100, "{} lines", once.trace.len());
        assert_eq!(once.trace.join("\n"), again.trace.join("\n"));
        assert_ne!(once.trace, run(&RunPlan::new(8, Some(world))).trace);
    }
}

/// Number of seeds within which each planted bug must be found.
const SEEDS: u64 = 20;

#[test]
fn every_planted_bug_is_found_within_its_seeds_and_named() {
    for plant in PlantedBug::ALL {
        let found = (1..=SEEDS).find_map(|seed| run(&RunPlan::planted(seed, plant)).finding);
        let found = found.unwrap_or_else(|| panic!("{plant:?} was not found in {SEEDS} seeds"));
        assert!(plant.breaks().contains(&found.guarantee), "{plant:?}: {found:?}");
    }
}
