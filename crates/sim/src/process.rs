//! Runs a plan in a separate process, free of the state of earlier runs. The same seed then
//! produces the same trace, byte for byte, whatever ran before or in parallel.

use std::process::{Command, Stdio};

use clap::ValueEnum;
use thiserror::Error;

use crate::faults::Fault;
use crate::run::{RunOutcome, RunPlan};
use crate::world::WorldKind;

/// The flag that makes this program run one plan and print its outcome as JSON.
pub const ALONE: &str = "--alone";

#[derive(Debug, Error)]
pub enum RunProcessError {
    #[error("this program cannot be started again: {0}")]
    Start(#[from] std::io::Error),
    #[error("the run of seed {seed} ended without an outcome: {status}")]
    NoOutcome { seed: u64, status: std::process::ExitStatus },
}

/// Returns the command-line flags that reproduce the plan.
pub fn flags(plan: &RunPlan) -> Vec<String> {
    let mut flags = vec!["--seeds".to_owned(), plan.seed.to_string()];
    match plan.plant {
        Some(plant) => flags.extend(["--plant".to_owned(), name(plant)]),
        None => flags.extend(["--world".to_owned(), name(plan.world)]),
    }
    let usual = RunPlan::new(plan.seed, Some(plan.world));
    if plan.busy != usual.busy {
        flags.extend(["--busy-ms".to_owned(), plan.busy.as_millis().to_string()]);
    }
    let without: Vec<_> = usual.faults.difference(&plan.faults).map(|fault| name(*fault)).collect();
    if !without.is_empty() {
        flags.extend(["--without".to_owned(), without.join(",")]);
    }
    flags
}

fn name(value: impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

pub fn run(plan: &RunPlan) -> Result<RunOutcome, RunProcessError> {
    let program = std::env::current_exe()?;
    run_by(&program, plan)
}

/// Runs the plan with the given `bluetick-sim` executable; tests are separate programs and need
/// this.
pub fn run_by(program: &std::path::Path, plan: &RunPlan) -> Result<RunOutcome, RunProcessError> {
    let mut command = Command::new(program);
    let done = command.args(flags(plan)).arg(ALONE).stderr(Stdio::inherit()).output()?;
    let no_outcome = |_| RunProcessError::NoOutcome { seed: plan.seed, status: done.status };
    serde_json::from_slice(&done.stdout).map_err(no_outcome)
}

/// Returns all faults of a world except `without`.
pub fn faults_without(world: WorldKind, without: &[Fault]) -> std::collections::BTreeSet<Fault> {
    Fault::of(world).into_iter().filter(|fault| !without.contains(fault)).collect()
}
