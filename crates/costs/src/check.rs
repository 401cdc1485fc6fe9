//! Counts every path, prints the differences from the stored costs and decides whether they are
//! acceptable.

use std::io;
use std::process::{Command, ExitCode};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::callgrind::{Performance, count};
use crate::stored_costs::{Cost, RecordedCosts};
use crate::workload::Path;

/// Allowed increase over the stored costs, in percent. Runs of one binary on one processor differ
/// by about 4 %, because frames fall into batches differently. Another compiler or another
/// processor's memcpy adds some more.
const MARGIN_PERCENT: f64 = 25.0;

/// Upper bound on measured runs per path. Some runs have much smaller batches and cost more, so the
/// check repeats a failing run and keeps the cheapest.
const ATTEMPTS: usize = 3;

/// Minimum number of frames per socket write. A lower value means that the server writes single
/// frames instead of batches.
const LEAST_FRAMES_PER_WRITE: f64 = 4.0;

/// Runs the check. If `BLUETICK_BLESS` is set, it stores the counted costs instead of comparing
/// them.
pub fn check() -> ExitCode {
    match count_all_and_judge() {
        Ok(complaints) if complaints.is_empty() => ExitCode::SUCCESS,
        Ok(complaints) => {
            complaints.iter().for_each(|complaint| eprintln!("{complaint}"));
            ExitCode::FAILURE
        }
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::from(2)
        }
    }
}

fn count_all_and_judge() -> Result<Vec<String>, String> {
    stay_on_one_processor().map_err(|error| format!("cannot pin the process to one processor: {error}"))?;
    let blesses = std::env::var_os("BLUETICK_BLESS").is_some();
    let kept = if blesses { RecordedCosts::default() } else { RecordedCosts::of_every_path()? };
    let mut counted = RecordedCosts { rustc: rustc_version()?, ..RecordedCosts::default() };
    let mut complaints = Vec::new();
    println!("path     of a       instructions         change    allocations        frames a write");
    for path in Path::ALL {
        let before = kept.paths.get(path.name()).copied();
        let performance = least(path, |performance| {
            before.is_some_and(|before| judge(path, before, performance).is_empty())
        })?;
        let now = Cost::of(&performance);
        println!("{}", line(path, before, now, &performance));
        if let Some(before) = before {
            complaints.extend(judge(path, before, &performance));
        }
        counted.paths.insert(path.name().to_owned(), now);
    }
    if blesses {
        counted.write()?;
    } else {
        if kept.rustc != counted.rustc {
            println!("the stored costs were counted with rustc {}, these with {}", kept.rustc, counted.rustc);
        }
        println!("to update the stored costs: BLUETICK_BLESS=1 ./test costs");
    }
    Ok(complaints)
}

/// Pins this process and its children to one processor, which makes scheduling depend less on the
/// machine.
fn stay_on_one_processor() -> io::Result<()> {
    let allowed = sched_getaffinity(None)?;
    let mut one = CpuSet::new();
    if let Some(first) = (0..CpuSet::MAX_CPU).find(|number| allowed.is_set(*number)) {
        one.set(first);
    }
    Ok(sched_setaffinity(None, &one)?)
}

/// Returns the first measured run that satisfies `will_do`, or the cheapest of all attempts.
fn least(path: Path, will_do: impl Fn(&Performance) -> bool) -> Result<Performance, String> {
    let mut least = count(path)?;
    for _ in 1..ATTEMPTS {
        if will_do(&least) {
            break;
        }
        let another = count(path)?;
        if another.counts.instructions < least.counts.instructions {
            least = another;
        }
    }
    Ok(least)
}

fn judge(path: Path, before: Cost, performance: &Performance) -> Vec<String> {
    let grown = grown(path, before, Cost::of(performance));
    grown.into_iter().chain(written_singly(path, performance)).collect()
}

fn rustc_version() -> Result<String, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = Command::new(rustc).arg("--version").output().map_err(|error| format!("rustc: {error}"))?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    said.split(' ').nth(1).map(str::to_owned).ok_or_else(|| "rustc does not print its version".to_owned())
}

fn line(path: Path, before: Option<Cost>, now: Cost, performance: &Performance) -> String {
    let arrow = |decimals: usize, before: Option<f64>, now: f64| match before {
        Some(before) => format!("{before:.decimals$} → {now:.decimals$}"),
        None => format!("{now:.decimals$}"),
    };
    let instructions = arrow(0, before.map(|before| before.instructions as f64), now.instructions as f64);
    let change = before.map(|before| format!("{:+.1} %", change_percent(before, now))).unwrap_or_default();
    let allocations = arrow(2, before.map(|before| before.allocations), now.allocations);
    let frames = frames_per_write(performance).map(|frames| format!("{frames:.1}")).unwrap_or_default();
    let (name, unit) = (path.name(), path.unit());
    format!("{name:<8} {unit:<10} {instructions:<20} {change:<9} {allocations:<18} {frames}")
}

fn change_percent(before: Cost, now: Cost) -> f64 {
    (now.instructions as f64 / before.instructions as f64 - 1.0) * 100.0
}

fn grown(path: Path, before: Cost, now: Cost) -> Option<String> {
    let (name, unit, change) = (path.name(), path.unit(), change_percent(before, now));
    (change > MARGIN_PERCENT).then(|| {
        format!(
            "{name}: a {unit} takes {change:.0} % more instructions than it did. Where: callgrind_annotate \
             --inclusive=yes target/callgrind/{name}/out-02 (a file a thread). If it is worth it, renew what is kept"
        )
    })
}

fn frames_per_write(performance: &Performance) -> Option<f64> {
    (performance.frames > 0).then(|| performance.frames as f64 / performance.counts.writes as f64)
}

fn written_singly(path: Path, performance: &Performance) -> Option<String> {
    let frames = frames_per_write(performance)?;
    let are_gathered = frames.is_finite() && frames >= LEAST_FRAMES_PER_WRITE;
    (!are_gathered).then(|| {
        format!("{}: {frames:.1} frames a write; at least {LEAST_FRAMES_PER_WRITE} are expected", path.name())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::callgrind::Counts;

    fn cost(instructions: u64) -> Cost {
        Cost { instructions, allocations: 1.0, socket_writes: 1.0 }
    }

    fn performance(frames: u64, writes: u64) -> Performance {
        Performance { counts: Counts { writes, ..Counts::default() }, units: 1, frames }
    }

    #[test]
    fn only_growth_beyond_the_margin_is_reported() {
        assert!(grown(Path::Send, cost(1000), cost(1200)).is_none());
        assert!(grown(Path::Send, cost(1000), cost(500)).is_none());
        assert!(grown(Path::Send, cost(1000), cost(1300)).unwrap().starts_with("send: a message takes 30 %"));
    }

    #[test]
    fn frames_written_singly_or_uncounted_are_reported() {
        assert!(written_singly(Path::Send, &performance(1000, 100)).is_none());
        assert!(written_singly(Path::Send, &performance(1000, 900)).is_some());
        assert!(written_singly(Path::Send, &performance(1000, 0)).is_some());
        assert!(written_singly(Path::History, &performance(0, 100)).is_none());
    }
}
