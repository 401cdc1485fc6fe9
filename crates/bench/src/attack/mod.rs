//! The `attack` workload. Honest pairs send messages at a constant, moderate rate, first
//! undisturbed and then during each attack. The report compares their ack latencies. The server
//! runs with its default limits.

mod connections;
mod frames;
mod kinds;
mod requests;
mod running;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bluetick_core::ConversationId;
use bluetick_core::ports::Store;
use tokio::task::JoinSet;

use crate::data_directory::Ground;
use crate::files::allow_files;
use crate::load::{Load, LoadOutcome, dismiss, offer};
use crate::progress::step;
use crate::seed::{SeededChat, always, fill, open, person};
use crate::traffic::{LoadSender, LoadTally, receive};
use crate::under_test::{ServerUnderTest, connect};
use crate::workload::{Dice, texts};
use crate::{BenchError, BenchReport};
pub use kinds::Attack;
use running::{AttackContext, AttackCosts, RunningAttack};

#[derive(Clone, Debug)]
pub struct AttackBench {
    pub directory: PathBuf,
    /// Path of the server binary under test.
    pub binary: PathBuf,
    pub pairs: usize,
    /// Messages per second, summed over all honest pairs.
    pub rate: u64,
    /// Duration of each phase, in seconds.
    pub seconds: u64,
    /// How many times each attack runs.
    pub rounds: u64,
    /// Number of connections that a connection attack holds open.
    pub connections: usize,
    pub attacks: Vec<Attack>,
}

/// The server's default limits. `ServerUnderTest` disables limits, so this workload sets them
/// again.
const USUAL_LIMITS: [(&str, &str); 6] = [
    ("BLUETICK_LIMITS__SENDS_PER_SECOND", "100"),
    ("BLUETICK_LIMITS__REQUESTS_PER_SECOND", "200"),
    ("BLUETICK_LIMITS__ACKS_PER_SECOND", "2000"),
    ("BLUETICK_LIMITS__CONNECTIONS_PER_ADDRESS", "2000"),
    ("BLUETICK_LIMITS__CONNECTS_PER_ADDRESS_PER_SECOND", "500"),
    ("BLUETICK_LIMITS__CONNECTS_PER_USER_PER_MINUTE", "120"),
];
/// Size of each honest message's text, in bytes. A larger one lowers the rate that the pairs reach.
const BODY_BYTES: usize = 100;
/// Upper bound on unacknowledged messages of one honest sender. It must not exceed the default of
/// `limits.in_flight_sends_per_connection`.
const OUTSTANDING: usize = 256;
/// Pause between an attack and the next quiet phase. If it is too short, the quiet phase measures
/// the end of the attack.
const REST: Duration = Duration::from_secs(1);
/// Number of attacker accounts. Each attacker account has a peer account and a direct conversation
/// with it.
const ATTACKERS: usize = 100;
/// Target: an attack may multiply the p99 ack latency of honest pairs by at most this factor.
const WANTED_TIMES: f64 = 3.0;

pub fn run(bench: AttackBench) -> Result<BenchReport, BenchError> {
    allow_files((bench.connections + 2 * bench.pairs + 2 * ATTACKERS) as u64)?;
    Ground::bare(bench.directory.clone()).run(1, measure(&bench))
}

fn pair(name: &str, number: usize) -> SeededChat {
    SeededChat {
        from: person(&format!("{name}-a"), number),
        to: person(&format!("{name}-b"), number),
        messages: 0,
    }
}

/// Returns the source address of an honest client. The range is disjoint from the attackers'
/// addresses.
fn honest_source(number: usize) -> SocketAddr {
    let address = u32::from(Ipv4Addr::new(127, 1, 0, 1)) + number as u32;
    SocketAddr::from((Ipv4Addr::from(address), 0))
}

async fn measure(bench: &AttackBench) -> Result<BenchReport, BenchError> {
    let mut report = BenchReport::new("attack")
        .parameter("pairs", bench.pairs as u64)
        .parameter("rate_per_second", bench.rate)
        .parameter("seconds", bench.seconds)
        .parameter("rounds", bench.rounds)
        .parameter("connections", bench.connections as u64);
    let store = open(&bench.directory)?;
    let honest = (0..bench.pairs).map(|number| pair("honest", number));
    let attackers = (0..ATTACKERS).map(|number| pair("attacker", number));
    fill(&store, honest.chain(attackers), &always("")).await?;
    store.close().await;
    drop(store);

    let server = ServerUnderTest::start_with(&bench.binary, &bench.directory, &USUAL_LIMITS).await?;
    let received = Arc::new(LoadTally::default());
    let bodies = texts(BODY_BYTES, 256, &mut Dice::new(7));
    let (mut senders, mut receiving) = (Vec::with_capacity(bench.pairs), JoinSet::new());
    for number in 0..bench.pairs {
        let SeededChat { from, to, .. } = pair("honest", number);
        let id = ConversationId::direct(&from, &to);
        let source = Some(honest_source(number));
        let line = connect(server.address, source, &server.token(&from)?, |_| ()).await?;
        senders.push(LoadSender::new(line, id, &bodies[number % bodies.len()]));
        let line = connect(server.address, source, &server.token(&to)?, |_| ()).await?;
        receiving.spawn(receive(line, id, Arc::clone(&received)));
    }
    let field = Arc::new(field(bench, &server)?);

    let load = Load::Rate { per_second: bench.rate, bound: OUTSTANDING };
    let mut quiet = Vec::new();
    let mut disturbed: Vec<(Attack, Vec<PhaseUnderAttack>)> =
        bench.attacks.iter().map(|attack| (*attack, Vec::new())).collect();
    for round in 1..=bench.rounds {
        for (attack, phases) in &mut disturbed {
            step(&format!("round {round}: quiet"));
            let phase = offer(load, bench.seconds, senders, &received, &server, &bench.directory);
            let (outcome, back) = phase.await?;
            quiet.push(outcome);
            step(&format!("round {round}: {}", attack.title()));
            let squad = RunningAttack::send(*attack, Arc::clone(&field))?;
            squad.deploy().await?;
            let phase = offer(load, bench.seconds, back, &received, &server, &bench.directory).await;
            let spent = squad.call_back()?;
            let (outcome, back) = phase?;
            phases.push(PhaseUnderAttack { outcome, spent });
            senders = back;
            tokio::time::sleep(REST).await;
        }
    }
    dismiss(receiving).await?;
    let peak = server.peak_bytes();
    server.stop().await?;
    put_into(&mut report, &quiet, &disturbed);
    report.figure("server_peak_resident_bytes", "resident memory of the server, peak", peak as f64, "bytes");
    Ok(report)
}

fn field(bench: &AttackBench, server: &ServerUnderTest) -> Result<AttackContext, BenchError> {
    let mut accounts = Vec::with_capacity(ATTACKERS);
    for number in 0..ATTACKERS {
        let SeededChat { from, to, .. } = pair("attacker", number);
        let conversation = ConversationId::direct(&from, &to);
        accounts.push(running::Account {
            token: server.token(&from)?,
            peer_token: server.token(&to)?,
            conversation,
        });
    }
    Ok(AttackContext { to: server.address, accounts, connections: bench.connections })
}

/// The measurements of one phase under attack.
struct PhaseUnderAttack {
    outcome: LoadOutcome,
    spent: AttackCosts,
}

/// Returns the median over several phases. The median reduces the effect of other load on the
/// machine.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn put_into(report: &mut BenchReport, quiet: &[LoadOutcome], disturbed: &[(Attack, Vec<PhaseUnderAttack>)]) {
    let of_quiet = |of: fn(&LoadOutcome) -> f64| median(quiet.iter().map(of).collect());
    let quiet_p99 = of_quiet(LoadOutcome::ack_p99_ms);
    report.figure("quiet_ack_p50_ms", "quiet: due to ack, p50", of_quiet(LoadOutcome::ack_p50_ms), "ms");
    report.figure("quiet_ack_p99_ms", "quiet: due to ack, p99", quiet_p99, "ms");
    let worst = quiet.iter().map(LoadOutcome::ack_p99_ms).fold(0.0, f64::max);
    report.figure("quiet_ack_worst_p99_ms", "quiet: the worst phase's p99", worst, "ms");
    let cores = of_quiet(LoadOutcome::server_cores);
    report.figure("quiet_server_cores", "quiet: processors the server took", cores, "");
    for (attack, phases) in disturbed {
        let (key, title) = (attack.key(), attack.title());
        let of = |of: &dyn Fn(&PhaseUnderAttack) -> f64| median(phases.iter().map(of).collect());
        let mut figure = |what: &str, label: &str, number: f64, unit: &str| {
            report.figure(format!("{key}_{what}"), format!("{title}: {label}"), number, unit);
        };
        let p99 = of(&|phase| phase.outcome.ack_p99_ms());
        let times = p99 / quiet_p99;
        figure("ack_p50_ms", "due to ack, p50", of(&|phase| phase.outcome.ack_p50_ms()), "ms");
        figure("ack_p99_ms", "due to ack, p99", p99, "ms");
        figure("ack_p99_times_quiet", "p99 relative to quiet", times, "times");
        let kept = of(&|phase| phase.outcome.kept_percent());
        figure("kept_percent", "of what was due, acknowledged in time", kept, "%");
        figure("acts_per_second", attack.act(), of(&|phase| phase.spent.each_second(phase.spent.acts)), "/s");
        let refusals = of(&|phase| phase.spent.each_second(phase.spent.refusals));
        figure("refusals_per_second", "refused, closed or not accepted", refusals, "/s");
        let cores = of(&|phase| phase.outcome.server_cores());
        figure("server_cores", "processors the server took", cores, "");
        let cores = of(&|phase| phase.spent.cpu_seconds / phase.spent.seconds);
        figure("attackers_cores", "processors the attackers took", cores, "");
        if times > WANTED_TIMES {
            report.remark(format!("{title}: {times:.1} times the quiet p99, above {WANTED_TIMES}"));
        }
    }
    report.remark(
        "attackers run on one thread of the lowest priority and share the processors with the server",
    );
}
