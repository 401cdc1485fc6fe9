//! Offers load to a server for a number of seconds and collects the outcome.

use std::path::Path;
use std::sync::Arc;

use tokio::task::JoinSet;

use crate::BenchError;
use crate::report::BenchReport;
use crate::schedule::{Pacer, Schedule};
use crate::traffic::{LoadSender, LoadTally};
use crate::under_test::{Costs, ServerUnderTest, client_failed};

/// How the senders schedule their messages.
#[derive(Clone, Copy, Debug)]
pub enum Load {
    /// A closed loop: each sender keeps this many messages unacknowledged and sends the next one
    /// after each ack.
    Window(usize),
    /// An open loop: all senders together send `per_second` messages, regardless of the acks. Each
    /// sender has at most `bound` unacknowledged messages.
    Rate { per_second: u64, bound: usize },
}

impl Load {
    pub fn describe(self, report: BenchReport) -> BenchReport {
        match self {
            Load::Window(window) => report.parameter("window", window as u64),
            Load::Rate { per_second, bound } => {
                report.parameter("rate_per_second", per_second).parameter("outstanding_bound", bound as u64)
            }
        }
    }
}

/// The measurements of one load phase.
pub struct LoadOutcome {
    tally: Arc<LoadTally>,
    acknowledged: u64,
    pub delivered: u64,
    pub costs: Costs,
    /// In an open loop: the offered rate per second and the number of messages that were due.
    offered: Option<(u64, u64)>,
}

/// Minimum share of due messages that must be acknowledged in time. Below this share the report
/// remarks that the rate was not kept.
const KEPT: f64 = 0.99;

/// Runs the senders for `seconds` and returns them when all their messages are acknowledged.
/// `received` is the receivers' tally.
pub async fn offer(
    load: Load,
    seconds: u64,
    senders: Vec<LoadSender>,
    received: &LoadTally,
    server: &ServerUnderTest,
    directory: &Path,
) -> Result<(LoadOutcome, Vec<LoadSender>), BenchError> {
    let tally = Arc::new(LoadTally::default());
    let delivered_before = received.counts().1;
    let meter = server.meter(directory).await?;
    let mut talking = JoinSet::new();
    let pacer = match load {
        Load::Window(_) => None,
        Load::Rate { per_second, .. } => Some(Pacer::start(Schedule::new(per_second, senders.len()))),
    };
    for (place, sender) in senders.into_iter().enumerate() {
        let tally = Arc::clone(&tally);
        match (load, &pacer) {
            (Load::Rate { bound, .. }, Some(pacer)) => {
                talking.spawn(sender.keep_pace(place, bound, Arc::clone(pacer), tally))
            }
            (Load::Rate { bound: window, .. } | Load::Window(window), _) => {
                talking.spawn(sender.keep_window(window, tally))
            }
        };
    }
    tally.watch(seconds, received, &mut talking).await?;
    let (acknowledged, delivered) = tally.counts();
    let delivered = delivered + received.counts().1 - delivered_before;
    let offered = match (load, &pacer) {
        (Load::Rate { per_second, .. }, Some(pacer)) => Some((per_second, pacer.turns())),
        _ => None,
    };
    let costs = meter.read().await?;
    tally.stop();
    if let Some(pacer) = pacer {
        pacer.stop();
    }
    let mut senders = Vec::with_capacity(talking.len());
    while let Some(ended) = talking.join_next().await {
        senders.push(ended.map_err(client_failed)??);
    }
    Ok((LoadOutcome { tally, acknowledged, delivered, costs, offered }, senders))
}

impl LoadOutcome {
    pub fn stored_per_second(&self) -> f64 {
        self.acknowledged as f64 / self.costs.seconds
    }

    pub fn ack_p50_ms(&self) -> f64 {
        self.tally.acks.quantile_ms(0.5)
    }

    pub fn ack_p99_ms(&self) -> f64 {
        self.tally.acks.quantile_ms(0.99)
    }

    /// Returns the average number of CPU cores that the server used.
    pub fn server_cores(&self) -> f64 {
        self.costs.server_cpu_seconds / self.costs.seconds
    }

    /// Returns the percentage of due messages that were acknowledged in time. In a closed loop it
    /// is 100.
    pub fn kept_percent(&self) -> f64 {
        let due = self.offered.map_or(self.acknowledged, |(_, due)| due);
        self.acknowledged as f64 * 100.0 / due.max(1) as f64
    }

    /// Adds rates and latencies to the report. The caller adds the costs separately.
    pub fn put_into(&self, report: &mut BenchReport) {
        if let Some((per_second, due)) = self.offered {
            report.figure("offered_per_second", "offered", per_second as f64, "/s");
            let waiting = due.saturating_sub(self.acknowledged);
            report.figure(
                "unanswered_at_the_end_messages",
                "due and not acknowledged at the end",
                waiting as f64,
                "messages",
            );
            if (self.acknowledged as f64) < due as f64 * KEPT {
                report.remark(format!(
                    "the rate was not kept: {due} messages were due, {} were acknowledged in time; \
                     latencies grow with the length of such a run",
                    self.acknowledged
                ));
            }
        }
        report.figure("stored_per_second", "stored and acknowledged", self.stored_per_second(), "/s");
        let delivered = self.delivered as f64 / self.costs.seconds;
        report.figure("delivered_per_second", "delivered", delivered, "/s");
        if self.offered.is_some() {
            report.latencies("due_to_ack", "due to ack", &self.tally.acks);
            report.latencies("due_to_written", "due to written, of the bench itself", &self.tally.lateness);
        } else {
            report.latencies("send_to_ack", "send to ack", &self.tally.acks);
        }
    }

    pub fn messages(&self) -> u64 {
        self.acknowledged
    }
}

/// Returns an error if a receiver has failed, then aborts all receivers and closes their
/// connections.
pub async fn dismiss(mut receiving: JoinSet<Result<(), BenchError>>) -> Result<(), BenchError> {
    while let Some(ended) = receiving.try_join_next() {
        ended.map_err(client_failed)??;
    }
    receiving.shutdown().await;
    Ok(())
}
