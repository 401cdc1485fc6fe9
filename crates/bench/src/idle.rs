//! The `idle` workload. It measures how fast idle connections are established, what each costs, and
//! whether they stay open.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::data_directory::Ground;
use crate::files::allow_files;
use crate::latencies::Latencies;
use crate::measure::{kernel_slab_bytes, kernel_tcp_bytes, resident_bytes};
use crate::progress::{ProgressLine, step};
use crate::seed::person;
use crate::under_test::{Costs, ServerUnderTest, client_failed, connect};
use crate::websocket::LoadConnection;
use crate::{BenchError, BenchReport};

#[derive(Clone, Debug)]
pub struct IdleBench {
    pub directory: PathBuf,
    /// Path of the server binary under test.
    pub binary: PathBuf,
    pub connections: usize,
    /// Number of connections that are established concurrently.
    pub at_once: usize,
    /// How long all connections are held open, in seconds.
    pub hold_seconds: u64,
}

/// Pause before each memory measurement, so that the server is idle by then.
const REST: Duration = Duration::from_secs(2);
/// Number of connections per source address. It must not exceed the ports available above
/// `FIRST_PORT`.
const CONNECTIONS_AN_ADDRESS: usize = 25_000;
/// First source port. With `CONNECTIONS_AN_ADDRESS` ports, the range stays below the kernel's
/// ephemeral ports.
const FIRST_PORT: u16 = 7_000;

pub fn run(bench: IdleBench) -> Result<BenchReport, BenchError> {
    allow_files(bench.connections as u64)?;
    Ground::bare(bench.directory.clone()).run(1, measure(&bench))
}

/// Returns the source address of a connection. Each address from 127.0.0.2 on provides
/// `CONNECTIONS_AN_ADDRESS` consecutive ports.
fn source(number: usize) -> SocketAddr {
    let address = u32::from(Ipv4Addr::LOCALHOST) + 1 + (number / CONNECTIONS_AN_ADDRESS) as u32;
    let port = FIRST_PORT + (number % CONNECTIONS_AN_ADDRESS) as u16;
    SocketAddr::from((Ipv4Addr::from(address), port))
}

struct Memory {
    server: u64,
    bench: u64,
    kernel_slab: u64,
    kernel_buffers: u64,
}

impl Memory {
    fn now(server: &ServerUnderTest) -> Memory {
        Memory {
            server: server.resident_bytes(),
            bench: resident_bytes(),
            kernel_slab: kernel_slab_bytes(),
            kernel_buffers: kernel_tcp_bytes(),
        }
    }
}

async fn measure(bench: &IdleBench) -> Result<BenchReport, BenchError> {
    let mut report = BenchReport::new("idle")
        .parameter("connections", bench.connections as u64)
        .parameter("at_once", bench.at_once as u64)
        .parameter("hold_seconds", bench.hold_seconds);
    let allowed = (bench.connections + 64).to_string();
    let settings = [("BLUETICK_LIMITS__CONNECTIONS", allowed.as_str())];
    let server = ServerUnderTest::start_with(&bench.binary, &bench.directory, &settings).await?;
    step("making tokens");
    let mut tokens = Vec::with_capacity(bench.connections);
    for number in 0..bench.connections {
        tokens.push(server.token(&person("idle", number))?);
    }
    tokio::time::sleep(REST).await;
    let token_bytes: usize = tokens.iter().map(|token| token.len().next_multiple_of(16) + 16).sum();
    let before = Memory::now(&server);
    let meter = server.meter(&bench.directory).await?;
    let caught_up = Arc::new(Latencies::default());
    let lost = Arc::new(AtomicUsize::new(0));
    let held = connect_all(bench, &server, tokens, &caught_up, &lost).await?;
    let costs = meter.read().await?;
    let wait = REST + Duration::from_secs(bench.hold_seconds);
    step(&format!("holding {} connections for {} s", bench.connections, wait.as_secs()));
    tokio::time::sleep(wait).await;
    let after = Memory::now(&server);
    let lost = lost.load(Ordering::Relaxed);
    if lost > 0 {
        return Err(client_failed(format!(
            "{lost} of {} connections were closed before the end",
            bench.connections
        )));
    }
    drop(held);
    put_into(&mut report, bench, &costs, &caught_up);
    put_memory(&mut report, bench.connections as f64, token_bytes as u64, &before, &after);
    Ok(report)
}

/// Establishes all connections, at most `at_once` at a time. Each connection then waits in its own
/// task, which answers pings.
async fn connect_all(
    bench: &IdleBench,
    server: &ServerUnderTest,
    tokens: Vec<String>,
    caught_up: &Arc<Latencies>,
    lost: &Arc<AtomicUsize>,
) -> Result<JoinSet<()>, BenchError> {
    let mut held = JoinSet::new();
    let mut connecting = JoinSet::new();
    let (mut progress, mut shown) = (ProgressLine::new(), Instant::now());
    let mut keep = |line: LoadConnection| {
        held.spawn(hold(line, Arc::clone(lost)));
    };
    for (number, token) in tokens.into_iter().enumerate() {
        if connecting.len() >= bench.at_once
            && let Some(joined) = connecting.join_next().await
        {
            keep(joined.map_err(client_failed)??);
        }
        if shown.elapsed() >= Duration::from_secs(1) {
            progress.show(&format!("{number} connected"));
            shown = Instant::now();
        }
        let (address, caught_up) = (server.address, Arc::clone(caught_up));
        connecting.spawn(async move {
            let started = Instant::now();
            let line = connect(address, Some(source(number)), &token, |_| ()).await?;
            caught_up.record(started.elapsed());
            Ok::<_, BenchError>(line)
        });
    }
    while let Some(joined) = connecting.join_next().await {
        keep(joined.map_err(client_failed)??);
    }
    Ok(held)
}

async fn hold(mut line: LoadConnection, lost: Arc<AtomicUsize>) {
    line.slim();
    while line.frames(|_, _| ()).await.is_ok() {
        line.slim();
    }
    lost.fetch_add(1, Ordering::Relaxed);
}

fn put_into(report: &mut BenchReport, bench: &IdleBench, costs: &Costs, caught_up: &Latencies) {
    let rate = bench.connections as f64 / costs.seconds;
    report.figure("sessions_per_second", "connect, hello, caught_up", rate, "/s");
    report.latencies("connect_to_caught_up", "connect to caught_up", caught_up);
    costs.put_into(report, "connection", bench.connections as u64);
}

fn put_memory(report: &mut BenchReport, connections: f64, token_bytes: u64, before: &Memory, after: &Memory) {
    let mut each = |key: &str, label: &str, before: u64, after: u64| {
        let bytes = after.saturating_sub(before) as f64 / connections;
        report.figure(format!("{key}_bytes_per_connection"), label, bytes, "bytes a connection");
    };
    each("server_resident", "memory of the server", before.server, after.server);
    // The bench held the tokens before the run and drops them while connecting. Subtract them from
    // the first value.
    let bench_before = before.bench.saturating_sub(token_bytes);
    each("bench_resident", "memory of the bench", bench_before, after.bench);
    each("kernel_slab", "memory of the kernel, both ends", before.kernel_slab, after.kernel_slab);
    each("kernel_tcp_buffer", "of which buffers", before.kernel_buffers, after.kernel_buffers);
    report.figure("server_resident_bytes", "resident memory of the server", after.server as f64, "bytes");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_million_connections_use_distinct_source_addresses() {
        let all: std::collections::HashSet<SocketAddr> = (0..500_000).map(source).collect();
        assert_eq!(all.len(), 500_000);
        assert!(all.iter().all(|from| from.ip().is_loopback() && from.port() < 32_768));
        assert_eq!(source(25_000).to_string(), "127.0.0.3:7000");
    }
}
