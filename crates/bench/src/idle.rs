//! Connections that do nothing: how quickly they come, and what each costs the server.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::task::JoinSet;

use crate::BenchError;
use crate::measure::Latencies;
use crate::scratch::in_scratch;
use crate::seed::person;
use crate::under_test::{ServerUnderTest, client_failed, connect};

#[derive(Clone, Debug)]
pub struct IdleBench {
    pub directory: PathBuf,
    /// The program to measure.
    pub binary: PathBuf,
    pub connections: usize,
}

/// How many say hello at the same time.
const AT_ONCE: usize = 64;
/// The server has nothing to do any more when it is measured.
const REST: Duration = Duration::from_secs(2);

pub fn run(bench: IdleBench) -> Result<(), BenchError> {
    allow_files(bench.connections as u64 + 1_024)?;
    in_scratch(&bench.directory, 1, measure(&bench))
}

/// Both sides need a file for each connection; the server inherits what is allowed here.
fn allow_files(wanted: u64) -> Result<(), BenchError> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        let raised = Rlimit { current: Some(wanted), maximum: limit.maximum };
        setrlimit(Resource::Nofile, raised).map_err(|_| {
            client_failed(format!("{wanted} open files are not allowed here; see ulimit -Hn"))
        })?;
    }
    Ok(())
}

async fn measure(bench: &IdleBench) -> Result<(), BenchError> {
    println!("idle: {} connections", bench.connections);
    let server = ServerUnderTest::start(&bench.binary, &bench.directory).await?;
    let mut tokens = Vec::with_capacity(bench.connections);
    for number in 0..bench.connections {
        tokens.push(server.token(&person("idle", number))?);
    }
    tokio::time::sleep(REST).await;
    let (before, cpu) = (server.resident_bytes(), server.cpu_seconds());
    let caught_up = Arc::new(Latencies::default());
    let started = Instant::now();
    let mut held = Vec::with_capacity(bench.connections);
    let mut connecting = JoinSet::new();
    for token in tokens {
        if connecting.len() >= AT_ONCE
            && let Some(joined) = connecting.join_next().await
        {
            held.push(joined.map_err(client_failed)??);
        }
        let (door, caught_up) = (server.door.clone(), Arc::clone(&caught_up));
        connecting.spawn(async move {
            let started = Instant::now();
            let link = connect(&door, &token, |_| ()).await?;
            caught_up.record(started.elapsed());
            Ok::<_, BenchError>(link)
        });
    }
    while let Some(joined) = connecting.join_next().await {
        held.push(joined.map_err(client_failed)??);
    }
    let took = started.elapsed();
    tokio::time::sleep(REST).await;
    let after = server.resident_bytes();
    let connections = bench.connections as f64;
    println!();
    println!("connect, hello, caught_up    {:>12.0} /s", connections / took.as_secs_f64());
    println!("connect to caught_up         {}", caught_up.summary());
    println!(
        "CPU of the server            {:>12.0} µs a connection",
        (server.cpu_seconds() - cpu) * 1e6 / connections
    );
    println!(
        "server memory                {:>12.0} bytes a connection",
        after.saturating_sub(before) as f64 / connections
    );
    println!("resident memory              {after:>12} bytes");
    drop(held);
    Ok(())
}
