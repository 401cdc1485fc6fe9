//! A run in a process of its own, so that nothing of an earlier one is left in it: the same seed gives the same trace, byte
//! for byte, whatever was run before and beside it.

use std::process::{Command, Stdio};

use clap::ValueEnum;
use thiserror::Error;

use crate::faults::Fault;
use crate::run::{Outcome, Plan};
use crate::world::WorldKind;

/// The flag with which this program runs one plan and prints its outcome as JSON.
pub const ALONE: &str = "--alone";

#[derive(Debug, Error)]
pub enum Failure {
    #[error("this program cannot be started again: {0}")]
    Start(#[from] std::io::Error),
    #[error("the run of seed {seed} ended without an outcome: {status}")]
    NoOutcome { seed: u64, status: std::process::ExitStatus },
}

/// The flags that stand for the plan.
pub fn flags(plan: &Plan) -> Vec<String> {
    let mut flags = vec!["--seeds".to_owned(), plan.seed.to_string()];
    match plan.plant {
        Some(plant) => flags.extend(["--plant".to_owned(), name(plant)]),
        None => flags.extend(["--world".to_owned(), name(plan.world)]),
    }
    let usual = Plan::new(plan.seed, Some(plan.world));
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

pub fn run(plan: &Plan) -> Result<Outcome, Failure> {
    let program = std::env::current_exe()?;
    run_by(&program, plan)
}

/// By another program of this name, as tests need it.
pub fn run_by(program: &std::path::Path, plan: &Plan) -> Result<Outcome, Failure> {
    let mut command = Command::new(program);
    let done = command.args(flags(plan)).arg(ALONE).stderr(Stdio::inherit()).output()?;
    let no_outcome = |_| Failure::NoOutcome { seed: plan.seed, status: done.status };
    serde_json::from_slice(&done.stdout).map_err(no_outcome)
}

/// All faults of a world but these.
pub fn faults_without(world: WorldKind, without: &[Fault]) -> std::collections::BTreeSet<Fault> {
    Fault::of(world).into_iter().filter(|fault| !without.contains(fault)).collect()
}
