//! The `reconnect` workload: all devices, each with missed messages, connect to a freshly started
//! server at once.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use bluetick_client::link::{ClientFrame, Frame, ServerFrame};
use bluetick_core::ports::Store;
use tokio::task::JoinSet;

use crate::data_directory::Ground;
use crate::files::allow_files;
use crate::latencies::Latencies;
use crate::progress::step;
use crate::seed::{SeededChat, always, fill, open, person};
use crate::under_test::{ServerUnderTest, client_failed, connect};
use crate::websocket::LoadConnection;
use crate::{BenchError, BenchReport};

#[derive(Clone, Debug)]
pub struct ReconnectBench {
    pub directory: PathBuf,
    /// Path of the server binary under test.
    pub binary: PathBuf,
    pub devices: usize,
    pub missed: usize,
}

pub fn run(bench: ReconnectBench) -> Result<BenchReport, BenchError> {
    allow_files(bench.devices as u64)?;
    Ground::bare(bench.directory.clone()).run(1, measure(&bench))
}

async fn measure(bench: &ReconnectBench) -> Result<BenchReport, BenchError> {
    let mut report = BenchReport::new("reconnect")
        .parameter("devices", bench.devices as u64)
        .parameter("missed_messages_each", bench.missed as u64);
    step("storing the missed messages");
    let store = open(&bench.directory)?;
    let text = always("see you tomorrow at the station, platform five, bring the keys please");
    let chats = (0..bench.devices).map(|number| SeededChat {
        from: person("sender", number),
        to: person("device", number),
        messages: bench.missed,
    });
    fill(&store, chats, &text).await?;
    store.close().await;
    drop(store);

    let server = ServerUnderTest::start(&bench.binary, &bench.directory).await?;
    let mut devices = Vec::with_capacity(bench.devices);
    for number in 0..bench.devices {
        devices.push(server.token(&person("device", number))?);
    }
    step("reconnecting all devices");
    let resident = server.resident_bytes();
    let meter = server.meter(&bench.directory).await?;
    let started = Instant::now();
    let caught_up = Arc::new(Latencies::default());
    let mut connecting = JoinSet::new();
    for token in devices {
        let (address, caught_up) = (server.address, Arc::clone(&caught_up));
        connecting.spawn(async move {
            let received = catch_up(address, &token).await?;
            caught_up.record(started.elapsed());
            Ok::<_, BenchError>(received)
        });
    }
    let (mut received, mut held) = (0, Vec::with_capacity(bench.devices));
    while let Some(joined) = connecting.join_next().await {
        let (messages, line) = joined.map_err(client_failed)??;
        received += messages;
        held.push(line);
    }
    let costs = meter.read().await?;
    let expected = bench.devices * bench.missed;
    if received != expected {
        return Err(BenchError::Client(format!("{received} messages arrived instead of {expected}")));
    }
    let devices = bench.devices as f64;
    report.figure("backlog_messages", "messages in the backlogs", received as f64, "");
    report.figure("all_caught_up_seconds", "time to the last caught_up", costs.seconds, "s");
    report.figure("sessions_per_second", "connect, hello, caught_up", devices / costs.seconds, "/s");
    report.figure("backlog_messages_per_second", "backlog messages", received as f64 / costs.seconds, "/s");
    report.latencies("storm_to_caught_up", "start of the storm to caught_up", &caught_up);
    costs.put_into(&mut report, "device", bench.devices as u64);
    report.figure(
        "server_resident_before_bytes",
        "resident memory of the server, before",
        resident as f64,
        "bytes",
    );
    drop(held);
    Ok(report)
}

/// Catches up, acknowledges the last message and returns the number of messages with the open
/// connection.
async fn catch_up(to: SocketAddr, token: &str) -> Result<(usize, LoadConnection), BenchError> {
    let (mut messages, mut last) = (0, Vec::new());
    let mut line = connect(to, None, token, |message| {
        messages += 1;
        last.clear();
        last.extend_from_slice(message);
    })
    .await?;
    if messages > 0 {
        let frame = Frame::new(String::from_utf8(last).map_err(client_failed)?.into());
        if let ServerFrame::Message(last) = frame.decode().map_err(client_failed)? {
            let (conversation_id, seq) = (last.conversation_id, last.seq);
            line.put(&ClientFrame::Delivered { conversation_id, seq });
            line.flush().await?;
        }
    }
    Ok((messages, line))
}
