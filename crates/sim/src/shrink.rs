//! Minimizes a failing run: fewer kinds of faults, a shorter busy phase, and only the relevant
//! trace lines.

use std::time::Duration;

use crate::audit::Guarantee;
use crate::process::{RunProcessError, run};
use crate::run::{RunOutcome, RunPlan};

/// Returns the smallest plan found that breaks the same guarantee, and its outcome. Takes one run
/// per kind of fault and a few more.
pub fn shrink(failed: &RunPlan, guarantee: Guarantee) -> Result<(RunPlan, RunOutcome), RunProcessError> {
    let mut least = failed.clone();
    let mut outcome = run(&least)?;
    let fails = |plan: &RunPlan| -> Result<Option<RunOutcome>, RunProcessError> {
        let outcome = run(plan)?;
        let same = outcome.finding.as_ref().is_some_and(|finding| finding.guarantee == guarantee);
        Ok(same.then_some(outcome))
    };
    for fault in failed.faults.clone() {
        let mut plan = least.clone();
        plan.faults.remove(&fault);
        if let Some(smaller) = fails(&plan)? {
            (least, outcome) = (plan, smaller);
        }
    }
    // Time after the failure is irrelevant.
    let mut busy = outcome.simulated.min(least.busy);
    while busy > Duration::from_millis(200) {
        busy = busy * 3 / 4;
        let plan = RunPlan { busy, ..least.clone() };
        match fails(&plan)? {
            Some(smaller) => (least, outcome) = (plan, smaller),
            None => break,
        }
    }
    Ok((least, outcome))
}

/// Maximum number of trace lines to print. If it is too small, the cause of the finding is cut off.
const LINES: usize = 60;

/// Returns the last trace lines about the finding's conversation, the servers and the auditor.
pub fn essence(outcome: &RunOutcome) -> Vec<&str> {
    let id = outcome.finding.as_ref().and_then(|finding| finding.conversation.as_ref());
    let concerns = |line: &&String| {
        let who = line.get(9..).unwrap_or_default();
        let is_about = id.as_ref().is_none_or(|id| line.contains(&id[..8.min(id.len())]));
        is_about || ["server", "fleet", "all", "auditor"].iter().any(|part| who.starts_with(part))
    };
    let lines: Vec<&str> = outcome.trace.iter().filter(concerns).map(String::as_str).collect();
    let skipped = lines.len().saturating_sub(LINES);
    lines[skipped..].to_vec()
}
