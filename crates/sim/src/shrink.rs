//! From a run that failed to the least that still does: fewer kinds of faults, less time, and of its trace the lines that
//! concern the conversation.

use std::time::Duration;

use crate::audit::Guarantee;
use crate::process::{Failure, run};
use crate::run::{Outcome, Plan};

/// The smallest plan that breaks the same guarantee, and what happened in it. Takes a run for each kind of fault and a few
/// more.
pub fn shrink(failed: &Plan, guarantee: Guarantee) -> Result<(Plan, Outcome), Failure> {
    let mut least = failed.clone();
    let mut outcome = run(&least)?;
    let fails = |plan: &Plan| -> Result<Option<Outcome>, Failure> {
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
    // Anything later has nothing to do with it.
    let mut busy = outcome.simulated.min(least.busy);
    while busy > Duration::from_millis(200) {
        busy = busy * 3 / 4;
        let plan = Plan { busy, ..least.clone() };
        match fails(&plan)? {
            Some(smaller) => (least, outcome) = (plan, smaller),
            None => break,
        }
    }
    Ok((least, outcome))
}

/// How many lines of a trace are worth reading.
const LINES: usize = 60;

/// The lines that concern the conversation of the finding, and what broke; the last of them.
pub fn essence(outcome: &Outcome) -> Vec<&str> {
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
