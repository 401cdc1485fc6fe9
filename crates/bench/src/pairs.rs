//! The `pairs` workload. In each pair one user sends, and the other receives and acknowledges over
//! WebSockets.

use std::path::PathBuf;
use std::sync::Arc;

use bluetick_core::ConversationId;
use bluetick_core::ports::Store;
use tokio::task::JoinSet;

use crate::bare_log::one_fsync;
use crate::data_directory::{Ground, Run};
use crate::load::{Load, LoadOutcome, dismiss, offer};
use crate::progress::step;
use crate::seed::{SeededChat, always, fill, open};
use crate::traffic::{LoadSender, LoadTally, receive};
use crate::under_test::ServerUnderTest;
use crate::workload::{Dice, texts};
use crate::{BenchError, BenchReport};

#[derive(Clone, Debug)]
pub struct PairsBench {
    pub ground: Ground,
    /// Path of the server binary under test.
    pub binary: PathBuf,
    pub pairs: usize,
    pub load: PairsLoad,
    pub body_bytes: usize,
    pub seconds: u64,
}

#[derive(Clone, Copy, Debug)]
pub enum PairsLoad {
    Given(Load),
    /// Half of the rate that a closed loop with one unacknowledged message per pair reached.
    Half,
}

/// Upper bound on how long the closed loop for [`PairsLoad::Half`] runs, in seconds.
const SEARCH_SECONDS: u64 = 5;

pub fn run(bench: PairsBench) -> Result<BenchReport, BenchError> {
    bench.ground.run(2, measure(&bench))
}

async fn measure(bench: &PairsBench) -> Result<BenchReport, BenchError> {
    let mut report = BenchReport::new("pairs")
        .parameter("pairs", bench.pairs as u64)
        .parameter("body_bytes", bench.body_bytes as u64)
        .parameter("seconds", bench.seconds);
    if let PairsLoad::Given(load) = bench.load {
        report = load.describe(report);
    }
    let mut report = bench.ground.describe(report);
    let directory = bench.ground.directory();
    let store = open(directory)?;
    let run = Run::new();
    let chat = |number| {
        let (from, to) =
            (bench.ground.person(run, "sender", number), bench.ground.person(run, "receiver", number));
        SeededChat { from, to, messages: 0 }
    };
    fill(&store, (0..bench.pairs).map(chat), &always("")).await?;
    store.close().await;
    drop(store);
    step("measuring one fsync of this disk");
    let fsync = one_fsync(directory)?;

    let server = ServerUnderTest::start(&bench.binary, directory).await?;
    step(&format!("the server started in {:.0} ms", server.started_in.as_secs_f64() * 1e3));
    let received = Arc::new(LoadTally::default());
    let bodies = texts(bench.body_bytes, 256, &mut Dice::new(7));
    let mut senders = Vec::with_capacity(bench.pairs);
    let mut receiving = JoinSet::new();
    for number in 0..bench.pairs {
        let SeededChat { from, to, .. } = chat(number);
        let id = ConversationId::direct(&from, &to);
        let line = server.connect(&from).await?;
        senders.push(LoadSender::new(line, id, &bodies[number % bodies.len()]));
        receiving.spawn(receive(server.connect(&to).await?, id, Arc::clone(&received)));
    }
    let outcome = match bench.load {
        PairsLoad::Given(load) => offer(load, bench.seconds, senders, &received, &server, directory).await?.0,
        PairsLoad::Half => {
            let seconds = bench.seconds.min(SEARCH_SECONDS);
            step("measuring the full rate with one send in flight per pair");
            let (full, senders) =
                offer(Load::Window(1), seconds, senders, &received, &server, directory).await?;
            let full = full.stored_per_second();
            report.figure("full_rate_per_second", "full rate, one send in flight per pair", full, "/s");
            let half = Load::Rate { per_second: (full / 2.0).max(1.0) as u64, bound: 1 };
            step("offering half of the full rate");
            offer(half, bench.seconds, senders, &received, &server, directory).await?.0
        }
    };
    dismiss(receiving).await?;
    outcome.put_into(&mut report);
    report.latencies("one_fsync", "one fsync of this disk", &fsync);
    if let PairsLoad::Half = bench.load {
        put_ratios(&outcome, fsync.quantile_ms(0.5), fsync.quantile_ms(0.99), &mut report);
    }
    outcome.costs.put_into(&mut report, "message", outcome.messages());
    let start = server.started_in.as_secs_f64() * 1e3;
    report.figure("server_start_ms", "start of the server", start, "ms");
    server.stop().await?;
    Ok(report)
}

fn put_ratios(outcome: &LoadOutcome, fsync_p50_ms: f64, fsync_p99_ms: f64, report: &mut BenchReport) {
    let ack = outcome.ack_p99_ms();
    report.figure(
        "ack_p99_per_fsync_p99_times",
        "p99 of an ack relative to p99 of one fsync",
        ack / fsync_p99_ms,
        "times",
    );
    report.figure(
        "ack_p99_per_fsync_p50_times",
        "p99 of an ack relative to p50 of one fsync",
        ack / fsync_p50_ms,
        "times",
    );
}
