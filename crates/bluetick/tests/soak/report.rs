//! The report of a run: the trends, a table, a graph.

use bluetick_testkit::graph::{Graph, GraphLine, Panel};
use bluetick_testkit::soak::sampler::Sample;
use bluetick_testkit::soak::trend::{Allowance, Flatness};
use bluetick_testkit::soak::{SoakPlan, Verdict};

/// One mebibyte, in bytes.
const MEBIBYTE: f64 = 1_048_576.0;

/// Allowed growth of memory after warm-up: for the allocator and the caches, and per hour for
/// fragmentation.
const MEMORY: Allowance = Allowance { absolute: 8.0 * MEBIBYTE, share_an_hour: 0.05 };
/// Memory of one pool thread: its stack and its allocator cache. The measurement subtracts it,
/// because the number of threads depends on the load of the machine.
const POOL_THREAD_BYTES: f64 = 256.0 * 1024.0;
/// Allowed growth of handles other than connections: files of the store and the archive, and HTTP
/// requests.
const HANDLES: Allowance = Allowance { absolute: 8.0, share_an_hour: 0.0 };
/// Allowed growth of threads outside of the pool. Their number is constant, except for one that
/// hashes passwords now and then.
const THREADS: Allowance = Allowance { absolute: 1.0, share_an_hour: 0.0 };

/// The trends of memory, handles and threads.
pub struct Flat {
    memory: Flatness,
    handles: Flatness,
    threads: Flatness,
}

impl Flat {
    pub fn of(samples: &[Sample]) -> Flat {
        let trend = |allowance, of: fn(&Sample) -> f64| {
            let points: Vec<_> = samples.iter().map(|sample| (sample.second, of(sample))).collect();
            Flatness::of(&points, allowance).expect("the run has enough samples for a trend")
        };
        Flat {
            memory: trend(MEMORY, |sample| sample.own_bytes - sample.pool_threads * POOL_THREAD_BYTES),
            handles: trend(HANDLES, |sample| sample.handles - sample.connections),
            threads: trend(THREADS, |sample| sample.own_threads),
        }
    }

    pub fn assert(&self) {
        assert!(self.memory.is_flat(), "memory grows: {} (bytes)", self.memory);
        assert!(self.handles.is_flat(), "the number of file handles grows: {}", self.handles);
        assert!(self.threads.is_flat(), "the number of threads grows: {}", self.threads);
    }
}

/// Allowed number of additional open handles after the load: spare log segments and archive
/// objects.
pub const HANDLES_AT_REST: usize = 8;

pub fn print(
    plan: &SoakPlan,
    samples: &[Sample],
    flat: &Flat,
    (before, after): (usize, usize),
    verdict: &Verdict,
) {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else { return };
    let most = |of: fn(&Sample) -> f64| samples.iter().map(of).fold(0.0, f64::max);
    let middle = |of: fn(&Sample) -> f64| {
        let mut values: Vec<f64> = samples.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let seconds = last.second - first.second;
    let mebibytes = |bytes: f64| format!("{:.1} MiB", bytes / MEBIBYTE);
    let happened = verdict.happened;
    let trend = flat.memory;
    println!("\n{plan}\n");
    for (name, value) in [
        ("time", format!("{:.0} s, {} samples", last.second, samples.len())),
        (
            "stored",
            format!(
                "{} messages, {:.0} a second ({} offered)",
                verdict.messages,
                (last.stored - first.stored) / seconds,
                plan.rate
            ),
        ),
        ("frames pushed", format!("{:.0} a second", (last.pushes - first.pushes) / seconds)),
        (
            "due to ack, median of the seconds",
            format!("p50 {:.2}, p99 {:.2} ms", middle(|s| s.ack_p50_ms), middle(|s| s.ack_p99_ms)),
        ),
        ("due to ack, worst second", format!("p99 {:.1} ms", most(|s| s.ack_p99_ms))),
        (
            "own memory",
            format!(
                "{} at first, {} at the end, {} at most",
                mebibytes(first.own_bytes),
                mebibytes(last.own_bytes),
                mebibytes(most(|s| s.own_bytes))
            ),
        ),
        (
            "the same besides the pool's threads, trend",
            format!(
                "{:+.2} MiB in {:.0} s of median {:.1} MiB; allowed +{:.2}",
                trend.growth / MEBIBYTE,
                trend.seconds,
                trend.median / MEBIBYTE,
                trend.allowed / MEBIBYTE
            ),
        ),
        ("pages of files in memory", format!("{} at most", mebibytes(most(|s| s.file_bytes)))),
        ("file handles besides connections", flat.handles.to_string()),
        ("threads besides the pool's", flat.threads.to_string()),
        (
            "threads of the pool",
            format!("median {:.0}, maximum {:.0}", middle(|s| s.pool_threads), most(|s| s.pool_threads)),
        ),
        ("file handles at rest, before and after", format!("{before} and {after}")),
        (
            "connections at a time",
            format!("median {:.0}, maximum {:.0}", middle(|s| s.connections), most(|s| s.connections)),
        ),
        ("waiting in outboxes", format!("{:.0} bytes at most", most(|s| s.outbox_bytes))),
        ("checkpoints", format!("{:.0}", last.checkpoints)),
        (
            "archive",
            format!(
                "{:.0} messages moved in {:.0} runs, {:.0} parts read back",
                last.archived, last.archive_runs, last.frame_reads
            ),
        ),
        ("disk", format!("{} data, {} archive", mebibytes(last.data_bytes), mebibytes(last.archive_bytes))),
        (
            "checked",
            format!(
                "{} messages compared, {} ticks, {} unread; the checker used {:.1} MiB",
                verdict.messages,
                verdict.seats,
                verdict.unread,
                verdict.ledger_bytes as f64 / MEBIBYTE
            ),
        ),
    ] {
        println!("{name:<42} {value}");
    }
    println!("{happened:?}");
}

pub fn graph(samples: &[Sample]) -> Graph {
    let line = |name: &str, colour, of: &dyn Fn(&Sample) -> f64| GraphLine {
        name: name.to_owned(),
        colour,
        points: samples.iter().map(|sample| (sample.second, of(sample))).collect(),
    };
    let panel = |lines, least_top| Panel { lines, least_top };
    let mebibytes = |of: fn(&Sample) -> f64| move |sample: &Sample| of(sample) / MEBIBYTE;
    Graph {
        seconds: samples.last().map_or(1.0, |sample| sample.second),
        panels: vec![
            panel(
                vec![line("memory of the server, MiB", "#b2401f", &mebibytes(|sample| sample.own_bytes))],
                10.0,
            ),
            panel(
                vec![
                    line("file handles", "#1f6fb2", &|sample| sample.handles),
                    line("connections", "#8fb8d8", &|sample| sample.connections),
                    line("threads", "#806020", &|sample| sample.pool_threads + sample.own_threads),
                ],
                10.0,
            ),
            panel(
                vec![
                    line("due to ack, ms: p99", "#1f6fb2", &|sample| sample.ack_p99_ms),
                    line("p50", "#2e8b57", &|sample| sample.ack_p50_ms),
                ],
                1.0,
            ),
            panel(
                vec![line("acknowledged per second, of those due while connected", "#2e8b57", &|sample| {
                    sample.acks
                })],
                10.0,
            ),
            panel(
                vec![
                    line("thousand messages: stored", "#555555", &|sample| sample.stored / 1e3),
                    line("in the archive", "#b2401f", &|sample| sample.archived / 1e3),
                ],
                1.0,
            ),
            panel(
                vec![
                    line("disk, MiB: data", "#555555", &mebibytes(|sample| sample.data_bytes)),
                    line("archive", "#b2401f", &mebibytes(|sample| sample.archive_bytes)),
                ],
                10.0,
            ),
        ],
        bands: Vec::new(),
    }
}
