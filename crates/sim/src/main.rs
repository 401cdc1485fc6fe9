//! The `bluetick-sim` command: runs seeds and reports the failures.

use std::ops::Range;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bluetick_sim::audit::Guarantee;
use bluetick_sim::faults::Fault;
use bluetick_sim::plant::PlantedBug;
use bluetick_sim::process::{self, RunProcessError, faults_without};
use bluetick_sim::run::{RunOutcome, RunPlan};
use bluetick_sim::shrink::{essence, shrink};
use bluetick_sim::world::WorldKind;
use clap::Parser;
use parking_lot::Mutex;

/// Runs whole servers in simulated time, by seed, and audits what their clients see
#[derive(Parser, Debug)]
#[command(version, after_help = HELP)]
struct Arguments {
    /// Seeds to run: FIRST..END (END excluded), or a single number
    #[arg(long, value_parser = parse_seeds, default_value = "1..100")]
    seeds: Range<u64>,
    /// Run one world only; by default even seeds run embedded and odd seeds run fleet
    #[arg(long)]
    world: Option<WorldKind>,
    /// Plant a bug, and stop at the first seed that finds it
    #[arg(long, conflicts_with = "world")]
    plant: Option<PlantedBug>,
    /// Plant each bug in turn, and print the seed that found it
    #[arg(long, conflicts_with_all = ["world", "plant"])]
    plants: bool,
    /// Print the trace of each run, line by line
    #[arg(long)]
    trace: bool,
    /// Disable these kinds of faults (comma-separated)
    #[arg(long, value_delimiter = ',')]
    without: Vec<Fault>,
    /// Length of the busy phase of each run in simulated milliseconds; overrides the seed's value
    #[arg(long)]
    busy_ms: Option<u64>,
    /// Run one seed in this process and print its outcome as JSON
    #[arg(long, hide = true)]
    alone: bool,
    /// Do not shrink a failing run
    #[arg(long)]
    no_shrinking: bool,
    /// Number of seeds to run in parallel
    #[arg(long, default_value_t = default_jobs())]
    jobs: usize,
}

/// Explanation and examples below the flags.
const HELP: &str = "\
Each seed is one run. Simulated users exchange messages for ten to sixty seconds of simulated time while connections,
disks, tables, Redis and whole servers fail. Then the faults stop, and all devices and servers must agree. If a run
breaks a guarantee, the command prints the seed and the smallest plan that reproduces it, and exits with 1.

Examples:
  bluetick-sim --seeds 1..10000
  bluetick-sim --seeds 4711 --trace       print the trace of one run; it is the same every time
  bluetick-sim --plants                   check that planted bugs are found
  bluetick-sim --seeds 1..500 --plant lost-void";

fn default_jobs() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn parse_seeds(text: &str) -> Result<Range<u64>, String> {
    let number = |text: &str| text.trim().parse::<u64>().map_err(|error| format!("{text:?}: {error}"));
    let range = match text.split_once("..") {
        Some((first, end)) => number(first)?..number(end)?,
        None => number(text)?..number(text)?.checked_add(1).ok_or("too large")?,
    };
    if range.is_empty() { Err("the range is empty".to_owned()) } else { Ok(range) }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match &arguments {
        Arguments { alone: true, .. } => run_alone(&arguments),
        Arguments { plants: true, .. } => try_plants(&arguments),
        _ => run_seeds(&arguments),
    };
    done.unwrap_or_else(|failure| {
        eprintln!("bluetick-sim: {failure}");
        ExitCode::from(2)
    })
}

fn run_alone(arguments: &Arguments) -> Result<ExitCode, RunProcessError> {
    let outcome = bluetick_sim::run::run(&arguments.plan(arguments.seeds.start, arguments.plant));
    println!("{}", serde_json::to_string(&outcome).expect("an outcome holds strings and numbers only"));
    Ok(ExitCode::SUCCESS)
}

fn run_seeds(arguments: &Arguments) -> Result<ExitCode, RunProcessError> {
    match (run_all(arguments, arguments.plant)?, arguments.plant) {
        (None, None) => Ok(ExitCode::SUCCESS),
        (Some(failed), _) => {
            print_failure(&failed, arguments.no_shrinking)?;
            Ok(ExitCode::FAILURE)
        }
        (None, Some(_)) => {
            println!("the planted bug was not found");
            Ok(ExitCode::FAILURE)
        }
    }
}

impl Arguments {
    fn plan(&self, seed: u64, plant: Option<PlantedBug>) -> RunPlan {
        let plan = match plant {
            Some(plant) => RunPlan::planted(seed, plant),
            None => RunPlan::new(seed, self.world),
        };
        let busy = self.busy_ms.map_or(plan.busy, Duration::from_millis);
        RunPlan { busy, faults: faults_without(plan.world, &self.without), ..plan }
    }
}

struct Failed {
    plan: RunPlan,
    guarantee: Guarantee,
    what: String,
}

/// Totals over all runs.
#[derive(Default)]
struct RunTotals {
    seeds: AtomicU64,
    simulated_ms: AtomicU64,
    faults: AtomicU64,
    sends: AtomicU64,
    connections: AtomicU64,
    requests: AtomicU64,
}

impl RunTotals {
    fn add(&self, outcome: &RunOutcome) {
        let simulated = u64::try_from(outcome.simulated.as_millis()).unwrap_or(u64::MAX);
        let parts = [
            (&self.seeds, 1),
            (&self.simulated_ms, simulated),
            (&self.faults, outcome.faults),
            (&self.sends, outcome.sends),
            (&self.connections, outcome.connections),
            (&self.requests, outcome.requests),
        ];
        parts.into_iter().for_each(|(sum, part)| {
            sum.fetch_add(part, Ordering::Relaxed);
        });
    }

    fn line(&self, since: Instant) -> String {
        let of = |sum: &AtomicU64| sum.load(Ordering::Relaxed);
        let seconds = since.elapsed().as_secs_f64();
        format!(
            "{} seeds in {seconds:.1} s ({:.1} a second), {:.2} hours simulated, {} faults, {} messages, {} connections, {} requests",
            of(&self.seeds),
            of(&self.seeds) as f64 / seconds.max(0.001),
            of(&self.simulated_ms) as f64 / 3_600_000.0,
            of(&self.faults),
            of(&self.sends),
            of(&self.connections),
            of(&self.requests),
        )
    }
}

/// Minimum time between two progress lines on stderr.
const PROGRESS: Duration = Duration::from_secs(10);

/// Runs the seeds in parallel and returns the failure with the lowest seed among the seeds that
/// ran. Workers stop taking seeds after the first failure.
fn run_all(arguments: &Arguments, plant: Option<PlantedBug>) -> Result<Option<Failed>, RunProcessError> {
    let (began, sum) = (Instant::now(), RunTotals::default());
    let (next, failed) = (AtomicU64::new(arguments.seeds.start), Mutex::new(None::<Failed>));
    let (said, gone_wrong) = (Mutex::new(Instant::now()), Mutex::new(None::<RunProcessError>));
    std::thread::scope(|scope| {
        for _ in 0..arguments.jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    let is_over = failed.lock().is_some();
                    if is_over || !arguments.seeds.contains(&seed) {
                        return;
                    }
                    let plan = arguments.plan(seed, plant);
                    let outcome = match process::run(&plan) {
                        Ok(outcome) => outcome,
                        Err(failure) => {
                            *gone_wrong.lock() = Some(failure);
                            return;
                        }
                    };
                    sum.add(&outcome);
                    if arguments.trace {
                        println!("seed {seed}\n{}", outcome.trace.join("\n"));
                    }
                    if let Some(finding) = outcome.finding {
                        let mut failed = failed.lock();
                        if failed.as_ref().is_none_or(|before| before.plan.seed > seed) {
                            let (guarantee, what) = (finding.guarantee, finding.what);
                            *failed = Some(Failed { plan, guarantee, what });
                        }
                    }
                    let mut said = said.lock();
                    if said.elapsed() > PROGRESS {
                        *said = Instant::now();
                        eprintln!("{}", sum.line(began));
                    }
                }
            });
        }
    });
    match arguments {
        Arguments { plants: true, .. } => {}
        // Timings vary between runs, so they go to stderr and the trace on stdout stays
        // deterministic.
        Arguments { trace: true, .. } => eprintln!("{}", sum.line(began)),
        _ => println!("{}", sum.line(began)),
    }
    match gone_wrong.into_inner() {
        Some(failure) => Err(failure),
        None => Ok(failed.into_inner()),
    }
}

fn print_failure(failed: &Failed, no_shrinking: bool) -> Result<(), RunProcessError> {
    let Failed { plan, guarantee, what } = failed;
    println!("\nseed {} breaks {guarantee}: {what}", plan.seed);
    if no_shrinking {
        return Ok(());
    }
    eprintln!("minimizing the failing run …");
    let (least, outcome) = shrink(plan, *guarantee)?;
    let faults: Vec<_> = least.faults.iter().map(|fault| format!("{fault:?}")).collect();
    println!(
        "smallest failing plan: {:?}, {:.1} s busy, faults: {}",
        least.world,
        least.busy.as_secs_f64(),
        if faults.is_empty() { "none".to_owned() } else { faults.join(", ") }
    );
    println!("{}", essence(&outcome).join("\n"));
    println!("\nrepeat with: bluetick-sim {} --trace", process::flags(&least).join(" "));
    Ok(())
}

fn plant_name(plant: PlantedBug) -> String {
    use clap::ValueEnum;
    plant.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// Plants each bug in turn and prints a table: bug, the seed that found it, and the broken
/// guarantee.
fn try_plants(arguments: &Arguments) -> Result<ExitCode, RunProcessError> {
    let mut all_found = true;
    println!("| planted bug | found by seed | violated guarantee |\n|---|---|---|");
    for plant in PlantedBug::ALL {
        let found = run_all(arguments, Some(plant))?;
        match &found {
            Some(failed) if plant.breaks().contains(&failed.guarantee) => {
                println!("| {} | {} | {} |", plant_name(plant), failed.plan.seed, failed.guarantee);
            }
            Some(failed) => {
                all_found = false;
                println!(
                    "| {} | {} | {}, which is not expected of this bug: {} |",
                    plant_name(plant),
                    failed.plan.seed,
                    failed.guarantee,
                    failed.what
                );
            }
            None => {
                all_found = false;
                println!("| {} | not found | |", plant_name(plant));
            }
        }
    }
    Ok(if all_found { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
